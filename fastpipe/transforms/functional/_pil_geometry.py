"""Crop, flip, pad and resize of PIL images.

Derived from torchvision (BSD-3-Clause, see NOTICE) and equal to its PIL backend.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from fastpipe.transforms.functional._pil_common import check_image, fill_per_band

__all__ = ["crop", "hflip", "pad", "resize", "vflip"]


def hflip(img: Any) -> Image.Image:
    check_image(img)
    return img.transpose(Image.Transpose.FLIP_LEFT_RIGHT)  # type: ignore[no-any-return]


def vflip(img: Any) -> Image.Image:
    check_image(img)
    return img.transpose(Image.Transpose.FLIP_TOP_BOTTOM)  # type: ignore[no-any-return]


def crop(img: Any, top: int, left: int, height: int, width: int) -> Image.Image:
    check_image(img)
    return img.crop((left, top, left + width, top + height))  # type: ignore[no-any-return]


def resize(img: Any, size: Any, interpolation: int = Image.Resampling.BILINEAR) -> Image.Image:
    """Args: ``size``: a list of height and width; ``interpolation``: Pillow's integer."""
    check_image(img)
    if not (isinstance(size, list) and len(size) == 2):
        raise TypeError(f"Got inappropriate size arg: {size}")
    return img.resize((size[1], size[0]), interpolation)  # type: ignore[no-any-return]


def check_pad_arguments(padding: Any, fill: Any, padding_mode: Any) -> tuple[int, ...]:
    """The padding as 2 or 4 numbers (one number stands for two), after torchvision's checks in its order."""
    if not isinstance(padding, (numbers.Number, tuple, list)):
        raise TypeError("Got inappropriate padding arg")
    if fill is not None and not isinstance(fill, (numbers.Number, tuple, list)):
        raise TypeError("Got inappropriate fill arg")
    if not isinstance(padding_mode, str):
        raise TypeError("Got inappropriate padding_mode arg")
    if isinstance(padding, numbers.Number):
        padding = (padding, padding)
    if len(padding) not in [1, 2, 4]:
        raise ValueError(f"Padding must be an int or a 1, 2, or 4 element tuple, not a {len(padding)} element tuple")
    if padding_mode not in ["constant", "edge", "reflect", "symmetric"]:
        raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
    return tuple(padding) * 2 if len(padding) == 1 else tuple(padding)


def pad(img: Any, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Image.Image:
    check_image(img)
    padding = check_pad_arguments(padding, fill, padding_mode)
    if padding_mode == "constant":
        color = fill_per_band(fill, len(img.getbands()), integer=img.mode != "F")
        image = ImageOps.expand(img, border=padding, fill=color)
        if img.mode == "P":
            image.putpalette(img.getpalette())
        return image

    left, top, right, bottom = padding * 2 if len(padding) == 2 else padding
    if min(left, top, right, bottom) < 0:
        box = (-min(left, 0), -min(top, 0), img.width + min(right, 0), img.height + min(bottom, 0))
        img = img.crop(box)
    rows = (max(top, 0), max(bottom, 0))
    columns = (max(left, 0), max(right, 0))
    array = np.asarray(img)
    widths = (rows, columns, (0, 0)) if array.ndim == 3 else (rows, columns)
    image = Image.fromarray(np.pad(array, widths, mode=padding_mode))  # type: ignore[call-overload]
    if img.mode == "P":
        image.putpalette(img.getpalette())
    return image
