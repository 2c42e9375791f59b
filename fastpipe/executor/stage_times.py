"""Seconds that each stage of making batches takes, added up for reports."""

from __future__ import annotations

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
