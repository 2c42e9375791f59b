"""Stacks tensors as torch's ``default_collate`` does, in memory that is reused.

In a loader's worker the memory is shared with the main process, so that only the batch's position in it is sent
(`fastpipe.memory.shm_pool`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import get_worker_info

from fastpipe.errors import LoaderError
from fastpipe.memory.host_pool import SMALL, reused_bytes, tensor_on
from fastpipe.memory.shm_pool import lent_bytes
from fastpipe.pending import is_pending, plain_class
from fastpipe.plain_lookup import is_a
from fastpipe.torch_modes import stacks_as_tensor

_SMALL_SHARED = 1 << 16
"""The least bytes of a batch for which shared memory is reused; new memory costs page faults in both processes."""


def stacked(batch: object) -> torch.Tensor | None:
    """Stacks tensors in memory that is reused; None if torch has to do it."""
    if not are_alike(batch):
        return None
    first = batch[0]
    if first.ndim > 3 and not all(one.is_contiguous() for one in batch):  # torch may keep such a tensor's memory layout
        return None
    memory = new_places(first.nbytes * len(batch))
    if memory is None:
        return None
    out = tensor_on(memory, (len(batch), *first.shape), first.dtype)
    if any(map(is_pending, batch)) and not torch._C._len_torch_dispatch_stack():
        from fastpipe.program.pending_tensor import write_stack  # imported, as there are pending tensors

        write_stack(batch, out)
        return out
    is_plain = plain_class(first) is torch.Tensor
    plain = [*batch] if is_plain else [one.as_subclass(torch.Tensor) for one in batch]
    return torch.stack(plain, out=out)


def are_alike(batch: object) -> TypeGuard[Sequence[torch.Tensor]]:
    """True for tensors of one class, shape and dtype that can be stacked by copying values; some may be pending."""
    if not is_a(batch, (list, tuple)) or len(batch) < 2:
        return False
    first = batch[0]
    plain = plain_class(first)
    if not stacks_as_tensor(plain):
        return False
    with torch._C.DisableTorchFunctionSubclass():  # a pending tensor answers without its pixels
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


def new_places(size: int) -> NDArray[np.uint8] | None:
    """At least `size` uninitialised bytes, reused once this array object is gone; None if torch has to allocate."""
    if get_worker_info() is None:
        return reused_bytes(size) if size >= SMALL else None
    if size < _SMALL_SHARED:
        return None
    try:
        return lent_bytes(size)
    except LoaderError:  # torch's own collating will raise its error about it
        return None
