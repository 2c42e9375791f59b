"""Workers of torch's own loader: their batches in shared memory that is used again.

torch takes new shared memory for each batch, and sends a file descriptor for each tensor. The system clears and maps
every page, for the worker and for the main process, which takes as long as decoding.
"""

from __future__ import annotations

import sys
from multiprocessing.queues import Queue
from types import FrameType
from typing import Any

import torch
from torch.utils.data import get_worker_info
from torch.utils.data._utils import collate

from fastpipe.errors import LoaderError
from fastpipe.memory.shm_pool import begin_worker, is_begun, worker_pieces
from fastpipe.memory.stacking import stacked
from fastpipe.memory.worker_queue import DirectQueue

_PIECES = 64
"""Results of batches that a worker has in shared memory at a time: of those made ahead, and of some that are kept."""
_WORKER_LOOP, _RESULTS = "_worker_loop", "data_queue"
"""The function that a worker of torch's or torchdata's runs, and its queue of batches."""


def serve_torch_loader() -> None:
    """Has this process stack and send tensors as fastpipe's loader does, if it is a worker that doesn't yet."""
    if get_worker_info() is None or is_begun() or sys.platform != "linux":
        return
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_name != _WORKER_LOOP:
        frame = frame.f_back
    if frame is not None:  # else a thread of the user's asks
        send_directly(frame.f_locals.get(_RESULTS))


def send_directly(results: object) -> None:
    """Has a worker's batches stacked in memory that is used again, and sent by their place.

    Args:
        results: the worker's queue of batches. One that isn't multiprocessing's stays as it is, and so does any where
            there is no room: torch says so in its own words.
    """
    if type(results) not in (Queue, DirectQueue):
        return
    begin_worker(_PIECES)
    try:
        worker_pieces()
    except LoaderError:
        return
    results.__class__ = DirectQueue
    if collate.default_collate_fn_map.get(torch.Tensor) is collate.collate_tensor_fn:  # nobody has taught it otherwise
        collate.default_collate_fn_map[torch.Tensor] = _collated


def _collated(batch: Any, *, collate_fn_map: Any = None) -> Any:
    made = stacked(batch)
    return collate.collate_tensor_fn(batch, collate_fn_map=collate_fn_map) if made is None else made
