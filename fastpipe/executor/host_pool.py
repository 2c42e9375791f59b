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

SMALL = 1 << 20
"""Bytes up to which the allocator itself keeps pieces."""
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
    if size < SMALL:
        return torch.empty(shape, dtype=dtype)
    flat: Any = torch.from_numpy(reused_bytes(size))  # torch keeps the array as long as anything is on its memory
    result: torch.Tensor = flat.view(dtype).view(shape)
    return result


def reused_bytes(size: int) -> NDArray[np.uint8]:
    """Uninitialised bytes, used again once this very array is gone; views of it must keep it itself."""
    piece = _take(size)
    start = -piece.__array_interface__["data"][0] % _ALIGNMENT
    view = piece[start : start + size]
    weakref.finalize(view, _give_back, piece).atexit = False
    return view


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
