"""Colour of uint8 arrays: what depends on one value at a time is a table of 256 entries, applied in one pass.

Arrays are uint8 ``(H, W)`` or ``(H, W, C)`` with one or three channels, may be non-contiguous views, and are never
changed. The reference is torchvision on PIL images: everything is bit-equal to it except contrast and saturation (at
most 1/255) and hue (a few values in ten thousand, see `adjust_hue`).

``<operation>_table`` functions return the table of an operation that doesn't look at the image: consecutive tables
become one by `compose_tables`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import cv2
import numpy as np
import numpy.typing as npt
import stringzilla
import torch

from fastpipe.transforms.kernels._arrays import UInt8Array, as_uint8, channels, copied, like

__all__ = [
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
# cv2 rounds to nearest: half a level less rounds down, and the small rest keeps whole numbers whole.
_ROUND_DOWN = -0.5 + 1e-4
# ITU-R 601 luma as Pillow rounds it: (19595 R + 38470 G + 7471 B + 32768) >> 16.
_LUMA = (19595 / 65536, 38470 / 65536, 7471 / 65536)
# cv2.calcHist counts in float32, which is exact to here.
_MOST_COUNTED_PIXELS = 1 << 24


def apply_table(image: UInt8Array, table: UInt8Array) -> UInt8Array:
    """Every pixel's entry of a table: ``(256,)`` for all channels or ``(C, 256)`` with a row a channel.

    Through stringzilla, whose vectorised look-up of bytes takes a tenth of cv2.LUT's time.
    """
    if table.ndim == 1 or len(table) == 1:
        result = copied(image)
        if image.size:
            stringzilla.translate(result.data, np.ascontiguousarray(table).reshape(256).data, inplace=True)
        return result
    if image.ndim == 2:
        raise ValueError(f"a table with {len(table)} rows needs {len(table)} channels, got an image {image.shape}")
    if image.size == 0:
        return copied(image)
    return _merged([apply_table(plane, row) for plane, row in zip(_planes(image), table, strict=True)], image)


def compose_tables(tables: Sequence[UInt8Array]) -> UInt8Array:
    """The one table that does what those do one after the other; at least one table."""
    composed = tables[0]
    for table in tables[1:]:
        if table.ndim == 1:
            composed = table[composed]
        else:
            composed = np.take_along_axis(table, np.broadcast_to(composed, table.shape).astype(np.intp), axis=1)
    return composed


def brightness_table(factor: float) -> UInt8Array:
    """``factor`` times the value, rounded down as Pillow's blend with black does."""
    return _blend_table(0, factor)


def adjust_brightness(image: UInt8Array, factor: float) -> UInt8Array:
    """Each value times ``factor``; bit-equal to Pillow."""
    return apply_table(image, brightness_table(factor))


def adjust_contrast(image: UInt8Array, factor: float) -> UInt8Array:
    """The distance of each value from the image's mean luma times ``factor``; within 1/255 of Pillow."""
    if image.size == 0:
        return copied(image)
    # cv2 rounds luma to 15 bits where Pillow has 16; that moves the rounded mean of a real image almost never.
    luma = image if channels(image) == 1 else cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    mean = int(cv2.mean(luma)[0] + 0.5)
    return apply_table(image, _blend_table(mean, factor))


def adjust_saturation(image: UInt8Array, factor: float) -> UInt8Array:
    """The distance of each pixel from its own luma times ``factor``; within 1/255 of Pillow."""
    if image.size == 0 or channels(image) == 1:
        return copied(image)
    # An error of one in cv2's luma is multiplied by 1 - factor: within the contract up to a factor of 2.
    exact = not 0 <= factor <= 2
    luma = _luma(image) if exact else cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    return blend(cv2.cvtColor(luma, cv2.COLOR_GRAY2RGB), image, factor)


def adjust_hue(image: UInt8Array, factor: float) -> UInt8Array:
    """Hue turned by ``factor`` of a full circle, through Pillow's 8-bit HSV.

    cv2's float conversions do the arithmetic and hue and saturation are rounded down to eight bits between them, as
    Pillow does, which leaves about 2 values in 10,000 apart by up to 6/255, where a ratio falls on a whole number.
    """
    if image.size == 0 or channels(image) == 1:
        return copied(image)
    hue, saturation, value = cv2.split(cv2.cvtColor(image.astype(np.float32), cv2.COLOR_RGB2HSV))
    hue_8bit = cv2.convertScaleAbs(hue, alpha=255 / 360, beta=_ROUND_DOWN)
    saturation_8bit = cv2.convertScaleAbs(saturation, alpha=255, beta=_ROUND_DOWN)
    turned = ((_LEVELS + int(factor * 255)) % 256 * (360 / 255)).astype(np.float32)
    hsv = [cv2.LUT(hue_8bit, turned), cv2.LUT(saturation_8bit, (_LEVELS / 255).astype(np.float32)), value]
    result: UInt8Array = cv2.convertScaleAbs(cv2.cvtColor(cv2.merge(hsv), cv2.COLOR_HSV2RGB))
    return result


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
    """Luma, bit-equal to Pillow's mode L.

    Returns:
        ``(H, W, num_output_channels)`` for an ``(H, W, C)`` image; for an ``(H, W)`` image ``(H, W)``, or
        ``(H, W, 3)`` if three channels are asked for.
    """
    plane = image if image.ndim == 2 else image[..., 0] if image.shape[2] == 1 else _luma(image)
    if num_output_channels == 3:
        result: UInt8Array = cv2.cvtColor(plane, cv2.COLOR_GRAY2RGB) if plane.size else np.stack([plane] * 3, -1)
        return result
    if plane.base is not None or plane is image:
        plane = plane.copy()
    return plane if image.ndim == 2 else plane[..., None]


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
    """Each channel's histogram made flat; bit-equal to Pillow's ``ImageOps.equalize``."""
    if image.size == 0:
        return copied(image)
    planes = _planes(image)
    tables = _equalize_tables(np.stack([_histogram(plane) for plane in planes]))
    return _merged([apply_table(plane, table) for plane, table in zip(planes, tables, strict=True)], image)


def autocontrast(image: UInt8Array) -> UInt8Array:
    """Each channel stretched to 0…255; bit-equal to Pillow's ``ImageOps.autocontrast``."""
    if image.size == 0:
        return copied(image)
    stretched = []
    for plane in _planes(image):
        low, high, _, _ = cv2.minMaxLoc(plane)
        # Most photos reach both ends already.
        if 0 < high - low < 255:
            scale = 255.0 / (high - low)
            offset = -low * scale
            table = as_uint8(np.clip(np.trunc(_LEVELS * scale + offset), 0, 255))
            plane = apply_table(plane, table)
        stretched.append(plane)
    return _merged(stretched, image)


def blend(first: UInt8Array, second: UInt8Array, factor: float) -> UInt8Array:
    """``first + factor * (second - first)`` rounded down, as Pillow's ``Image.blend``; within 1/255 of it."""
    return like(cv2.addWeighted(second, factor, first, 1 - factor, _ROUND_DOWN), second)


def _blend_table(start: int, factor: float) -> UInt8Array:
    # Pillow computes in float32 and cuts off.
    values = np.float32(start) + np.float32(factor) * (_LEVELS - start).astype(np.float32)
    return as_uint8(np.clip(np.trunc(values), 0, 255))


def _luma(image: UInt8Array) -> UInt8Array:
    """Pillow's luma exactly: every product and sum has at most 24 bits, so float32 doesn't round; the end cuts off."""
    if image.size == 0:
        return np.zeros(image.shape[:2], dtype=np.uint8)
    red, green, blue = _planes(image)[:3]
    luma = cv2.addWeighted(red, _LUMA[0], green, _LUMA[1], 0.5, dtype=cv2.CV_32F)
    torch.from_numpy(luma).add_(torch.from_numpy(blue), alpha=_LUMA[2])
    result: UInt8Array = luma.astype(np.uint8)
    return result


def _mask(bits: int) -> int:
    return 256 - (1 << (8 - bits))


def _planes(image: UInt8Array) -> Sequence[UInt8Array]:
    if image.ndim == 2:
        return [image]
    # cv2 fills planes that it is given in half the time that it takes to make them.
    planes = np.empty((image.shape[2], *image.shape[:2]), dtype=np.uint8)
    return cv2.split(image, list(planes))


def _merged(planes: Sequence[UInt8Array], image: UInt8Array) -> UInt8Array:
    return like(cv2.merge(planes) if len(planes) > 1 else copied(planes[0]), image)


def _histogram(plane: UInt8Array) -> npt.NDArray[np.int64]:
    if plane.size > _MOST_COUNTED_PIXELS:
        return np.bincount(plane.ravel(), minlength=256)
    counts: npt.NDArray[np.int64] = cv2.calcHist([plane], [0], None, [256], [0, 256]).ravel().astype(np.int64)
    return counts


def _equalize_tables(histograms: npt.NDArray[np.int64]) -> UInt8Array:
    """A table for each row of counts; a channel of one value, or of fewer than 255 pixels below its last, stays."""
    last = 255 - (histograms[:, ::-1] > 0).argmax(axis=1)
    below = np.cumsum(histograms, axis=1) - histograms
    step = below[np.arange(len(last)), last, None] // 255
    flat = step == 0
    equalized = (step // 2 + below) // np.where(flat, 1, step)
    return as_uint8(np.where(flat, _LEVELS, np.minimum(equalized, 255)))
