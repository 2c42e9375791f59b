"""Memory for batches within a process, reused once no object refers to the batch any more.

A fresh batch costs twice its pixels' resize in page faults, because the system clears each page at its first use.
Forks need no special care: whichever process first writes to a piece that both have, parent or child, gets a copy.
"""

from __future__ import annotations

import math
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from operator import methodcaller

import numpy as np
import torch
from numpy.typing import NDArray

SMALL = 1 << 20
"""Smaller pieces, in bytes, are cached by the allocator itself."""
_KEPT = 4  # the most free pieces
_ALIGNMENT = 64


class LentArray(weakref.ref["NDArray[np.uint8]"]):
    """A weak reference, with the callback `GIVE_BACK`, to an array on reused memory: calls ``give_back`` at its end."""

    give_back: Callable[[], object] = int  # does nothing, should a signal raise before the reference has its own


# No line of Python code may run when an array is destroyed, as a KeyboardInterrupt raised there would be ignored: both
# this and `give_back` are functions of C's.
GIVE_BACK = methodcaller("give_back")


class _LentPiece(LentArray):
    """Represents the free piece once the array is gone."""

    piece: NDArray[np.uint8]


# Without a lock: between any two lines the garbage collector may return a piece, and a signal handler or another thread
# may take one. Each call of a deque method is atomic, and a piece that was popped belongs to one caller alone.
_free: deque[_LentPiece] = deque(maxlen=_KEPT)
_lent: dict[int, _LentPiece] = {}


def reused(shape: tuple[int, ...], dtype: torch.dtype, pinned: bool = False) -> torch.Tensor:
    """An uninitialised, contiguous tensor, whose memory may have belonged to a tensor that is gone.

    Args:
        shape, dtype: the tensor's shape and dtype.
        pinned: use pinned memory, which torch itself reuses once a device has read it.
    """
    if pinned:
        return torch.empty(shape, dtype=dtype, pin_memory=True)
    size = math.prod(shape) * dtype.itemsize
    if size < SMALL:
        return torch.empty(shape, dtype=dtype)
    return tensor_on(reused_bytes(size), shape, dtype)


def tensor_on(
    memory: object,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    strides: tuple[int, ...] | None = None,
    offset: int = 0,
    *,
    start: int = 0,
) -> torch.Tensor:
    """A tensor on an object's memory, which keeps the object alive. It is no view: views can't be detached in place.

    Args:
        memory: a writable buffer.
        shape: the tensor's shape, not empty.
        dtype: the tensor's dtype.
        strides: the tensor's strides; None for a contiguous one.
        offset: elements between the start of the tensor's storage and its first element.
        start: bytes between the start of the memory and the storage.
    """
    if strides is None:
        strides = tuple(math.prod(shape[place + 1 :]) for place in range(len(shape)))
    count = offset + 1 + sum((length - 1) * step for length, step in zip(shape, strides, strict=True))
    storage = torch.frombuffer(memory, dtype=dtype, count=count, offset=start).untyped_storage()
    return torch.empty(0, dtype=dtype).set_(storage, offset, shape, strides)


def reused_bytes(size: int) -> NDArray[np.uint8]:
    """Uninitialised bytes, reused once this array object is gone; views have to refer to the object itself."""
    piece = _take(size)
    start = -piece.__array_interface__["data"][0] % _ALIGNMENT
    view = piece[start : start + size]
    lent = _LentPiece(view, GIVE_BACK)
    lent.piece = piece
    lent.give_back = partial(_free.extend, filter(None, map(_lent.pop, (id(lent),), (None,))))
    _lent[id(lent)] = lent
    return view


def _take(size: int) -> NDArray[np.uint8]:
    for _ in range(len(_free)):
        try:
            free = _free.popleft()
        except IndexError:  # others took them in the meantime
            break
        if size + _ALIGNMENT <= free.piece.size <= 2 * size + _ALIGNMENT:
            return free.piece
        _free.append(free)
    return np.empty(size + _ALIGNMENT, np.uint8)
