"""Workers of torch's own loader: batches of fastpipe's data sets in shared memory that is used again.

torch takes new shared memory for each batch, and sends a file descriptor for each tensor. The system clears and maps
every page, for the worker and for the main process, which takes as long as decoding.
"""

from __future__ import annotations

import sys
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing.reductions import reduce_tensor
from torch.utils.data._utils import collate

from fastpipe.errors import LoaderError
from fastpipe.executor.shm_pool import begin_worker, is_begun
from fastpipe.executor.stacking import stacked
from fastpipe.executor.worker_queue import reduced_tensor

_PIECES = 64
"""Batches that a worker has in shared memory at a time: those made ahead, and some that are kept."""


def serve_torch_loader() -> None:
    """Has this process, a worker that torch's loader started, stack and send tensors as fastpipe's loader does.

    It does nothing in workers that do so already.
    """
    if is_begun() or sys.platform != "linux":
        return
    begin_worker(_PIECES)
    ForkingPickler.register(torch.Tensor, _reduced)
    if collate.default_collate_fn_map.get(torch.Tensor) is collate.collate_tensor_fn:  # nobody has taught it otherwise
        collate.default_collate_fn_map[torch.Tensor] = _collated


def _reduced(tensor: torch.Tensor) -> Any:
    try:
        reduced = reduced_tensor(tensor)
    except LoaderError:  # no room for pieces: torch is going to say in its own words if there is none at all
        reduced = None
    return reduce_tensor(tensor) if reduced is None else reduced  # type: ignore[no-untyped-call]


def _collated(batch: Any, *, collate_fn_map: Any = None) -> Any:
    made = stacked(batch)
    return collate.collate_tensor_fn(batch, collate_fn_map=collate_fn_map) if made is None else made
