"""Brightness, colour and histogram operations on ndarrays: torchvision's semantics on PIL images, then a kernel."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from fastpipe.kernels import color as kernels
from fastpipe.transforms.functional import _tensor_color
from fastpipe.transforms.functional._array_common import check_image, is_float_image, through_tensor
from fastpipe.transforms.functional._pil_color import check_gamma, check_hue_factor, check_output_channels

__all__ = [
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "adjust_hue",
    "adjust_saturation",
    "autocontrast",
    "equalize",
    "invert",
    "posterize",
    "rgb_to_grayscale",
    "solarize",
]

_GRAY_OR_RGB = (1, 3)


def adjust_brightness(img: NDArray[Any], brightness_factor: float) -> NDArray[Any]:
    check_image(img, _GRAY_OR_RGB)
    if is_float_image(img):
        return through_tensor(_tensor_color.adjust_brightness, img, brightness_factor)
    return kernels.adjust_brightness(img, brightness_factor)


def adjust_contrast(img: NDArray[Any], contrast_factor: float) -> NDArray[Any]:
    check_image(img, _GRAY_OR_RGB)
    if is_float_image(img):
        return through_tensor(_tensor_color.adjust_contrast, img, contrast_factor)
    return kernels.adjust_contrast(img, contrast_factor)


def adjust_saturation(img: NDArray[Any], saturation_factor: float) -> NDArray[Any]:
    check_image(img, _GRAY_OR_RGB)
    if is_float_image(img):
        return through_tensor(_tensor_color.adjust_saturation, img, saturation_factor)
    return kernels.adjust_saturation(img, saturation_factor)


def adjust_hue(img: NDArray[Any], hue_factor: float) -> NDArray[Any]:
    check_hue_factor(hue_factor)
    check_image(img, _GRAY_OR_RGB)
    if is_float_image(img):
        return through_tensor(_tensor_color.adjust_hue, img, hue_factor)
    return kernels.adjust_hue(img, hue_factor)


def adjust_gamma(img: NDArray[Any], gamma: float, gain: float = 1.0) -> NDArray[Any]:
    check_image(img, _GRAY_OR_RGB)
    check_gamma(gamma)
    if is_float_image(img):
        return through_tensor(_tensor_color.adjust_gamma, img, gamma, gain)
    return kernels.adjust_gamma(img, gamma, gain)


def rgb_to_grayscale(img: NDArray[Any], num_output_channels: int = 1) -> NDArray[Any]:
    check_image(img, _GRAY_OR_RGB)
    check_output_channels(num_output_channels)
    if is_float_image(img):
        return through_tensor(_tensor_color.rgb_to_grayscale, img, num_output_channels)
    return kernels.rgb_to_grayscale(img, num_output_channels)


def invert(img: NDArray[Any]) -> NDArray[Any]:
    check_image(img, _GRAY_OR_RGB)
    return through_tensor(_tensor_color.invert, img) if is_float_image(img) else kernels.invert(img)


def posterize(img: NDArray[Any], bits: int) -> NDArray[Any]:
    check_image(img, _GRAY_OR_RGB)
    # The tensor backend refuses floats, with torchvision's error.
    return through_tensor(_tensor_color.posterize, img, bits) if is_float_image(img) else kernels.posterize(img, bits)


def solarize(img: NDArray[Any], threshold: float) -> NDArray[Any]:
    check_image(img, _GRAY_OR_RGB)
    if is_float_image(img):
        return through_tensor(_tensor_color.solarize, img, threshold)
    return kernels.solarize(img, threshold)


def autocontrast(img: NDArray[Any]) -> NDArray[Any]:
    check_image(img, _GRAY_OR_RGB)
    return through_tensor(_tensor_color.autocontrast, img) if is_float_image(img) else kernels.autocontrast(img)


def equalize(img: NDArray[Any]) -> NDArray[Any]:
    check_image(img, _GRAY_OR_RGB)
    return through_tensor(_tensor_color.equalize, img) if is_float_image(img) else kernels.equalize(img)
