"""Functions of Pillow's ``Image``, ``ImageEnhance`` and ``ImageOps``, recorded on images without pixels.

Each returns the resulting image, or None if Pillow's own function has to run: the image has its pixels, or only Pillow
can interpret the arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from PIL import Image, ImageColor, ImageEnhance, ImageOps

from fastpipe.ops import (
    AdjustBrightness,
    AdjustContrast,
    AdjustSaturation,
    AdjustSharpness,
    Autocontrast,
    Equalize,
    Margin,
    Operation,
    Pad,
)
from fastpipe.pillow.image_record import PlainCall, image_record_of
from fastpipe.pillow.lazy_image import (
    GRAY_IN_THREE,
    LazyImage,
    lazy_of,
    record_operations,
)
from fastpipe.pillow.method_arguments import smoothed
from fastpipe.program.on_image import copied_info, is_transparent

_BLACK, _FLAT = AdjustBrightness(0.0), AdjustContrast(0.0)
_ENHANCEMENTS: tuple[tuple[Operation, Callable[[float], Operation]], ...] = (
    (_BLACK, AdjustBrightness),
    (_FLAT, AdjustContrast),
    (GRAY_IN_THREE, AdjustSaturation),
    (smoothed(), AdjustSharpness),
)
"""The operations that end in an enhancement's degenerate image, with the operations that blend it with the image."""


def black(image: object) -> LazyImage | None:
    """``ImageEnhance.Brightness(image).degenerate``: black."""
    return record_operations(image, _BLACK, plain=lambda image: ImageEnhance.Brightness(image).degenerate, info={})


def flat(image: object) -> LazyImage | None:
    """``ImageEnhance.Contrast(image).degenerate``: the mean of the gray image everywhere."""
    return record_operations(image, _FLAT, plain=lambda image: ImageEnhance.Contrast(image).degenerate, info={})


def blend(im1: object, im2: object, alpha: object) -> LazyImage | None:
    """``Image.blend`` of an enhancement's degenerate image with the image itself, as ``ImageEnhance`` calls it."""
    one, other = lazy_of(im1), lazy_of(im2)
    if one is None or other is None or one.mode != other.mode or not isinstance(alpha, (int, float)):
        return None
    degraded, known = image_record_of(one), image_record_of(other)
    if degraded is None or known is None or degraded.source is not known.source:
        return None
    last_steps, steps = degraded.steps, known.steps
    plain = _plain_blend(degraded.calls, known.calls, alpha)
    if last_steps == steps and abs(alpha) <= _LARGEST_FACTOR:
        # The degenerate of a gray image is the image itself.
        return record_operations(other, plain=plain, info=copied_info(one))
    if last_steps[:-1] == steps:
        enhancement = next((make for operation, make in _ENHANCEMENTS if operation is last_steps[-1]), None)
        if enhancement is not None:
            return record_operations(other, enhancement(alpha), plain=plain, info=copied_info(one))
    return None


def _plain_blend(
    degraded: tuple[PlainCall, ...] | None, calls: tuple[PlainCall, ...] | None, alpha: float
) -> PlainCall | None:
    """Pillow's own blend of an image with its degenerate, which is made by the calls after the image's own."""
    if degraded is None or calls is None or degraded[: len(calls)] != calls:
        return None
    further = degraded[len(calls) :]

    def plain(image: Image.Image) -> Image.Image:
        degenerate = image
        for call in further:
            degenerate = call(degenerate)
        return Image.blend(degenerate, image, alpha)

    return plain


_LARGEST_FACTOR = 3e38  # Pillow's factors are float32, whose maximum is 3.4e38


def autocontrast(
    image: object, cutoff: object = 0, ignore: object = None, mask: object = None, preserve_tone: object = False
) -> LazyImage | None:
    """``ImageOps.autocontrast`` without options."""
    is_usual = isinstance(cutoff, int) and cutoff == 0 and ignore is None and mask is None and preserve_tone is False
    return record_operations(image, Autocontrast(), plain=ImageOps.autocontrast) if is_usual else None


def equalize(image: object, mask: object = None) -> LazyImage | None:
    """``ImageOps.equalize`` without a mask."""
    return record_operations(image, Equalize(), plain=ImageOps.equalize) if mask is None else None


def expand(image: object, border: object = 0, fill: object = 0) -> LazyImage | None:
    """``ImageOps.expand``."""
    sides = border if isinstance(border, tuple) else (border,) * 4
    sides = sides * 2 if len(sides) == 2 else sides
    lazy = lazy_of(image)
    if lazy is None or len(sides) != 4 or not all(isinstance(side, int) and side >= 0 for side in sides):
        return None
    return _framed(lazy, sides, fill)


def pad(
    image: Any, size: Any, method: Any = Image.Resampling.BICUBIC, color: Any = None, centering: Any = (0.5, 0.5)
) -> LazyImage | None:
    """``ImageOps.pad``."""
    if lazy_of(image) is None or not isinstance(size, tuple):
        return None
    inner = lazy_of(ImageOps.contain(image, size, method))
    if inner is None or inner.size == size:
        return inner
    across, down = (
        round(room * max(0, min(share, 1)))
        for room, share in zip((size[0] - inner.width, size[1] - inner.height), centering, strict=True)
    )
    if inner.width != size[0]:
        down = 0
    else:
        across = 0
    sides = across, down, size[0] - inner.width - across, size[1] - inner.height - down
    return _framed(inner, sides, 0 if color is None else color) if min(sides) >= 0 else None


def _framed(image: LazyImage, sides: Sequence[int], fill: Any) -> LazyImage | None:
    """Adds a frame of one colour to the image, which Pillow pastes on a new image.

    None if one of the image's colours means transparency, which Pillow keeps or drops depending on its version.
    """
    if is_transparent(image):
        return None
    if isinstance(fill, str):
        fill = ImageColor.getcolor(fill, image.mode)
    left, top, right, bottom = sides
    plain = partial(ImageOps.expand, border=(left, top, right, bottom), fill=fill)
    if fill == 0 and isinstance(fill, int):
        return record_operations(image, Margin([*sides]), plain=plain, info={})
    if not isinstance(fill, tuple):
        fill = (fill,)
    is_color = len(fill) == len(image.mode) and all(isinstance(value, int) and 0 <= value <= 255 for value in fill)
    return record_operations(image, Pad([*sides], fill), plain=plain, info={}) if is_color else None
