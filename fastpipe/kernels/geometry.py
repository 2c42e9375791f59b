"""Geometry of uint8 arrays: crop, flips and padding, bit-equal to Pillow's; `resize` has a file of its own.

Arrays are uint8 ``(H, W)`` or ``(H, W, C)``, may be non-contiguous views, and are never changed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fastpipe import core
from fastpipe.kernels.arrays import UInt8Array, channels, like

_BORDERS = {
    "constant": "BORDER_CONSTANT",
    "edge": "BORDER_REPLICATE",
    "reflect": "BORDER_REFLECT_101",
    "symmetric": "BORDER_REFLECT",
}
"""OpenCV's names for the padding modes."""


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
    return _flipped(image, 1)


def vflip(image: UInt8Array) -> UInt8Array:
    """Reverses the rows; returns a new contiguous array."""
    return _flipped(image, 0)


def quarter_turns(image: UInt8Array, turns: int) -> UInt8Array:
    """Turns the image by ``turns`` quarters counter-clockwise; returns a new contiguous array."""
    import cv2

    if not turns or not image.size:
        turned: UInt8Array = np.rot90(image, turns).copy()
        return turned
    codes = cv2.ROTATE_90_COUNTERCLOCKWISE, cv2.ROTATE_180, cv2.ROTATE_90_CLOCKWISE
    return like(cv2.rotate(image, codes[turns - 1]), image)


def _flipped(image: UInt8Array, code: int) -> UInt8Array:
    import cv2

    return like(cv2.flip(image, code), image) if image.size else image.copy()


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
    if image.size == 0:  # cv2 would loop for ever
        shape = (image.shape[0] + top + bottom, image.shape[1] + left + right, *image.shape[2:])
        if mode == "constant":
            return np.full(shape, values if image.ndim == 3 else values[0], np.uint8)
        widths = [(top, bottom), (left, right), (0, 0)][: image.ndim]
        padded: UInt8Array = np.pad(image, widths, mode=mode)  # type: ignore[call-overload]
        return padded
    import cv2

    border = getattr(cv2, _BORDERS[mode])
    return like(cv2.copyMakeBorder(image, top, bottom, left, right, border, value=values), image)
