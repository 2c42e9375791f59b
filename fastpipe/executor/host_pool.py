"""Memory of batches within a process, used again when nothing can see the batch any more.

A fresh batch costs twice its pixels' resize in page faults, as the system clears each page when it is first touched.
A fork needn't be thought of: whoever writes first to a piece that both see, parent or child, gets a copy.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

_SMALL = 1 << 20  # the allocator itself keeps smaller pieces
_KEPT = 4  # free pieces
_ALIGNMENT = 64

_lock = threading.RLock()  # the collector may free a piece while one is looked for
_free: list[NDArray[np.uint8]] = []


def reused(shape: tuple[int, ...], dtype: torch.dtype, pinned: bool = False) -> torch.Tensor:
    """An uninitialised, contiguous tensor; its memory may have been another's that is gone.

    Args:
        shape, dtype: of the tensor.
        pinned: in pinned memory, which torch itself uses again, once a device has read it.
    """
    if pinned:
        return torch.empty(shape, dtype=dtype, pin_memory=True)
    size = math.prod(shape) * dtype.itemsize
    if size < _SMALL:
        return torch.empty(shape, dtype=dtype)
    piece = _take(size)
    start = -piece.__array_interface__["data"][0] % _ALIGNMENT
    view = piece[start : start + size]
    # torch keeps the array for as long as there is a tensor, or anything made of one, on its memory.
    weakref.finalize(view, _give_back, piece).atexit = False
    flat: Any = torch.from_numpy(view)
    result: torch.Tensor = flat.view(dtype).view(shape)
    return result


def _take(size: int) -> NDArray[np.uint8]:
    with _lock:
        for number, piece in enumerate(_free):
            if size + _ALIGNMENT <= piece.size <= 2 * size + _ALIGNMENT:
                return _free.pop(number)
    return np.empty(size + _ALIGNMENT, np.uint8)


def _give_back(piece: NDArray[np.uint8]) -> None:
    with _lock:
        _free.append(piece)
        del _free[:-_KEPT]


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()  # another thread of the parent may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
