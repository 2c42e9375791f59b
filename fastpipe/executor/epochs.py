"""An epoch that reaches running workers."""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

__all__ = ["SharedEpoch"]


class SharedEpoch:
    """A number in shared memory: what the main process sets, workers see, persistent ones included.

    A worker that is forked inherits the memory; one that is spawned gets a handle, since torch's process pickler
    sends tensors that way. Ordinary pickling and deep copies take the number only.

    Beside the number stands who counts: nobody yet, a loader that began it, or a loader that knows nothing
    of epochs; of that one the first sample it asked for is kept, so that a second epoch is noticed (`repeats`).

    Attributes:
        given: what is noted of the loader that gave all of this epoch; None if another was begun or chosen since.
        told: that loaders made anew repeat it, has been told.
    """

    given: object = None
    told: bool = False

    _asked: Sequence[int] = ()  # by this process, the last time

    def __init__(self, epoch: int = 0) -> None:
        self.__setstate__(torch.tensor([epoch, _CHOSEN, 0], dtype=torch.int64))

    def get(self) -> int:
        return int(self._number[0])

    def set(self, epoch: int, counted: bool = False) -> None:
        """Chooses an epoch; `counted`: a loader that counts epochs begins it."""
        self.given = None
        self._number[:2] = epoch, _COUNTED if counted else _CHOSEN

    @property
    def is_chosen(self) -> bool:
        """Nobody has asked for samples of this epoch since it was set."""
        return int(self._number[1]) == _CHOSEN

    def stay(self, epoch: int) -> None:
        """Fixes this process's copy at an epoch, whatever other processes set."""
        self._number = np.array([epoch, _COUNTED, 0], np.int64)

    @contextlib.contextmanager
    def at(self, epoch: int) -> Iterator[None]:
        """Sets the epoch of samples within the block."""
        before = self.get()
        self._number[0] = epoch
        try:
            yield
        finally:
            self._number[0] = before

    def repeats(self, indices: Sequence[int], path_of: Callable[[int], str]) -> bool:
        """Notes that a loader asks for samples; True once, where it has asked for one of them before.

        A wrapper may ask for the same ones twice in a row, and a dataset share its epoch with its subsets.
        """
        if not indices or indices == self._asked:
            return False
        self._asked = indices
        first, name = self._number[1:].tolist()
        if first == _CHOSEN:
            self._number[2] = zlib.crc32(os.fsencode(path_of(indices[0])))
            self._number[1] = indices[0]
        elif first in indices and zlib.crc32(os.fsencode(path_of(first))) == name:
            self._number[1] = _COUNTED
            return True
        return False

    def __getstate__(self) -> torch.Tensor:
        return self._shared

    def __setstate__(self, number: torch.Tensor) -> None:
        self._shared: torch.Tensor = number.share_memory_()  # type: ignore[no-untyped-call]
        self._number = self._shared.numpy()  # torch's own reading of a number gives up the GIL

    def __deepcopy__(self, memo: dict[int, Any]) -> SharedEpoch:
        return SharedEpoch(self.get())


# Instead of the first sample's index.
_CHOSEN, _COUNTED = -(1 << 62), -(1 << 62) + 1
