"""Geometry of uint8 arrays: crop, flips and padding, bit-equal to Pillow's; `resize` has a file of its own.

Arrays are uint8 ``(H, W)`` or ``(H, W, C)``, may be non-contiguous views, and are never changed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fastpipe import core
from fastpipe.kernels.arrays import UInt8Array, by_core, channels


def crop(image: UInt8Array, top: int, left: int, height: int, width: int) -> UInt8Array:
    """The pixels of a box, zero outside of the image; a view if the box lies inside."""
    rows, columns = image.shape[:2]
    bottom, right = top + height, left + width
    if top >= 0 and left >= 0 and bottom <= rows and right <= columns:
        return image[top:bottom, left:right]
    result = np.zeros((max(height, 0), max(width, 0), *image.shape[2:]), dtype=image.dtype)
    inside = image[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
    if inside.size:
        y, x = max(-top, 0), max(-left, 0)
        result[y : y + inside.shape[0], x : x + inside.shape[1]] = inside
    return result


def hflip(image: UInt8Array) -> UInt8Array:
    """Reverses the columns; returns a new contiguous array."""
    if image.ndim == 3 and image.shape[2] == 3 and image.flags.c_contiguous and core.available():
        out = np.empty(image.shape, np.uint8)
        core.thread_context().flip(image, out)
        return out

    def add(job: core.Job) -> bool:
        job.flip()
        return True

    by_the_core = by_core(image, add, image.shape)
    flipped: UInt8Array = image[:, ::-1]
    return flipped.copy() if by_the_core is None else by_the_core


def vflip(image: UInt8Array) -> UInt8Array:
    """Reverses the rows; returns a new contiguous array."""
    flipped: UInt8Array = image[::-1].copy()
    return flipped


def quarter_turns(image: UInt8Array, turns: int) -> UInt8Array:
    """Turns the image by ``turns`` quarters counter-clockwise; returns a new contiguous array."""

    def add(job: core.Job) -> bool:
        if turns % 2:
            job.transpose()
        if turns in (2, 3):
            job.flip()
        if turns in (1, 2):
            job.flip_vertically()
        return True

    turned: UInt8Array = np.rot90(image, turns)
    by_the_core = by_core(image, add, turned.shape) if turns else None
    return turned.copy() if by_the_core is None else by_the_core


def pad(
    image: UInt8Array,
    left: int,
    top: int,
    right: int,
    bottom: int,
    fill: float | Sequence[float] | None = None,
    mode: str = "constant",
) -> UInt8Array:
    """Adds pixels on each side; a negative number removes pixels.

    Args:
        image: uint8 ``(H, W)`` or ``(H, W, C)``.
        left, top, right, bottom: pixels to add.
        fill: the value for ``mode="constant"``: one number, or one a channel; None for 0.
        mode: ``"constant"``, ``"edge"``, ``"reflect"`` (edge pixel not repeated) or ``"symmetric"`` (repeated).

    Raises:
        ValueError: the image has no pixel to mirror or repeat; raised by numpy, as for a PIL image.
    """
    if min(left, top, right, bottom) < 0:
        rows, columns = image.shape[:2]
        image = image[max(-top, 0) : rows - max(-bottom, 0), max(-left, 0) : columns - max(-right, 0)]
        left, top, right, bottom = max(left, 0), max(top, 0), max(right, 0), max(bottom, 0)
    count = channels(image)
    values = [0.0] if fill is None else [fill] if isinstance(fill, (int, float)) else list(fill)
    if len(values) == 1:
        values *= count
    rows, columns = image.shape[:2]
    shape = (rows + top + bottom, columns + left + right, *image.shape[2:])
    if mode == "constant":
        out = np.empty(shape, np.uint8)
        middle = out[top : top + rows]
        border = np.array(values if image.ndim == 3 else values[0], np.uint8)
        for part in (out[:top], out[top + rows :], middle[:, :left], middle[:, left + columns :]):
            part[...] = border
        middle[:, left : left + columns] = image
        return out
    widths = [(top, bottom), (left, right), (0, 0)][: image.ndim]
    padded: UInt8Array = np.pad(image, widths, mode=mode)  # type: ignore[call-overload]
    return padded
