"""Seconds that each stage of making batches takes, added up for reports."""

from __future__ import annotations

import time
from enum import IntEnum
from typing import TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray

from fastpipe.memory.shm_pool import shared

Row: TypeAlias = "memoryview[float]"


class Stage(IntEnum):
    """The stages of making a batch, each with its index in a row of `StageTimes`; `IMAGES` is a count."""

    IMAGES = 0
    READ = 1  # files and their headers
    DRAW = 2  # random numbers, and lowering to programs
    CORE = 3  # waiting for the core to decode and transform
    PYTHON = 4  # images that the core rejects, and the user's functions
    COLLATE = 5  # samples to a batch


class StageTimes:
    """A row for each process that makes batches, in memory that all of them share; each adds to its own row."""

    def __init__(self, processes: int) -> None:
        self._rows = shared(torch.zeros((processes, len(Stage)), dtype=torch.float64))

    def row(self, process: int) -> Row:
        """The row of a process, to add to: number of images, then seconds by `Stage`."""
        row = self._rows[process].numpy().data  # faster than an item of the array, which makes a numpy object
        return cast(Row, row)

    def total(self) -> NDArray[np.float64]:
        """The sum of all processes so far."""
        total: NDArray[np.float64] = self._rows.sum(0).numpy()
        return total


class StageClock:
    """Measures the stages of one batch: called with each stage when it is done, or with None to restart the clock.

    Args:
        row: the row to which times are added; None to measure nothing.
    """

    __slots__ = ("_row", "_since")

    def __init__(self, row: Row | None) -> None:
        self._row = row
        self._since = 0.0

    def __call__(self, done: Stage | None) -> None:
        if self._row is None:
            return
        now = time.perf_counter()
        if done is not None:
            self._row[done] += now - self._since
        self._since = now

    def count(self, images: int) -> None:
        """Adds to the number of images."""
        if self._row is not None:
            self._row[Stage.IMAGES] += images
