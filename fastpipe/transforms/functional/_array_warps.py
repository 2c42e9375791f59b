"""Affine, perspective and elastic warps of ndarrays: torchvision's semantics on PIL images, checked, then a kernel.

Floating arrays take the tensor backend, whose matrices count from the image's centre; `warps` hands over both.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from fastpipe.kernels import warp as kernels
from fastpipe.ops.interpolation import InterpolationMode
from fastpipe.transforms.functional import _tensor_warps
from fastpipe.transforms.functional._array_common import check_image, is_float_image, pillow_color, through_tensor

__all__ = ["affine", "elastic_transform", "perspective", "rotate"]

# cv2's remap counts pixels in 16 bits.
_LONGEST_SIDE = 32_767


def _kernel_mode(interpolation: InterpolationMode) -> str:
    if interpolation.value not in kernels.FILTERS:
        accepted = ", ".join(kernels.FILTERS)
        raise ValueError(f"Interpolation mode '{interpolation.value}' can't warp an ndarray; use one of {accepted}")
    return interpolation.value


def affine(
    img: NDArray[Any],
    corner_matrix: list[float],
    center_matrix: list[float],
    interpolation: InterpolationMode,
    fill: Any,
) -> NDArray[Any]:
    check_image(img)
    if is_float_image(img):
        return through_tensor(_tensor_warps.affine, img, center_matrix, interpolation.value, fill)
    return kernels.affine(img, corner_matrix, _kernel_mode(interpolation), pillow_color(fill, img))


def rotate(
    img: NDArray[Any],
    angle: float,
    center_matrix: list[float],
    interpolation: InterpolationMode,
    expand: bool,
    center: Any,
    fill: Any,
) -> NDArray[Any]:
    check_image(img)
    if is_float_image(img):
        return through_tensor(_tensor_warps.rotate, img, center_matrix, interpolation.value, expand, fill)
    return kernels.rotate(img, angle, _kernel_mode(interpolation), expand, center, pillow_color(fill, img))


def perspective(img: NDArray[Any], coeffs: list[float], interpolation: InterpolationMode, fill: Any) -> NDArray[Any]:
    check_image(img)
    if is_float_image(img):
        return through_tensor(_tensor_warps.perspective, img, coeffs, interpolation.value, fill)
    return kernels.perspective(img, coeffs, _kernel_mode(interpolation), pillow_color(fill, img))


def elastic_transform(
    img: NDArray[Any], displacement: Tensor, interpolation: InterpolationMode, fill: Any
) -> NDArray[Any]:
    check_image(img)
    known = interpolation in (InterpolationMode.NEAREST, InterpolationMode.BILINEAR)
    if is_float_image(img) or not known or max(img.shape) > _LONGEST_SIDE:
        return through_tensor(_tensor_warps.elastic_transform, img, displacement, interpolation.value, fill)
    return kernels.elastic(img, displacement, interpolation.value, fill)
