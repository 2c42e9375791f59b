"""Memory of batches within a process, used again when nothing can see the batch any more.

A fresh batch costs twice its pixels' resize in page faults, as the system clears each page when it is first touched.
A fork needn't be thought of: whoever writes first to a piece that both see, parent or child, gets a copy.
"""

from __future__ import annotations

import math
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from operator import methodcaller
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

SMALL = 1 << 20
"""Bytes up to which the allocator itself keeps pieces."""
_KEPT = 4  # free pieces
_ALIGNMENT = 64


class _Lent(weakref.ref["NDArray[np.uint8]"]):
    """A weak reference to an array that lies on a piece; once the array is gone, it stands for the free piece."""

    __slots__ = ("give_back", "piece")
    piece: NDArray[np.uint8]
    give_back: Callable[[], object]


# Without a lock: between any two lines the collector may give a piece back, and a signal's handler or another thread
# take one, too. Each call of the deque's is done at once, and who looks at a piece has it alone.
_free: deque[_Lent] = deque(maxlen=_KEPT)
_lent: dict[int, _Lent] = {}

# No line of Python's runs as an array goes: Ctrl-C that came there would be ignored.
_give_back = methodcaller("give_back")


def reused(shape: tuple[int, ...], dtype: torch.dtype, pinned: bool = False) -> torch.Tensor:
    """An uninitialised, contiguous tensor; its memory may have been another's that is gone.

    Args:
        shape, dtype: of the tensor.
        pinned: in pinned memory, which torch itself uses again, once a device has read it.
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
    """A tensor on the memory of an object, which it keeps: no view of another, as those can't be detached in place.

    Args:
        memory: a writable buffer.
        shape: of the tensor, which isn't empty.
        dtype: of the tensor.
        strides: of the tensor; None for dense rows.
        offset: elements of the tensor's storage before its first.
        start: bytes of the memory before the storage.
    """
    if strides is None:
        strides = tuple(math.prod(shape[place + 1 :]) for place in range(len(shape)))
    count = offset + 1 + sum((length - 1) * step for length, step in zip(shape, strides, strict=True))
    storage: Any = torch.frombuffer(memory, dtype=dtype, count=count, offset=start).untyped_storage()
    return torch.empty(0, dtype=dtype).set_(storage, offset, shape, strides)


def reused_bytes(size: int) -> NDArray[np.uint8]:
    """Uninitialised bytes, used again once this very array is gone; views of it must keep it itself."""
    piece = _take(size)
    start = -piece.__array_interface__["data"][0] % _ALIGNMENT
    view = piece[start : start + size]
    lent = _Lent(view, _give_back)
    lent.piece = piece
    lent.give_back = partial(_free.extend, map(_lent.pop, (id(lent),)))
    _lent[id(lent)] = lent
    return view


def _take(size: int) -> NDArray[np.uint8]:
    for _ in range(len(_free)):
        try:
            free = _free.popleft()
        except IndexError:  # others took them meanwhile
            break
        if size + _ALIGNMENT <= free.piece.size <= 2 * size + _ALIGNMENT:
            return free.piece
        _free.append(free)
    return np.empty(size + _ALIGNMENT, np.uint8)
