"""The current epoch, shared between the main process and running workers."""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import MappingProxyType

import numpy as np
import torch

from fastpipe.memory.shm_pool import shared

__all__ = ["SharedEpoch", "in_epochs"]


class SharedEpoch:
    """A number in shared memory: the main process sets it, workers see it, persistent ones included.

    A forked worker inherits the memory. A spawned one gets a handle, because torch's process pickler sends tensors that
    way. Ordinary pickling and deep copies take the number only.

    A second number tells how the epoch came about. It was set, by the user or by a loader that counts epochs; or a
    loader that doesn't count them has begun to ask for samples: then the number is the first sample's index. If the
    loader asks for this sample again, it has begun another epoch without setting it (`repeats`).

    Attributes:
        given: describes the loader that has handed out the whole epoch; None until one has. `set` clears it.
        told: the user has been warned that a new loader repeats the epoch.
    """

    given: object = None
    told: bool = False

    _asked: Sequence[int] = ()  # the indices of this process's last request

    def __init__(self, epoch: int = 0) -> None:
        self.__setstate__(torch.tensor([epoch, _CHOSEN, 0], dtype=torch.int64))

    def get(self) -> int:
        """The epoch; within `in_epochs`, the one that this thread is in."""
        here = _here.get().get(self)
        return int(self._number[0]) if here is None else here

    def set(self, epoch: int, counted: bool = False) -> None:
        """Sets the epoch; `counted` if a loader that counts epochs begins it."""
        self.given = None
        self._number[:2] = epoch, _COUNTED if counted else _CHOSEN

    @property
    def is_chosen(self) -> bool:
        """True if no samples of this epoch have been asked for since it was set."""
        return int(self._number[1]) == _CHOSEN

    def stay(self, epoch: int) -> None:
        """Fixes this process's copy at an epoch; other processes no longer change it."""
        self._number = np.array([epoch, _COUNTED, 0], np.int64)

    def repeats(self, indices: Sequence[int], path_of: Callable[[int], str]) -> bool:
        """Notes a loader's request for samples; True, once, if it has asked for the first sample before.

        Ignores a request equal to the last one, because a wrapper may repeat it, and requests within `in_epochs`, by a
        loader that counts epochs. Compares the first sample's path, too, because a dataset may share its epoch with its
        subsets.
        """
        if not indices or indices == self._asked or self in _here.get():
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
        self._shared = shared(number)
        self._number = self._shared.numpy()  # torch's own way to read a number releases the GIL

    def __deepcopy__(self, memo: dict[int, object]) -> SharedEpoch:
        return SharedEpoch(self.get())


_here: ContextVar[Mapping[SharedEpoch, int]] = ContextVar("fastpipe_epochs", default=MappingProxyType({}))


@contextlib.contextmanager
def in_epochs(epochs: Mapping[SharedEpoch, int]) -> Iterator[None]:
    """Sets the datasets' epochs in this thread within the block, also of datasets that a user's wrapper calls."""
    token = _here.set({**_here.get(), **epochs})
    try:
        yield
    finally:
        _here.reset(token)


# Sentinels stored instead of the first sample's index.
_CHOSEN, _COUNTED = -(1 << 62), -(1 << 62) + 1
