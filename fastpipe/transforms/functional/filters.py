"""Blur and sharpness functions: on tensors here, on other images by `_images`. See `geometry`.

Derived from torchvision (BSD-3-Clause, see NOTICE); compiled by TorchScript.
"""

import torch
from torch import Tensor
from torch.nn.functional import conv2d
from torch.nn.functional import pad as torch_pad

from fastpipe import ops
from fastpipe.core import Kind, TensorRounding
from fastpipe.tensor_kernels import planes
from fastpipe.tensor_kernels.filters import blurred, gaussian_kernel_1d
from fastpipe.tensor_kernels.torchscript import FloatList, Floats, Image, IntList, Ints, is_scripting
from fastpipe.transforms.functional import _images
from fastpipe.transforms.functional._tensor_common import (
    assert_channels,
    assert_image_tensor,
    cast_squeeze_in,
    cast_squeeze_out,
)
from fastpipe.transforms.functional.color import blend


def gaussian_blur(img: Image, kernel_size: Ints, sigma: Floats | None = None) -> Image:
    """The image convolved with a Gaussian kernel, mirrored at its edges.

    Args:
        img: tensor ``(C, H, W)`` or ``(N, C, H, W)``, PIL image or ndarray.
        kernel_size: ``(x, y)`` in pixels, odd, or one number for both. TorchScript needs a list.
        sigma: standard deviations ``(x, y)`` in pixels, or one for both; ``0.15 * kernel_size + 0.35`` by default.
            TorchScript needs a list.

    Raises:
        TypeError: an argument has another type.
        ValueError: an argument has another number of values, a kernel size is even, or ``sigma`` isn't positive.
        RuntimeError: half of the kernel is as large as the image.
    """
    if not isinstance(kernel_size, (int, list, tuple)):
        raise TypeError(f"kernel_size should be int or a sequence of integers. Got {type(kernel_size)}")
    if isinstance(kernel_size, int):
        kernel_size = [kernel_size, kernel_size]
    if len(kernel_size) != 2:
        raise ValueError(f"If kernel_size is a sequence its length should be 2. Got {len(kernel_size)}")
    for ksize in kernel_size:
        if ksize % 2 == 0 or ksize < 0:
            raise ValueError(f"kernel_size should have odd and positive integers. Got {kernel_size}")

    if sigma is None:
        sigma = [ksize * 0.15 + 0.35 for ksize in kernel_size]
    elif not isinstance(sigma, (int, float, list, tuple)):
        raise TypeError(f"sigma should be either float or sequence of floats. Got {type(sigma)}")
    elif isinstance(sigma, (int, float)):
        sigma = [float(sigma), float(sigma)]
    elif len(sigma) == 1:
        sigma = [sigma[0], sigma[0]]
    if len(sigma) != 2:
        raise ValueError(f"If sigma is a sequence, its length should be 2. Got {len(sigma)}")
    for s in sigma:
        if s <= 0.0:
            raise ValueError(f"sigma should have positive values. Got {sigma}")

    if not isinstance(img, torch.Tensor):
        return _images.gaussian_blur(img, kernel_size, list(sigma))
    assert_image_tensor(img)
    if not is_scripting():
        by_core = blurred(img, kernel_size, list(sigma))
        if by_core is not None:
            return by_core
    dtype = img.dtype if torch.is_floating_point(img) else torch.float32
    kernel = gaussian_kernel_2d(kernel_size, list(sigma), dtype=dtype, device=img.device)
    left_right_top_bottom = [kernel_size[0] // 2, kernel_size[0] // 2, kernel_size[1] // 2, kernel_size[1] // 2]
    return convolved(img, kernel, left_right_top_bottom)


def gaussian_kernel_2d(kernel_size: IntList, sigma: FloatList, dtype: torch.dtype, device: torch.device) -> Tensor:
    kernel1d_x = gaussian_kernel_1d(kernel_size[0], sigma[0], dtype, device)
    kernel1d_y = gaussian_kernel_1d(kernel_size[1], sigma[1], dtype, device)
    return torch.mm(kernel1d_y[:, None], kernel1d_x[None, :])


def convolved(img: Tensor, kernel: Tensor, padding: list[int]) -> Tensor:
    """Pads by mirroring (left, right, top, bottom), then convolves each channel with a kernel ``(h, w)``."""
    kernel = kernel.expand(img.shape[-3], 1, kernel.shape[0], kernel.shape[1])
    img, need_cast, need_squeeze, out_dtype = cast_squeeze_in(img, [kernel.dtype])
    if len(padding) > 0:
        img = torch_pad(img, padding, mode="reflect")
    img = conv2d(img, kernel, groups=img.shape[-3])
    return cast_squeeze_out(img, need_cast, need_squeeze, out_dtype)


def adjust_sharpness(img: Image, sharpness_factor: float) -> Image:
    """The image blended with its smoothed version.

    Args:
        img: tensor ``(..., 1 or 3, H, W)``, PIL image or ndarray.
        sharpness_factor: 0 gives the smoothed version, 1 the image, 2 twice its sharpness.

    Raises:
        ValueError: the factor is negative, for a tensor.
    """
    if not isinstance(img, torch.Tensor):
        return _images.changed(ops.AdjustSharpness(sharpness_factor), img, sharpness_factor)
    if sharpness_factor < 0:
        raise ValueError(f"sharpness_factor ({sharpness_factor}) is not non-negative.")
    assert_channels(img, [1, 3])

    if img.size(-1) <= 2 or img.size(-2) <= 2:
        return img

    if not is_scripting():
        sharpened = planes.changed(Kind.TENSOR_SHARPNESS, img, sharpness_factor, TensorRounding.V1)
        if sharpened is not None:
            return sharpened
    return blend(img, smoothed(img), sharpness_factor)


def smoothed(img: Tensor) -> Tensor:
    """The result of Pillow's SMOOTH filter, with the outermost pixels unchanged."""
    if img.dtype == torch.uint8 and img.ndim >= 3:
        inside = _smoothed_bytes(img)
    else:
        dtype = img.dtype if torch.is_floating_point(img) else torch.float32
        kernel = torch.ones((3, 3), dtype=dtype, device=img.device)
        kernel[1, 1] = 5.0
        kernel /= kernel.sum()
        inside = convolved(img, kernel, [])

    result = img.clone()
    result[..., 1:-1, 1:-1] = inside
    return result


def _smoothed_bytes(img: Tensor) -> Tensor:
    """The inner pixels of `smoothed`, from integer sums.

    A thirteenth of an integer is at least 1/26 away from a half, much more than the error of a float convolution, so
    both round to the same value.
    """
    wide = img.to(torch.int16)
    threes = wide[..., :-2, :] + wide[..., 1:-1, :] + wide[..., 2:, :]
    sums = threes[..., :-2] + threes[..., 1:-1] + threes[..., 2:] + 4 * wide[..., 1:-1, 1:-1]
    return (sums.to(torch.float32) * (1.0 / 13.0)).round().to(torch.uint8)
