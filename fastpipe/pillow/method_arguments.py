"""Translates the arguments of Pillow's image methods to the operations that the methods do."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from PIL import Image, ImageFilter

from fastpipe import ops  # of which warps and filters are imported at their first use
from fastpipe.ops import Crop, HFlip, Margin, Operation, Transpose, VFlip, interned_once, resize_to
from fastpipe.ops.interpolation import InterpolationMode
from fastpipe.pillow.lazy_operations import BoxResize
from fastpipe.types import Box, Size

_LARGEST = 1 << 16
"""The longest side of a result for which operations are recorded."""

_HFLIP, _VFLIP, _TRANSPOSE = map(interned_once, (HFlip, VFlip, Transpose))

TRANSPOSITIONS: dict[int, tuple[Operation, ...]] = {
    Image.Transpose.FLIP_LEFT_RIGHT: (_HFLIP,),
    Image.Transpose.FLIP_TOP_BOTTOM: (_VFLIP,),
    Image.Transpose.ROTATE_90: (_TRANSPOSE, _VFLIP),
    Image.Transpose.ROTATE_180: (_HFLIP, _VFLIP),
    Image.Transpose.ROTATE_270: (_TRANSPOSE, _HFLIP),
    Image.Transpose.TRANSPOSE: (_TRANSPOSE,),
    Image.Transpose.TRANSVERSE: (_TRANSPOSE, _HFLIP, _VFLIP),
}
"""The operations of `PIL.Image.Image.transpose`, by its method."""

# -- crop


def whole_box(box: Any) -> Box | None:
    """The box of a crop, rounded as by Pillow; None for an empty or invalid box."""
    try:
        left, top, right, bottom = map(int, map(round, box))
    except (TypeError, ValueError, OverflowError):
        return None
    return Box(top, left, bottom - top, right - left) if right > left and bottom > top else None


def crop_operations(box: Box, width: int, height: int) -> tuple[Operation, ...] | None:
    """The operations of a crop to a box that may exceed the image; None for a box that doesn't overlap the image."""
    top, left, bottom, right = max(box.top, 0), max(box.left, 0), min(box.bottom, height), min(box.right, width)
    if bottom <= top or right <= left or max(box.size) >= _LARGEST:
        return None
    around = left - box.left, top - box.top, box.right - right, box.bottom - bottom
    inner = Crop(top, left, bottom - top, right - left)
    return (inner, Margin([*around])) if any(around) else (inner,)


# -- resize

_RESIZE_MODES = {number: number.name.lower() for number in Image.Resampling if number <= Image.Resampling.HAMMING}


def whole_size(size: Any) -> Size | None:
    """A size in whole pixels as ``(height, width)``; None for a size that Pillow has to interpret."""
    if not hasattr(size, "__len__"):  # an iterator would be used up when Pillow gets it
        return None
    try:
        width, height = map(operator.index, size)
    except (TypeError, ValueError):
        return None
    return Size(height, width) if 0 < min(width, height) <= max(width, height) <= _LARGEST else None


def resize_operations(
    image_size: Size, size: Any, resample: Any, box: Any, reducing_gap: Any
) -> tuple[Operation, ...] | None:
    """The operations of ``resize`` with Pillow's arguments; None if Pillow has to do or refuse it."""
    number = Image.Resampling.BICUBIC if resample is None else resample
    mode, target = _RESIZE_MODES.get(number), whole_size(size)
    if mode is None or target is None or not (box is None or hasattr(box, "__len__")):
        return None
    whole = (0, 0, image_size.width, image_size.height)
    edges = whole if box is None else tuple(box)
    if reducing_gap is not None and not _is_one_step(edges, target, mode, reducing_gap):
        return None
    if edges == whole:
        return () if target == image_size else (resize_to([*target], int(number)),)
    operation = BoxResize.from_box(image_size, target, mode, edges) if len(edges) == 4 and mode != "nearest" else None
    return None if operation is None else (operation,)


def _is_one_step(box: Sequence[float], size: Size, mode: str, reducing_gap: object) -> bool:
    """True if Pillow resizes in one step with this ``reducing_gap``."""
    if not isinstance(reducing_gap, (int, float)) or reducing_gap < 1.0:
        return False
    factors = ((box[2] - box[0]) / size.width, (box[3] - box[1]) / size.height)
    return mode == "nearest" or all(int(factor / reducing_gap) <= 1 for factor in factors)


# -- transform

_WARPS: dict[int, tuple[Callable[[], Callable[..., Operation]], int]] = {
    Image.Transform.AFFINE: (lambda: ops.AffineBy, 6),
    Image.Transform.PERSPECTIVE: (lambda: ops.PillowPerspective, 8),
}
"""The operations of `PIL.Image.Image.transform`, by its method, with the number of their coefficients."""

_WARP_MODES: dict[int, InterpolationMode] = {
    Image.Resampling.NEAREST: InterpolationMode.NEAREST,
    Image.Resampling.BILINEAR: InterpolationMode.BILINEAR,
    Image.Resampling.BICUBIC: InterpolationMode.BICUBIC,
}


def warp_operation(mode: str, method: Any, data: Any, resample: Any, fillcolor: Any) -> Operation | None:
    """The operation of ``transform`` to an image's own size, in RGB; None if Pillow has to interpret the arguments."""
    kind, interpolation = _WARPS.get(method), _WARP_MODES.get(resample)
    if kind is None or interpolation is None or not isinstance(data, (list, tuple)):
        return None
    operation, count = kind
    numbers = data[:count]
    if len(numbers) < count or not all(isinstance(number, (int, float)) for number in numbers):
        return None
    make = operation()
    if fillcolor is None:
        return make(tuple(map(float, numbers)), interpolation)
    colour = (fillcolor,) if mode == "L" and isinstance(fillcolor, int) else fillcolor
    if not isinstance(colour, tuple) or len(colour) != len(mode):
        return None
    if not all(isinstance(value, int) and 0 <= value <= 255 for value in colour):
        return None
    return make(tuple(map(float, numbers)), interpolation, colour if mode == "RGB" else colour * 3)


# -- filter


@cache
def smoothed() -> Operation:
    """The operation of the filter SMOOTH, with which ``ImageEnhance.Sharpness`` blends."""
    return ops.AdjustSharpness(0.0)


def _blur(kind: Callable[[Any], Operation], radius: object) -> Operation | None:
    return None if ops.radii_of(radius) is None else kind(radius)


_FILTERS: dict[type, Callable[[Any], Operation | None]] = {
    ImageFilter.GaussianBlur: lambda given: _blur(ops.PillowGaussianBlur, given.radius),
    ImageFilter.BoxBlur: lambda given: _blur(ops.PillowBoxBlur, given.radius),
    ImageFilter.SMOOTH: lambda given: smoothed() if given.filterargs is ImageFilter.SMOOTH.filterargs else None,
}


def filter_operation(given: object) -> Operation | None:
    """The operation of ``filter`` with one of Pillow's filters, or its class; None if Pillow has to interpret it."""
    kind = given if isinstance(given, type) else type(given)
    known = _FILTERS.get(kind)
    return None if known is None else known(kind() if given is kind else given)
