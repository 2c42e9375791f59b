"""Seconds that the stages of a batch take, added up for whoever asks for them."""

from __future__ import annotations

import time
from enum import IntEnum
from typing import TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray

Row: TypeAlias = "memoryview[float]"


class Stage(IntEnum):
    """The stages of making a batch, each with its place in a row of `StageTimes`; `IMAGES` is a count."""

    IMAGES = 0
    READ = 1  # files, and their headers
    DRAW = 2  # random numbers, and the programs that are made of them
    CORE = 3  # waiting for the core to decode and transform
    PYTHON = 4  # what the core leaves to others, and the user's functions
    COLLATE = 5  # samples to a batch


class StageTimes:
    """A row for each process that makes batches, which adds to its own; in memory that all of them share."""

    def __init__(self, processes: int) -> None:
        zeros = torch.zeros((processes, len(Stage)), dtype=torch.float64)
        self._rows: torch.Tensor = zeros.share_memory_()  # type: ignore[no-untyped-call]

    def row(self, process: int) -> Row:
        """The row of a process, to add to: images, then seconds by `Stage`."""
        row = self._rows[process].numpy().data  # an item of an array would be another object of numpy's
        return cast(Row, row)

    def total(self) -> NDArray[np.float64]:
        """The sum of all processes so far."""
        total: NDArray[np.float64] = self._rows.sum(0).numpy()
        return total


class StageListener:
    """Takes the time of one batch's stages: called with each when it is done; with None it begins anew.

    Args:
        row: takes the time of each stage; None where nobody asks.
    """

    __slots__ = ("_since", "row")

    def __init__(self, row: Row | None) -> None:
        self.row = row
        self._since = 0.0

    def __call__(self, done: Stage | None) -> None:
        if self.row is None:
            return
        now = time.perf_counter()
        if done is not None:
            self.row[done] += now - self._since
        self._since = now
