"""Memory for results: where a batch is to have them; large ones in large pages; work in strips."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import torch

_LARGE = 1 << 22  # bytes: from here on numpy asks the system for large pages
STRIP = 1 << 14
"""Pixels of which a float32 tensor stays in the cache."""
_KNOWN = {torch.uint8: np.uint8, torch.float32: np.float32}


def is_large(shape: tuple[int, ...], dtype: torch.dtype) -> bool:
    """Whether `fresh` and `zeros` allocate with numpy rather than torch."""
    return dtype in _KNOWN and math.prod(shape) * dtype.itemsize >= _LARGE


class ResultPlaces(Protocol):
    """Memory of a batch that is being made in a thread."""

    def take(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor | None:
        """An uninitialised, contiguous tensor with a storage of its own; None where there is no place for it."""


class PendingResult(Protocol):
    """The work of a tensor without pixels: see `fastpipe.program.pending_work.PendingWork`."""

    made: torch.Tensor | None

    def owner(self) -> torch.Tensor | None:
        """The tensor, as long as there is one."""

    def held_bytes(self) -> int:
        """Bytes of the file that the work holds until the tensor has its pixels."""


MOST_HELD = 1 << 26
"""Bytes of files that a batch's tensors without pixels hold."""


class StackedResults:
    """No places: somebody's function gets the results, and may stack them.

    Args:
        later: it is likely to: results get their pixels then.

    Attributes:
        later: the next results do: as given, until a sample has several, or files take too much memory.
        pending: the work of tensors whose pixels are made when they are stacked, or looked at.
        several: a sample has several such.
    """

    def __init__(self, later: bool) -> None:
        self.later = later
        self.pending: list[PendingResult] = []
        self.several = False
        self._first: int | None = None
        self._held = 0

    def begin_sample(self) -> None:
        """The next results are of the next sample; without a call, nobody knows whose they are."""
        self._first = len(self.pending)

    def add(self, work: PendingResult) -> None:
        """Notes the work of a tensor without pixels."""
        self.pending.append(work)
        self._held += work.held_bytes()
        self.several = self.several or (self._first is not None and len(self.pending) - self._first > 1)
        if self.several or self._held > MOST_HELD:
            self.later = False

    def take(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor | None:
        """See `ResultPlaces.take`."""
        return None


_thread = threading.local()


def stacked_results() -> StackedResults | None:
    """The results of this thread's block of `results_in`, if they are such."""
    places = getattr(_thread, "places", None)
    return places if isinstance(places, StackedResults) else None


@contextmanager
def results_in(places: ResultPlaces | None) -> Iterator[None]:
    """Has `new_result` ask for a place within the block, in this thread; None for memory of each result's own."""
    before = getattr(_thread, "places", None)
    _thread.places = places
    try:
        yield
    finally:
        _thread.places = before


def new_result(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """An uninitialised tensor for an image that is handed out, in its place in a batch where there is one."""
    places: ResultPlaces | None = getattr(_thread, "places", None)
    place = None if places is None else places.take(shape, dtype)
    return fresh(shape, dtype) if place is None else place


def fresh(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """An uninitialised tensor. (240 MB filled for the first time: torch's take 95 ms, these 25.)"""
    if not is_large(shape, dtype):
        return torch.empty(shape, dtype=dtype)
    return torch.from_numpy(np.empty(shape, _KNOWN[dtype]))


def strips(image: torch.Tensor) -> Iterator[slice]:
    """The rows of a tensor ``(C, H, W)`` in strips of at most `STRIP` pixels, or of one row."""
    rows = max(1, STRIP // max(1, image.shape[2]))
    return (slice(top, top + rows) for top in range(0, image.shape[1], rows))
