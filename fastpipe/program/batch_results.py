"""The memory of a thread's results while it makes a batch: their own, or a part of the batch's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from fastpipe.kernels.memory import fresh


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


_thread = threading.local()


def batch_results() -> BatchResults | None:
    """The `BatchResults` of this thread's `results_in` block; None outside of one."""
    results: BatchResults | None = getattr(_thread, "results", None)
    return results


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
