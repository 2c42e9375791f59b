"""The operations on PIL images, equal to torchvision's PIL backend, under its module path and names.

Interpolations are Pillow's integers. Derived from torchvision (BSD-3-Clause, see NOTICE).
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from fastpipe.types import Array, Fill


def _is_pil_image(img: object) -> TypeGuard[Image.Image]:
    return isinstance(img, Image.Image)


def check_image(img: object) -> None:
    if not isinstance(img, Image.Image):
        raise TypeError(f"img should be PIL Image. Got {type(img)}")


def get_dimensions(img: object) -> list[int]:
    if isinstance(img, Image.Image):
        return [len(img.getbands()), img.height, img.width]
    raise TypeError(f"Unexpected type {type(img)}")


def get_image_size(img: object) -> list[int]:
    return get_dimensions(img)[:0:-1]


def get_image_num_channels(img: object) -> int:
    return get_dimensions(img)[0]


def fill_per_band(fill: Any, channels: int, integer: bool = True) -> Any:
    """A fill colour as Pillow takes it: a number for one band, else a tuple; integers unless the mode is F.

    Raises:
        ValueError: the sequence has neither 1 nor ``channels`` numbers.
    """
    if fill is None:
        fill = 0
    if isinstance(fill, numbers.Number) and channels > 1:
        fill = (fill,) * channels
    if isinstance(fill, (list, tuple)):
        fill = tuple(fill)
        if len(fill) == 1:
            fill = fill * channels
        elif len(fill) != channels:
            raise ValueError(
                "The number of elements in 'fill' does not match the number of channels of the image "
                f"({len(fill)} != {channels})"
            )
    if not integer:
        return fill
    return tuple(int(x) for x in fill) if isinstance(fill, tuple) else int(fill)


def from_array(array: Array, mode: str) -> Image.Image:
    """Makes an image of a mode from an array's bytes, whatever mode its dtype suggests; copies them.

    ``Image.fromarray`` infers the mode; its argument for the mode is deprecated since Pillow 11.3.
    """
    return Image.frombuffer(mode, (array.shape[1], array.shape[0]), array.tobytes(), "raw", mode, 0, 1)


def hflip(img: Image.Image) -> Image.Image:
    check_image(img)
    return img.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


def vflip(img: Image.Image) -> Image.Image:
    check_image(img)
    return img.transpose(Image.Transpose.FLIP_TOP_BOTTOM)


def crop(img: Image.Image, top: int, left: int, height: int, width: int) -> Image.Image:
    check_image(img)
    return img.crop((left, top, left + width, top + height))


def resize(img: Image.Image, size: object, interpolation: int = Image.Resampling.BILINEAR) -> Image.Image:
    """Args: ``size``: a list of height and width; ``interpolation``: Pillow's integer."""
    check_image(img)
    if not (isinstance(size, list) and len(size) == 2):
        raise TypeError(f"Got inappropriate size arg: {size}")
    return img.resize((size[1], size[0]), interpolation)


def check_pad_arguments(padding: object, fill: object, padding_mode: object) -> tuple[int, ...]:
    """The padding as 2 or 4 numbers (one number is repeated), after torchvision's checks in torchvision's order."""
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


def pad(img: Image.Image, padding: object, fill: Fill = 0, padding_mode: str = "constant") -> Image.Image:
    check_image(img)
    padding = check_pad_arguments(padding, fill, padding_mode)
    if padding_mode == "constant":
        image = ImageOps.expand(img, border=padding, fill=_fill(fill, img))
        if img.mode == "P":
            image.putpalette(img.getpalette() or ())
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
        image.putpalette(img.getpalette() or ())
    return image


def adjust_brightness(img: Image.Image, brightness_factor: float) -> Image.Image:
    check_image(img)
    return ImageEnhance.Brightness(img).enhance(brightness_factor)


def adjust_contrast(img: Image.Image, contrast_factor: float) -> Image.Image:
    check_image(img)
    return ImageEnhance.Contrast(img).enhance(contrast_factor)


def adjust_saturation(img: Image.Image, saturation_factor: float) -> Image.Image:
    check_image(img)
    return ImageEnhance.Color(img).enhance(saturation_factor)


def adjust_sharpness(img: Image.Image, sharpness_factor: float) -> Image.Image:
    check_image(img)
    return ImageEnhance.Sharpness(img).enhance(sharpness_factor)


def adjust_hue(img: Image.Image, hue_factor: float) -> Image.Image:
    if not (-0.5 <= hue_factor <= 0.5):
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    check_image(img)
    mode = img.mode
    if mode in {"L", "1", "I", "F"}:
        return img

    hue, saturation, value = img.convert("HSV").split()
    # The hue is an angle in 256 steps, so the wrap-around is intended.
    shifted = np.array(hue, dtype=np.uint8)
    shifted += np.int32(hue_factor * 255).astype(np.uint8)
    return Image.merge("HSV", (from_array(shifted, "L"), saturation, value)).convert(mode)


def adjust_gamma(img: Image.Image, gamma: float, gain: float = 1.0) -> Image.Image:
    check_image(img)
    if gamma < 0:
        raise ValueError("Gamma should be a non-negative real number")
    table = [int((255 + 1 - 1e-3) * gain * pow(level / 255.0, gamma)) for level in range(256)] * 3
    return img.convert("RGB").point(table).convert(img.mode)


def to_grayscale(img: Image.Image, num_output_channels: int) -> Image.Image:
    check_image(img)
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    gray = img.convert("L")
    if num_output_channels == 1:
        return gray
    gray.info = {}  # as in torchvision, which makes the result from an array
    return gray.convert("RGB")


rgb_to_grayscale = to_grayscale


def invert(img: Image.Image) -> Image.Image:
    check_image(img)
    return ImageOps.invert(img)


def posterize(img: Image.Image, bits: int) -> Image.Image:
    check_image(img)
    return ImageOps.posterize(img, bits)


def solarize(img: Image.Image, threshold: float) -> Image.Image:
    check_image(img)
    return ImageOps.solarize(img, threshold)  # type: ignore[arg-type] # Pillow only compares with it


def autocontrast(img: Image.Image) -> Image.Image:
    check_image(img)
    return ImageOps.autocontrast(img)


def equalize(img: Image.Image) -> Image.Image:
    check_image(img)
    return ImageOps.equalize(img)


def _fill(fill: Fill, img: Image.Image) -> Any:
    check_image(img)
    return fill_per_band(fill, len(img.getbands()), integer=img.mode != "F")


def _warped(
    img: Image.Image, method: Image.Transform, matrix: Sequence[float], interpolation: int, fill: Fill
) -> Image.Image:
    fillcolor = _fill(fill, img)
    return img.transform(img.size, method, matrix, interpolation, fillcolor=fillcolor)


def affine(
    img: Image.Image, matrix: Sequence[float], interpolation: int = Image.Resampling.NEAREST, fill: Fill = None
) -> Image.Image:
    """Args: ``matrix``: the first two rows of the matrix from output to input pixels."""
    return _warped(img, Image.Transform.AFFINE, matrix, interpolation, fill)


def rotate(
    img: Image.Image,
    angle: float,
    interpolation: int = Image.Resampling.NEAREST,
    expand: bool = False,
    center: Sequence[float] | None = None,
    fill: Fill = None,
) -> Image.Image:
    fillcolor = _fill(fill, img)
    return img.rotate(angle, interpolation, expand, center, fillcolor=fillcolor)  # type: ignore[arg-type]


def perspective(
    img: Image.Image,
    perspective_coeffs: Sequence[float],
    interpolation: int = Image.Resampling.BICUBIC,
    fill: Fill = None,
) -> Image.Image:
    return _warped(img, Image.Transform.PERSPECTIVE, perspective_coeffs, interpolation, fill)
