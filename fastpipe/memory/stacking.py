"""Stacks of tensors as torch's ``default_collate`` makes them, in memory that is used again.

In a loader's worker that is shared with the main process, so that a batch is sent by its place
(`fastpipe.memory.shm_pool`).
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import get_worker_info

from fastpipe.errors import LoaderError
from fastpipe.memory.host_pool import SMALL, reused_bytes, tensor_on
from fastpipe.memory.shm_pool import lent_bytes
from fastpipe.program.pending_tensor import is_pending, plain_class, write_stack

_SMALL_SHARED = 1 << 16
"""Bytes of shared memory, each piece of which is new to both processes, from which on it is used again."""


def stacked(batch: Any) -> torch.Tensor | None:
    """A stack in memory that is used again; None where torch is to make it."""
    if not are_alike(batch):
        return None
    first = batch[0]
    if first.ndim > 3 and not all(one.is_contiguous() for one in batch):  # of which torch may keep the layout
        return None
    memory = new_places(first.nbytes * len(batch))
    if memory is None:
        return None
    out = tensor_on(memory, (len(batch), *first.shape), first.dtype)
    if any(map(is_pending, batch)) and not torch._C._len_torch_dispatch_stack():
        write_stack(batch, out)
        return out
    is_plain = plain_class(first) is torch.Tensor
    plain = [*batch] if is_plain else [one.as_subclass(torch.Tensor) for one in batch]
    return torch.stack(plain, out=out)


def are_alike(batch: Any) -> bool:
    """Whether these are tensors whose values alone make the batch, of one shape and dtype; some may have no pixels."""
    if not isinstance(batch, (list, tuple)) or len(batch) < 2:
        return False
    first = batch[0]
    plain = plain_class(first)
    if plain is not torch.Tensor and not _stacks_as_tensor(plain):
        return False
    with torch._C.DisableTorchFunctionSubclass():  # a pending tensor knows this of itself
        if first.layout is not torch.strided or first.device.type != "cpu":
            return False
        shape, dtype = first.shape, first.dtype
        return not any(
            plain_class(one) is not plain
            or one.dtype is not dtype
            or one.shape != shape
            or one.requires_grad
            or one.is_neg()
            or one.is_conj()
            for one in batch
        )


def _stacks_as_tensor(kind: type[Any]) -> bool:
    """Whether a stack of a class's tensors is a plain tensor: torchvision's images make one, unless told otherwise."""
    helpers = sys.modules.get("torchvision.tv_tensors._torch_function_helpers")
    tv_tensors = sys.modules.get("torchvision.tv_tensors")
    if helpers is None or tv_tensors is None or kind is not tv_tensors.Image:
        return False
    return getattr(helpers, "_TORCHFUNCTION_SUBCLASS", True) is False


def new_places(size: int) -> NDArray[np.uint8] | None:
    """At least `size` uninitialised bytes, used again once this very array is gone; None where torch is to allocate."""
    if get_worker_info() is None:
        return reused_bytes(size) if size >= SMALL else None
    if size < _SMALL_SHARED:
        return None
    try:
        return lent_bytes(size)
    except LoaderError:  # no room, as torch's own collating is going to say in its own words
        return None
