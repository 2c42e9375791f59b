"""Blur and sharpness of image tensors ``(..., C, H, W)``.

Derived from torchvision (BSD-3-Clause, see NOTICE) and equal to its tensor backend; compiled by TorchScript.
"""

# TorchScript needs narrow annotations; eagerly wider values arrive, which the type checker calls unreachable.
# mypy: no-warn-unreachable

import torch
from torch import Tensor
from torch.nn.functional import conv2d
from torch.nn.functional import pad as torch_pad

from fastpipe.core import Kind, TensorRounding
from fastpipe.kernels import planes
from fastpipe.kernels.filters import gaussian_kernel_1d
from fastpipe.transforms.functional._tensor_color import blend
from fastpipe.transforms.functional._tensor_common import (
    assert_channels,
    assert_image_tensor,
    cast_squeeze_in,
    cast_squeeze_out,
)


def gaussian_kernel_2d(kernel_size: list[int], sigma: list[float], dtype: torch.dtype, device: torch.device) -> Tensor:
    kernel1d_x = gaussian_kernel_1d(kernel_size[0], sigma[0], dtype, device)
    kernel1d_y = gaussian_kernel_1d(kernel_size[1], sigma[1], dtype, device)
    return torch.mm(kernel1d_y[:, None], kernel1d_x[None, :])


def gaussian_blur(img: Tensor, kernel_size: list[int], sigma: list[float]) -> Tensor:
    assert_image_tensor(img)

    dtype = img.dtype if torch.is_floating_point(img) else torch.float32
    kernel = gaussian_kernel_2d(kernel_size, sigma, dtype=dtype, device=img.device)
    kernel = kernel.expand(img.shape[-3], 1, kernel.shape[0], kernel.shape[1])

    img, need_cast, need_squeeze, out_dtype = cast_squeeze_in(img, [kernel.dtype])

    left_right_top_bottom = [kernel_size[0] // 2, kernel_size[0] // 2, kernel_size[1] // 2, kernel_size[1] // 2]
    img = torch_pad(img, left_right_top_bottom, mode="reflect")
    img = conv2d(img, kernel, groups=img.shape[-3])

    return cast_squeeze_out(img, need_cast, need_squeeze, out_dtype)


def smoothed(img: Tensor) -> Tensor:
    """Pillow's SMOOTH filter, its outermost pixels unchanged."""
    if img.dtype == torch.uint8 and img.ndim >= 3:
        inside = _smoothed_bytes(img)
    else:
        dtype = img.dtype if torch.is_floating_point(img) else torch.float32
        kernel = torch.ones((3, 3), dtype=dtype, device=img.device)
        kernel[1, 1] = 5.0
        kernel /= kernel.sum()
        kernel = kernel.expand(img.shape[-3], 1, kernel.shape[0], kernel.shape[1])
        inside, need_cast, need_squeeze, out_dtype = cast_squeeze_in(img, [kernel.dtype])
        inside = conv2d(inside, kernel, groups=inside.shape[-3])
        inside = cast_squeeze_out(inside, need_cast, need_squeeze, out_dtype)

    result = img.clone()
    result[..., 1:-1, 1:-1] = inside
    return result


def _smoothed_bytes(img: Tensor) -> Tensor:
    """The inner pixels, from sums of whole numbers.

    A sum's thirteenth is never nearer than 1/26 to a half, far more than a convolution's floats err by: rounded, both
    are the same.
    """
    wide = img.to(torch.int16)
    threes = wide[..., :-2, :] + wide[..., 1:-1, :] + wide[..., 2:, :]
    sums = threes[..., :-2] + threes[..., 1:-1] + threes[..., 2:] + 4 * wide[..., 1:-1, 1:-1]
    return (sums * (1.0 / 13.0)).round().to(torch.uint8)


def adjust_sharpness(img: Tensor, sharpness_factor: float) -> Tensor:
    if sharpness_factor < 0:
        raise ValueError(f"sharpness_factor ({sharpness_factor}) is not non-negative.")
    assert_image_tensor(img)
    assert_channels(img, [1, 3])

    if img.size(-1) <= 2 or img.size(-2) <= 2:
        return img

    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        sharpened = planes.changed(Kind.TENSOR_SHARPNESS, img, sharpness_factor, TensorRounding.V1)
        if sharpened is not None:
            return sharpened
    return blend(img, smoothed(img), sharpness_factor)
