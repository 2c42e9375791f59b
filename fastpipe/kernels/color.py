"""Colour of uint8 arrays: what depends on one value at a time is a table of 256 entries, applied in one pass.

Arrays are uint8 ``(H, W)`` or ``(H, W, C)`` with one or three channels, may be non-contiguous views, and are never
changed. Everything is bit-equal to torchvision on PIL images: what isn't a table goes to the core, and where that isn't
there, to Pillow itself.

``<operation>_table`` functions return the table of an operation that doesn't look at the image: consecutive tables
become one by `compose_tables`. ``add_<operation>`` functions add an operation to a job of the core's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import stringzilla
from PIL import Image, ImageEnhance, ImageOps

from fastpipe import core
from fastpipe.kernels._arrays import UInt8Array, as_uint8, channels, copied, core_or_pillow

__all__ = [
    "add_autocontrast",
    "add_blend",
    "add_equalize",
    "add_gray",
    "add_hue",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "adjust_hue",
    "adjust_saturation",
    "apply_table",
    "autocontrast",
    "brightness_table",
    "compose_tables",
    "equalize",
    "gamma_table",
    "invert",
    "invert_table",
    "posterize",
    "posterize_table",
    "rgb_to_grayscale",
    "solarize",
    "solarize_table",
]

_LEVELS = np.arange(256)
# Of a blend: float32's largest is 3.4e38.
_LARGEST_FACTOR = 3e38


def apply_table(image: UInt8Array, table: UInt8Array) -> UInt8Array:
    """Every value's entry of a table ``(256,)``.

    Through stringzilla, whose vectorised look-up of bytes takes a tenth of cv2.LUT's time.
    """
    result = copied(image)
    if image.size:
        stringzilla.translate(result.data, np.ascontiguousarray(table).data, inplace=True)
    return result


def compose_tables(tables: Sequence[UInt8Array]) -> UInt8Array:
    """The one table that does what those do one after the other; at least one table."""
    composed = tables[0]
    for table in tables[1:]:
        composed = table[composed]
    return composed


def brightness_table(factor: float) -> UInt8Array:
    """``factor`` times the value, rounded down as Pillow's blend with black does."""
    # In float32, cut off.
    values = np.float32(factor) * _LEVELS.astype(np.float32)
    return as_uint8(np.clip(np.trunc(values), 0, 255))


def adjust_brightness(image: UInt8Array, factor: float) -> UInt8Array:
    """Each value times ``factor``; bit-equal to Pillow."""
    return apply_table(image, brightness_table(factor))


def adjust_contrast(image: UInt8Array, factor: float) -> UInt8Array:
    """The distance of each value from the image's mean luma times ``factor``."""
    return core_or_pillow(
        image,
        lambda job: add_blend(job, core.Kind.CONTRAST, factor),
        lambda picture: ImageEnhance.Contrast(picture).enhance(factor),
    )


def adjust_saturation(image: UInt8Array, factor: float) -> UInt8Array:
    """The distance of each pixel from its own luma times ``factor``."""
    return core_or_pillow(
        image,
        lambda job: add_blend(job, core.Kind.SATURATION, factor),
        lambda picture: ImageEnhance.Color(picture).enhance(factor),
    )


def add_blend(job: core.Job, kind: core.Kind, factor: float) -> bool:
    """Adds one of Pillow's enhancements to a job of the core's; False for a factor that float32 doesn't have."""
    if not abs(factor) <= _LARGEST_FACTOR:
        return False
    job.blend(kind, factor)
    return True


def adjust_hue(image: UInt8Array, factor: float) -> UInt8Array:
    """Hue turned by ``factor`` of a full circle, -0.5 to 0.5, through Pillow's 8-bit HSV."""
    if channels(image) == 1:
        return copied(image)
    return core_or_pillow(image, lambda job: add_hue(job, factor), lambda picture: _turned(picture, factor))


def add_hue(job: core.Job, factor: float) -> bool:
    """Adds `adjust_hue` to a job of the core's."""
    job.turn_hue(int(factor * 255) % 256)
    return True


def _turned(picture: Image.Image, factor: float) -> Image.Image:
    hue, saturation, value = picture.convert("HSV").split()
    shifted = hue.point([(level + int(factor * 255)) % 256 for level in range(256)])
    return Image.merge("HSV", (shifted, saturation, value)).convert("RGB")


@lru_cache(maxsize=64)
def gamma_table(gamma: float, gain: float = 1.0) -> UInt8Array:
    """``255.999 * gain * (value / 255) ** gamma``, rounded down, as torchvision has it for PIL images.

    Kept, as computing it with Python's exact powers takes as long as looking up a small image; read-only, therefore.
    """
    values = [int((255 + 1 - 1e-3) * gain * pow(level / 255.0, gamma)) for level in range(256)]
    table = as_uint8(np.clip(values, 0, 255))
    table.flags.writeable = False
    return table


def adjust_gamma(image: UInt8Array, gamma: float, gain: float = 1.0) -> UInt8Array:
    """Power law; bit-equal to torchvision on PIL images."""
    return apply_table(image, gamma_table(gamma, gain))


def rgb_to_grayscale(image: UInt8Array, num_output_channels: int = 1) -> UInt8Array:
    """Luma, as Pillow's mode L.

    Returns:
        ``(H, W, num_output_channels)`` for an ``(H, W, C)`` image; for an ``(H, W)`` image ``(H, W)``, or
        ``(H, W, 3)`` if three channels are asked for.
    """
    shape = image.shape if image.ndim == 2 and num_output_channels == 1 else (*image.shape[:2], num_output_channels)
    if image.size == 0:
        return np.zeros(shape, dtype=np.uint8)
    gray = core_or_pillow(
        image,
        lambda job: add_gray(job, num_output_channels),
        lambda picture: picture.convert("L").convert("L" if num_output_channels == 1 else "RGB"),
        shape,
    )
    return gray.reshape(shape)


def add_gray(job: core.Job, num_output_channels: int) -> bool:
    """Adds `rgb_to_grayscale` to a job of the core's."""
    job.gray(num_output_channels)
    return True


def posterize_table(bits: int) -> UInt8Array:
    """The ``bits`` highest bits of each value."""
    return (_LEVELS & _mask(bits)).astype(np.uint8)


def posterize(image: UInt8Array, bits: int) -> UInt8Array:
    """Keeps the ``bits`` highest bits of each value; bit-equal to Pillow."""
    result: UInt8Array = np.bitwise_and(image, np.uint8(_mask(bits)))
    return result


def solarize_table(threshold: float) -> UInt8Array:
    """Values at or above ``threshold`` inverted."""
    return np.where(threshold > _LEVELS, _LEVELS, 255 - _LEVELS).astype(np.uint8)


def solarize(image: UInt8Array, threshold: float) -> UInt8Array:
    """Inverts values at or above ``threshold``; bit-equal to Pillow."""
    return apply_table(image, solarize_table(threshold))


def invert_table() -> UInt8Array:
    """``255 - value``."""
    return (255 - _LEVELS).astype(np.uint8)


def invert(image: UInt8Array) -> UInt8Array:
    """``255 - value``; bit-equal to Pillow."""
    return np.bitwise_not(image)


def equalize(image: UInt8Array) -> UInt8Array:
    """Each channel's histogram made flat: Pillow's ``ImageOps.equalize``."""
    return core_or_pillow(image, add_equalize, ImageOps.equalize)


def add_equalize(job: core.Job) -> bool:
    """Adds `equalize` to a job of the core's."""
    job.equalize()
    return True


def autocontrast(image: UInt8Array) -> UInt8Array:
    """Each channel stretched to 0…255: Pillow's ``ImageOps.autocontrast``."""
    return core_or_pillow(image, add_autocontrast, ImageOps.autocontrast)


def add_autocontrast(job: core.Job) -> bool:
    """Adds `autocontrast` to a job of the core's."""
    job.autocontrast()
    return True


def _mask(bits: int) -> int:
    return 256 - (1 << (8 - bits))
