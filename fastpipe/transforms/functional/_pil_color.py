"""Brightness, colour, histogram and sharpness operations on PIL images.

Derived from torchvision (BSD-3-Clause, see NOTICE) and equal to its PIL backend.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from fastpipe.transforms.functional._pil_common import check_image, from_array

__all__ = [
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "adjust_hue",
    "adjust_saturation",
    "adjust_sharpness",
    "autocontrast",
    "equalize",
    "invert",
    "posterize",
    "solarize",
    "to_grayscale",
]


def adjust_brightness(img: Any, brightness_factor: float) -> Image.Image:
    check_image(img)
    return ImageEnhance.Brightness(img).enhance(brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Image.Image:
    check_image(img)
    return ImageEnhance.Contrast(img).enhance(contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Image.Image:
    check_image(img)
    return ImageEnhance.Color(img).enhance(saturation_factor)


def adjust_sharpness(img: Any, sharpness_factor: float) -> Image.Image:
    check_image(img)
    return ImageEnhance.Sharpness(img).enhance(sharpness_factor)


def check_hue_factor(hue_factor: float) -> None:
    if not (-0.5 <= hue_factor <= 0.5):
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")


def adjust_hue(img: Any, hue_factor: float) -> Image.Image:
    check_hue_factor(hue_factor)
    check_image(img)
    mode = img.mode
    if mode in {"L", "1", "I", "F"}:
        return img  # type: ignore[no-any-return]

    hue, saturation, value = img.convert("HSV").split()
    # Hue is an angle of 256 steps, so that the wrap-around is meant.
    shifted = np.array(hue, dtype=np.uint8)
    shifted += np.int32(hue_factor * 255).astype(np.uint8)
    return Image.merge("HSV", (from_array(shifted, "L"), saturation, value)).convert(mode)


def adjust_gamma(img: Any, gamma: float, gain: float = 1.0) -> Image.Image:
    check_image(img)
    check_gamma(gamma)
    table = [int((255 + 1 - 1e-3) * gain * pow(level / 255.0, gamma)) for level in range(256)] * 3
    return img.convert("RGB").point(table).convert(img.mode)  # type: ignore[no-any-return]


def check_gamma(gamma: float) -> None:
    if gamma < 0:
        raise ValueError("Gamma should be a non-negative real number")


def to_grayscale(img: Any, num_output_channels: int) -> Image.Image:
    check_image(img)
    check_output_channels(num_output_channels)
    gray = img.convert("L")
    return gray if num_output_channels == 1 else Image.merge("RGB", (gray, gray, gray))


def check_output_channels(num_output_channels: int) -> None:
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")


def invert(img: Any) -> Image.Image:
    check_image(img)
    return ImageOps.invert(img)


def posterize(img: Any, bits: int) -> Image.Image:
    check_image(img)
    return ImageOps.posterize(img, bits)


def solarize(img: Any, threshold: Any) -> Image.Image:
    check_image(img)
    return ImageOps.solarize(img, threshold)


def autocontrast(img: Any) -> Image.Image:
    check_image(img)
    return ImageOps.autocontrast(img)


def equalize(img: Any) -> Image.Image:
    check_image(img)
    return ImageOps.equalize(img)
