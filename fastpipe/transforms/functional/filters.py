"""Blur and sharpness: each call goes to the backend of its image's type. See `geometry` for the backends.

Derived from torchvision (BSD-3-Clause, see NOTICE).
"""

# TorchScript needs narrow annotations; eagerly wider values arrive, which the type checker calls unreachable.
# mypy: no-warn-unreachable

import torch

from fastpipe import ops
from fastpipe.transforms.functional import _images, _tensor_filters
from fastpipe.transforms.functional._types import Floats, Image, Ints


def gaussian_blur(img: Image, kernel_size: Ints, sigma: Floats | None = None) -> Image:
    """The image convolved with a Gaussian kernel, mirrored at its edges.

    Args:
        img: tensor ``(C, H, W)`` or ``(N, C, H, W)``, PIL image or ndarray.
        kernel_size: ``(x, y)`` in pixels, odd, or one number for both. TorchScript needs a list.
        sigma: standard deviations ``(x, y)`` in pixels, or one for both; ``0.15 * kernel_size + 0.35`` by default.
            TorchScript needs a list.

    Raises:
        TypeError: an argument of another type.
        ValueError: another number of values, an even kernel size, or a ``sigma`` that isn't positive.
        RuntimeError: half a kernel as large as the image.
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
    return _tensor_filters.gaussian_blur(img, kernel_size, list(sigma))


def adjust_sharpness(img: Image, sharpness_factor: float) -> Image:
    """The image blended with its smoothed version.

    Args:
        img: tensor ``(..., 1 or 3, H, W)``, PIL image or ndarray.
        sharpness_factor: 0 gives the smoothed version, 1 the image, 2 twice its sharpness.

    Raises:
        ValueError: a negative factor for a tensor.
    """
    if not isinstance(img, torch.Tensor):
        return _images.changed(ops.AdjustSharpness(sharpness_factor), img, sharpness_factor)
    return _tensor_filters.adjust_sharpness(img, sharpness_factor)
