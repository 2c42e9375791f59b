"""Blur and sharpness of ndarrays: torchvision's semantics on PIL images, checked, then a kernel."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from fastpipe.kernels import filters as kernels
from fastpipe.transforms.functional import _tensor_filters
from fastpipe.transforms.functional._array_common import check_image, is_float_image, through_tensor

__all__ = ["adjust_sharpness", "gaussian_blur"]


def gaussian_blur(img: NDArray[Any], kernel_size: list[int], sigma: list[float]) -> NDArray[Any]:
    check_image(img)
    if is_float_image(img):
        return through_tensor(_tensor_filters.gaussian_blur, img, kernel_size, sigma)
    # An image is mirrored at its edges, which must be longer than the mirrored part: torch's rule, and its error.
    if kernel_size[0] // 2 >= img.shape[1] or kernel_size[1] // 2 >= img.shape[0]:
        raise RuntimeError(
            f"kernel_size (x, y) should be less than twice the image's size. Got {kernel_size} for a width of "
            f"{img.shape[1]} and a height of {img.shape[0]}"
        )
    return kernels.gaussian_blur(img, kernel_size, sigma)


def adjust_sharpness(img: NDArray[Any], sharpness_factor: float) -> NDArray[Any]:
    check_image(img, (1, 3))
    if is_float_image(img):
        return through_tensor(_tensor_filters.adjust_sharpness, img, sharpness_factor)
    return kernels.adjust_sharpness(img, sharpness_factor)
