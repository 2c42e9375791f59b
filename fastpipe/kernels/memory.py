"""Memory for results: in a batch's tensor if there is one, large tensors in huge pages, and work in strips."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import torch

_LARGE = 1 << 22  # bytes: from this size on numpy asks the system for huge pages
STRIP = 1 << 14
"""The number of pixels of a float32 tensor that stays in the CPU's cache."""
_KNOWN = {torch.uint8: np.uint8, torch.float32: np.float32}


def is_large(shape: tuple[int, ...], dtype: torch.dtype) -> bool:
    """True if `fresh` and `zeros` allocate with numpy rather than torch."""
    return dtype in _KNOWN and math.prod(shape) * dtype.itemsize >= _LARGE


class ResultPlaces(Protocol):
    """Memory of the batch that a thread is making."""

    def take(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor | None:
        """An uninitialised, contiguous tensor with its own storage; None if the batch has no place for it."""


class PendingResult(Protocol):
    """The pending work of a tensor without pixels: see `fastpipe.program.pending_work.PendingWork`."""

    made: torch.Tensor | None

    def owner(self) -> torch.Tensor | None:
        """The tensor; None if it is gone."""

    def held_bytes(self) -> int:
        """Bytes of the file that are kept in memory until the tensor has its pixels."""


MOST_HELD = 1 << 26
"""The most bytes of files that the tensors without pixels of one batch keep in memory."""


class StackedResults:
    """Stands for `ResultPlaces` where results get memory of their own, because a function of the user's may stack them.

    Args:
        later: results are likely to be stacked, so they get their pixels then.

    Attributes:
        later: whether the next results are left without pixels. As given, until a sample has several results or the
            kept files take too much memory.
        pending: the work of tensors whose pixels are made when they are stacked or looked at.
        several: whether a sample has several such tensors.
    """

    def __init__(self, later: bool) -> None:
        self.later = later
        self.pending: list[PendingResult] = []
        self.several = False
        self._first: int | None = None
        self._held = 0

    def begin_sample(self) -> None:
        """Begins the next sample. Without calls, no result is assigned to a sample."""
        self._first = len(self.pending)

    def add(self, work: PendingResult) -> None:
        """Adds the work of a tensor without pixels."""
        self.pending.append(work)
        self._held += work.held_bytes()
        self.several = self.several or (self._first is not None and len(self.pending) - self._first > 1)
        if self.several or self._held > MOST_HELD:
            self.later = False

    def take(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor | None:
        """Returns None: there is no batch; see `ResultPlaces.take`."""
        return None


_thread = threading.local()


def stacked_results() -> StackedResults | None:
    """The `StackedResults` of this thread's `results_in` block; None outside of one, or if it has other places."""
    places = getattr(_thread, "places", None)
    return places if isinstance(places, StackedResults) else None


@contextmanager
def results_in(places: ResultPlaces | None) -> Iterator[None]:
    """Makes `new_result` ask ``places`` within the block, in this thread; None for memory of each result's own."""
    before = getattr(_thread, "places", None)
    _thread.places = places
    try:
        yield
    finally:
        _thread.places = before


def new_result(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """An uninitialised tensor for an image that is handed out, in its batch's memory if there is one."""
    places: ResultPlaces | None = getattr(_thread, "places", None)
    place = None if places is None else places.take(shape, dtype)
    return fresh(shape, dtype) if place is None else place


def fresh(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """An uninitialised tensor. (Writing 240 MB for the first time takes 95 ms in torch's memory, 25 in this.)"""
    if not is_large(shape, dtype):
        return torch.empty(shape, dtype=dtype)
    return torch.from_numpy(np.empty(shape, _KNOWN[dtype]))


def strips(image: torch.Tensor) -> Iterator[slice]:
    """Slices of the rows of a tensor ``(C, H, W)``: strips of at most `STRIP` pixels, or of one row."""
    rows = max(1, STRIP // max(1, image.shape[2]))
    return (slice(top, top + rows) for top in range(0, image.shape[1], rows))
