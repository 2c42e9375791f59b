"""Makes workers of torch's own loader reuse the shared memory of batches.

torch allocates new shared memory for each batch, and sends a file descriptor for each tensor. The system clears and
maps every page for both the worker and the main process, which takes as long as decoding.
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
"""The most pieces of a worker: for batches made ahead, and some that the user keeps."""
_WORKER_LOOP, _RESULTS = "_worker_loop", "data_queue"
"""The worker function of torch's and torchdata's loaders, and its local variable with the queue of batches."""


def serve_torch_loader() -> None:
    """Makes a worker of torch's loader stack and send tensors as fastpipe's does, unless it already does."""
    if get_worker_info() is None or is_begun() or sys.platform != "linux":
        return
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_name != _WORKER_LOOP:
        frame = frame.f_back
    if frame is not None:  # else it was called in a thread of the user's
        send_directly(frame.f_locals.get(_RESULTS))


def send_directly(results: object) -> None:
    """Makes a worker stack batches in memory that is reused, and send only their position in it.

    Args:
        results: the worker's queue of batches. Nothing changes if it isn't multiprocessing's queue, or if there is no
            shared memory left, about which torch will raise its own error.
    """
    if type(results) not in (Queue, DirectQueue):
        return
    begin_worker(_PIECES)
    try:
        worker_pieces()
    except LoaderError:
        return
    results.__class__ = DirectQueue
    if collate.default_collate_fn_map.get(torch.Tensor) is collate.collate_tensor_fn:  # nobody else has replaced it
        collate.default_collate_fn_map[torch.Tensor] = _collated


def _collated(batch: list[torch.Tensor], *, collate_fn_map: Any = None) -> torch.Tensor:
    stack = stacked(batch)
    return collate.collate_tensor_fn(batch, collate_fn_map=collate_fn_map) if stack is None else stack
