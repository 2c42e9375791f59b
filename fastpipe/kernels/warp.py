"""Warps of uint8 arrays as Pillow does them: rotation, affine and perspective.

Arrays are uint8 ``(H, W)`` or ``(H, W, C)`` with up to four channels, may be non-contiguous views, and are never
changed. Pillow maps each new pixel's centre to a point ``(x, y)`` of the old image, with pixel 0 spanning 0 to 1. A
point outside the image gets the fill colour. A point inside is interpolated from pixels, with edge pixels repeated, so
that the fill never bleeds into the image, unlike in cv2 and in torchvision's tensor backend.

Rotation, affine and perspective give Pillow's pixels, bit for bit: by the core, or without it by Pillow itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fastpipe import core
from fastpipe.types import Fill

FILTERS = {
    "nearest": core.Filter.NEAREST,
    "nearest-exact": core.Filter.NEAREST,  # the same to Pillow
    "bilinear": core.Filter.BILINEAR,
    "bicubic": core.Filter.BICUBIC,
}
"""The core's filters that can warp, by the interpolation's name."""


def add_rotation(
    job: core.Job,
    size: tuple[int, int],
    angle: float,
    interpolation: str,
    expand: bool = False,
    center: Sequence[float] | None = None,
    fill: Fill = None,
) -> bool:
    """Adds Pillow's ``rotate`` of an image ``(height, width)`` to a job; False if the core can't do it."""
    turns, matrix, height, width = rotation(*size, angle, expand, center)
    if turns is None:
        return add_warp(job, core.Kind.AFFINE, (height, width), matrix, interpolation, fill)
    if turns % 2:
        job.transpose()
    if turns > 1:
        job.flip()
    if turns in (1, 2):
        job.flip_vertically()
    return True


def add_warp(
    job: core.Job,
    kind: core.Kind,
    size: tuple[int, int],
    coefficients: Sequence[float],
    interpolation: str,
    fill: Fill,
    rgbx_pad: int = 255,
) -> bool:
    """Adds an affine or perspective warp to a job; False if the core doesn't take the coefficients.

    `rgbx_pad` is 0 where Pillow gets no colour; torchvision always gives it one.
    """
    if not all(map(math.isfinite, coefficients)):
        return False
    levels = _levels(fill)
    colour = levels * 3 if len(levels) == 1 else levels
    if kind is not core.Kind.AFFINE or not _add_shift(job, size, coefficients, interpolation, colour, rgbx_pad):
        job.warp(kind, size, coefficients, FILTERS[interpolation], colour, rgbx_pad)
    return True


def _add_shift(
    job: core.Job,
    size: tuple[int, int],
    coefficients: Sequence[float],
    interpolation: str,
    colour: Sequence[int],
    rgbx_pad: int,
) -> bool:
    """Adds an affine warp that only moves whole pixels, as a crop with a border; False for any other warp."""
    a, b, right, d, e, down = coefficients
    if (a, b, d, e) != (1, 0, 0, 1) or FILTERS[interpolation] != core.Filter.NEAREST:
        return False
    height, width = size
    if right % 1 or down % 1 or abs(right) >= width or abs(down) >= height:
        return False
    x, y = int(right), int(down)  # the position of the image's pixel that moves to (0, 0)
    job.crop(max(y, 0), max(x, 0), height - abs(y), width - abs(x))
    sides = max(-x, 0), max(-y, 0), max(x, 0), max(y, 0)
    if any(sides):
        red, green, blue = colour
        job.pad(*sides, core.Padding.CONSTANT, (red, green, blue), rgbx_pad)
    return True


def rotation(
    height: int, width: int, angle: float, expand: bool, center: Sequence[float] | None
) -> tuple[int | None, list[float], int, int]:
    """The number of quarter turns if ``Image.rotate`` only moves pixels, else its matrix; and the result's size.

    Computes in the order of ``Image.rotate``, which decides about the last bits.

    Returns:
        Quarter turns or None, the matrix, and the result's height and width.
    """
    angle %= 360.0
    if center is None and (angle in (0.0, 180.0) or (angle in (90.0, 270.0) and (expand or height == width))):
        turns = int(angle) // 90
        return turns, [], *((width, height) if turns % 2 else (height, width))
    center_x, center_y = (width / 2, height / 2) if center is None else (center[0], center[1])
    radians = -math.radians(angle)
    cosine, sine = round(math.cos(radians), 15), round(math.sin(radians), 15)
    a, b, d, e = cosine, sine, round(-math.sin(radians), 15), cosine
    c = a * -center_x + b * -center_y + 0.0 + center_x
    f = d * -center_x + e * -center_y + 0.0 + center_y
    if expand:
        corners = ((0, 0), (width, 0), (width, height), (0, height))
        xs = [a * x + b * y + c for x, y in corners]
        ys = [d * x + e * y + f for x, y in corners]
        new_width = math.ceil(max(xs)) - math.floor(min(xs))
        new_height = math.ceil(max(ys)) - math.floor(min(ys))
        shift_x, shift_y = -(new_width - width) / 2.0, -(new_height - height) / 2.0
        c, f = a * shift_x + b * shift_y + c, d * shift_x + e * shift_y + f
        height, width = new_height, new_width
    return None, [a, b, c, d, e, f], height, width


def _levels(fill: Fill) -> tuple[int, ...]:
    """The fill's values as Pillow takes them: truncated to integers and clamped to 0 to 255."""
    values: Sequence[float] = [0] if fill is None else fill if isinstance(fill, Sequence) else [fill]
    return tuple(min(max(int(value), 0), 255) for value in values)
