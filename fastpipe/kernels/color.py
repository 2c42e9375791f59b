"""Colour operations on uint8 arrays by look-up in a table of 256 values."""

from __future__ import annotations

import numpy as np

from fastpipe import core
from fastpipe.kernels.arrays import UInt8Array


def apply_table(image: UInt8Array, table: UInt8Array) -> UInt8Array:
    """Maps each value by a table ``(256,)``; returns a new contiguous array."""
    if not core.available():
        looked_up: UInt8Array = table[image]
        return looked_up
    source = image if image.flags.c_contiguous else image.copy()
    out = np.empty(image.shape, np.uint8)
    core.thread_context().look_up(source, table.tobytes(), out)
    return out
