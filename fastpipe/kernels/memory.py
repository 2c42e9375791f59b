"""Memory for large results, in large pages, which the system makes faster than many small ones."""

from __future__ import annotations

import math

import numpy as np
import torch

_LARGE = 1 << 22  # bytes: from here on numpy asks the system for large pages
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
