"""Crop, flip, pad and resize of ndarrays: torchvision's semantics on PIL images, checked, then a kernel."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from fastpipe.kernels import geometry as kernels
from fastpipe.kernels import resizing
from fastpipe.ops.interpolation import InterpolationMode
from fastpipe.transforms.functional import _tensor_geometry
from fastpipe.transforms.functional._array_common import check_image, is_float_image, pillow_color, through_tensor
from fastpipe.transforms.functional._pil_geometry import check_pad_arguments

__all__ = ["crop", "hflip", "pad", "resize", "vflip"]


def hflip(img: NDArray[Any]) -> NDArray[Any]:
    check_image(img)
    return through_tensor(_tensor_geometry.hflip, img) if is_float_image(img) else kernels.hflip(img)


def vflip(img: NDArray[Any]) -> NDArray[Any]:
    check_image(img)
    return through_tensor(_tensor_geometry.vflip, img) if is_float_image(img) else kernels.vflip(img)


def crop(img: NDArray[Any], top: int, left: int, height: int, width: int) -> NDArray[Any]:
    check_image(img)
    # Pillow's message; an inverted box makes no sense for arrays either.
    if width < 0:
        raise ValueError("Coordinate 'right' is less than 'left'")
    if height < 0:
        raise ValueError("Coordinate 'lower' is less than 'upper'")
    if is_float_image(img):
        return through_tensor(_tensor_geometry.crop, img, top, left, height, width)
    return kernels.crop(img, top, left, height, width)


def resize(
    img: NDArray[Any], height: int, width: int, interpolation: InterpolationMode, antialias: bool
) -> NDArray[Any]:
    """``antialias`` is for floats only: uint8 arrays are PIL images by another name, always antialiased."""
    check_image(img)
    if height <= 0 or width <= 0:
        raise ValueError("height and width must be > 0")
    if is_float_image(img):
        size = [height, width]
        return through_tensor(_tensor_geometry.resize, img, size, interpolation.value, antialias=antialias)
    return resizing.resize(img, height, width, interpolation.value)


def pad(img: NDArray[Any], padding: Any, fill: Any = 0, padding_mode: str = "constant") -> NDArray[Any]:
    check_image(img)
    padding = check_pad_arguments(padding, fill, padding_mode)
    if is_float_image(img):
        return through_tensor(_tensor_geometry.pad, img, padding, fill, padding_mode)
    left, top, right, bottom = (int(p) for p in (padding * 2 if len(padding) == 2 else padding))
    if min(left, top, right, bottom) < 0:
        img = img[max(-top, 0) : img.shape[0] + min(bottom, 0), max(-left, 0) : img.shape[1] + min(right, 0)]
        left, top, right, bottom = max(left, 0), max(top, 0), max(right, 0), max(bottom, 0)
    color = pillow_color(fill, img) if padding_mode == "constant" else None
    return kernels.pad(img, left, top, right, bottom, color, padding_mode)
