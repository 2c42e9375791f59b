"""Memory for results: a part of the batch that a thread is making, or their own; and work in strips."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

_LARGE = 1 << 22  # bytes: from this size on numpy asks the system for huge pages
STRIP = 1 << 14
"""The number of pixels of a float32 tensor that stays in the CPU's cache."""
_KNOWN = {torch.uint8: np.uint8, torch.float32: np.float32}


def is_large(shape: tuple[int, ...], dtype: torch.dtype) -> bool:
    """True if `fresh` and `zeros` allocate with numpy rather than torch."""
    return dtype in _KNOWN and math.prod(shape) * dtype.itemsize >= _LARGE


def fresh(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """An uninitialised tensor. (Writing 240 MB for the first time takes 95 ms in torch's memory, 25 in this.)"""
    if not is_large(shape, dtype):
        return torch.empty(shape, dtype=dtype)
    return torch.from_numpy(np.empty(shape, _KNOWN[dtype]))


def strips(image: torch.Tensor) -> Iterator[slice]:
    """Slices of the rows of a tensor ``(C, H, W)``: strips of at most `STRIP` pixels, or of one row."""
    rows = max(1, STRIP // max(1, image.shape[2]))
    return (slice(top, top + rows) for top in range(0, image.shape[1], rows))


class BatchResults:
    """The results of the batch that a thread is making. This base gives each its own memory.

    Attributes:
        later: results should stay without pixels until they are stacked.
    """

    later = False

    def begin_sample(self) -> None:
        """Begins the next sample. Without calls, no result is assigned to a sample."""

    def take(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor | None:
        """An uninitialised, contiguous tensor on the batch's memory, with its own storage; None for new memory."""
        return None

    def add_pending(self, tensor: torch.Tensor) -> None:
        """Adds a tensor without pixels, which takes no memory yet."""


class _Thread(threading.local):
    """The `BatchResults` of a thread's `results_in` block; a missing attribute takes time."""

    results: BatchResults | None = None


_thread = _Thread()


def batch_results() -> BatchResults | None:
    """The `BatchResults` of this thread's `results_in` block; None outside of one."""
    return _thread.results


@contextmanager
def results_in(results: BatchResults | None) -> Iterator[None]:
    """Makes `new_result` ask ``results`` within the block, in this thread; None for memory of each result's own."""
    before = batch_results()
    _thread.results = results
    try:
        yield
    finally:
        _thread.results = before


def new_result(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """An uninitialised tensor for an image that is handed out, in its batch's memory if there is one."""
    results = batch_results()
    taken = None if results is None else results.take(shape, dtype)
    return fresh(shape, dtype) if taken is None else taken
