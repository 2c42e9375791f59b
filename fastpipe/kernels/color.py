"""Colour of uint8 arrays: what depends on one value at a time is a table of 256 entries, applied in one pass.

``<operation>_table`` functions return the table of an operation that doesn't look at the image: consecutive tables
become one by `compose_tables`. All are bit-equal to torchvision on PIL images.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import cv2
import numpy as np

from fastpipe import core
from fastpipe.kernels._arrays import UInt8Array, like

_LEVELS = np.arange(256)
_LEVELS32 = _LEVELS.astype(np.float32)
_NEGATIVE = np.arange(255, -1, -1, dtype=np.uint8)
_NEGATIVE.flags.writeable = False


def apply_table(image: UInt8Array, table: UInt8Array) -> UInt8Array:
    """Every value's entry of a table ``(256,)``, as a new contiguous array."""
    if not core.available():
        return like(cv2.LUT(image, table), image) if image.size else image.copy()
    source = image if image.flags.c_contiguous else image.copy()
    out = np.empty(image.shape, np.uint8)
    core.thread_context().look_up(source, table.tobytes(), out)
    return out


def inverted(image: UInt8Array) -> UInt8Array:
    """``255 - value``, in two thirds of a table's time; contiguous."""
    return np.invert(image, np.empty(image.shape, np.uint8))


def posterized(image: UInt8Array, bits: int) -> UInt8Array:
    """The ``bits`` highest bits of each value, 0 to 8; contiguous."""
    result: UInt8Array = np.bitwise_and(image, np.uint8(0xFF00 >> bits & 0xFF), np.empty(image.shape, np.uint8))
    return result


def compose_tables(tables: Sequence[UInt8Array]) -> UInt8Array:
    """The one table that does what those do one after the other; at least one table."""
    composed = tables[0]
    for table in tables[1:]:
        composed = table[composed]
    return composed


def brightness_table(factor: float) -> UInt8Array:
    """``factor`` times the value, rounded down as Pillow's blend with black does."""
    table: UInt8Array = np.minimum(np.float32(factor) * _LEVELS32, 255).astype(np.uint8)  # in float32, cut off
    return table


@lru_cache(maxsize=64)
def gamma_table(gamma: float, gain: float = 1.0) -> UInt8Array:
    """``255.999 * gain * (value / 255) ** gamma``, rounded down, as torchvision has it for PIL images.

    Kept, as computing it with Python's exact powers takes as long as looking up a small image; read-only, therefore.
    """
    values = [int((255 + 1 - 1e-3) * gain * pow(level / 255.0, gamma)) for level in range(256)]
    table = np.clip(values, 0, 255).astype(np.uint8)
    table.flags.writeable = False
    return table


@lru_cache(maxsize=8)
def posterize_table(bits: int) -> UInt8Array:
    """The ``bits`` highest bits of each value; read-only."""
    table = (_LEVELS & (256 - (1 << (8 - bits)))).astype(np.uint8)
    table.flags.writeable = False
    return table


def solarize_table(threshold: float) -> UInt8Array:
    """Values at or above ``threshold`` inverted."""
    return np.where(threshold > _LEVELS, 255 - _NEGATIVE, _NEGATIVE)


def invert_table() -> UInt8Array:
    """``255 - value``; read-only."""
    return _NEGATIVE
