"""Neighbourhood filters: torchvision's Gaussian blur of images, by torch's own convolution or by the core.

The order in which torch adds up a float32 convolution decides about one byte in some ten thousand. The core adds in
the order of oneDNN on processors with fused multiply-add. Whether the installed torch does so, too, is tried out once
for each size of kernel.

Of floats the core keeps each sum. On one thread of a processor with AVX2 it takes a fourth to a twentieth of torch's
time for a kernel of 3 to 41 and images of 16 to 512 px: for 224 px, 3 channels and a kernel of 23 1.6 ms in place of
10.6, for the field of an elastic transform (one channel, a kernel of 41) 1.6 ms in place of 24.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import conv2d
from torch.nn.functional import pad as torch_pad

from fastpipe import core
from fastpipe.core import planes as native
from fastpipe.tensor_kernels import floats, planes
from fastpipe.torch_modes import computes_by_default, float32_precision, multiplies_exactly, torch_modes_active

WeightsOf: TypeAlias = "Callable[[int, float, torch.dtype, torch.device], Tensor]"
"""Makes the Gaussian weights along one axis."""

_MOST_WEIGHTS = 1 << 14  # of a kernel: trying a larger one takes more than half a second


def gaussian_kernel_1d(kernel_size: int, sigma: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """torchvision's Gaussian weights along one axis."""
    ksize_half = (kernel_size - 1) * 0.5

    x = torch.linspace(-ksize_half, ksize_half, steps=kernel_size, dtype=dtype, device=device)
    pdf = torch.exp(-0.5 * (x / sigma).pow(2))
    return pdf / pdf.sum()


def gaussian_kernel_1d_of_v2(kernel_size: int, sigma: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The weights of torchvision's v2, which are rounded otherwise, by its own function."""
    misc = importlib.import_module("torchvision.transforms.v2.functional._misc")
    weights: Tensor = misc._get_gaussian_kernel1d(kernel_size, sigma, dtype=dtype, device=device)
    return weights


def blur_weights(
    kernel_size: Sequence[int],
    sigma: Sequence[float],
    height: int,
    width: int,
    channels: int,
    weights_of: WeightsOf = gaussian_kernel_1d,
) -> tuple[bytes, bytes] | None:
    """The horizontal and vertical weights of a blur that the core computes exactly as torch does.

    Args:
        kernel_size, sigma: ``(x, y)`` in pixels.
        height, width, channels: the image's shape.
        weights_of: `gaussian_kernel_1d`, or `gaussian_kernel_1d_of_v2`.

    Returns:
        Both weights as bytes of float32; None if torch has to compute or refuse the blur.
    """
    columns, rows = kernel_size
    if columns // 2 >= width or rows // 2 >= height or columns * rows > _MOST_WEIGHTS or not columns & rows & 1:
        return None
    if not computes_by_default() or not multiplies_exactly() or not _is_known(channels, columns, rows):
        return None
    along = _weights(weights_of, columns, sigma[0])
    return along, along if rows == columns and sigma[0] == sigma[1] else _weights(weights_of, rows, sigma[1])


def _weights(weights_of: WeightsOf, size: int, sigma: float) -> bytes:
    return weights_of(size, sigma, torch.float32, torch.device("cpu")).numpy().tobytes()


def blur_arguments(kernel_size: object, sigma: object = None) -> tuple[list[int], list[float]] | None:
    """torchvision's arguments of a blur as ``(x, y)`` each; None for those that it refuses."""
    sizes = [kernel_size] * 2 if isinstance(kernel_size, int) else kernel_size
    if not isinstance(sizes, (list, tuple)) or not all(isinstance(size, int) and size > 0 for size in sizes):
        return None
    sigmas = [size * 0.15 + 0.35 for size in sizes] if sigma is None else sigma
    if isinstance(sigmas, (int, float)):
        sigmas = [sigmas]
    if not isinstance(sigmas, (list, tuple)) or not all(isinstance(one, (int, float)) and one > 0 for one in sigmas):
        return None
    if len(sigmas) == 1:
        sigmas = [*sigmas] * 2
    return ([*sizes], [*sigmas]) if len(sizes) == len(sigmas) == 2 else None


def blurred(image: Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> Tensor | None:
    """torchvision's blur of a tensor ``(..., C, H, W)`` by the core; None if torch has to compute or refuse it."""
    return _blurred(image, kernel_size, sigma, gaussian_kernel_1d)


def blurred_as_v2(image: Tensor, kernel_size: object, sigma: object = None) -> Tensor | None:
    """`blurred` with the arguments and the weights of torchvision's v2."""
    arguments = blur_arguments(kernel_size, sigma)
    return None if arguments is None else _blurred(image, *arguments, gaussian_kernel_1d_of_v2)


def _blurred(image: Tensor, kernel_size: Sequence[int], sigma: Sequence[float], weights_of: WeightsOf) -> Tensor | None:
    if image.dtype == torch.float32:
        return _blurred_floats(image, kernel_size, sigma, weights_of)
    if image.ndim < 3 or image.dtype != torch.uint8 or not planes.is_plain(image):
        return None
    if image.ndim == 3:
        image = image.contiguous()  # as the convolution's result is, but for batches
    if not planes.takes(image):
        return None
    channels, height, width = image.shape[-3:]
    weights = blur_weights(kernel_size, sigma, height, width, channels, weights_of)
    return None if weights is None else planes.by_job(image, lambda job: job.torch_blur(*weights))


def _blurred_floats(
    image: Tensor, kernel_size: Sequence[int], sigma: Sequence[float], weights_of: WeightsOf
) -> Tensor | None:
    """The same for an image or a batch of float32, in torch's memory layout."""
    if image.ndim not in (3, 4) or image.shape[-3] not in (1, 3) or image.numel() == 0 or image.requires_grad:
        return None
    if not planes.is_plain(image) or torch_modes_active() or max(image.shape) > planes.MOST:
        return None
    if core.isa() == "portable" or torch.get_num_threads() > floats.MOST_THREADS:
        return None
    batch = image if image.ndim == 4 else image[None]
    channels, height, width = batch.shape[1:]
    is_last = floats.is_channels_last(batch)
    # torch adds up a single channel whose strides pass for channels last in another order, up to kernels of some 30.
    if height == width == 1 or (channels == 1 and is_last):
        return None
    weights = blur_weights(kernel_size, sigma, height, width, channels, weights_of)
    result = None if weights is None else _convolved(batch, *weights)
    if result is None:
        return None
    result = result.contiguous(memory_format=torch.channels_last if is_last else torch.contiguous_format)
    return result if image.ndim == 4 else result[0]


def _convolved(batch: Tensor, along: bytes, down: bytes) -> Tensor | None:
    """The sums of a batch ``(N, C, H, W)`` of float32, mirrored at its edges; None if the core doesn't make them."""
    batch, out = batch.contiguous(), torch.empty(batch.shape, dtype=torch.float32, device="cpu")
    images, channels, *size = batch.shape
    arguments = batch.data_ptr(), (images * channels, *size), along + down, (len(along) // 4, len(down) // 4)
    return out if native.blur_floats(core.thread_context(), *arguments, out.data_ptr()) else None


def _is_known(channels: int, columns: int, rows: int) -> bool:
    # For one channel and a narrow kernel torch chooses between oneDNN and a loop of its own by the image's size.
    if channels == 1 and min(columns, rows) <= 3:
        return False
    precision = float32_precision("conv")
    return _adds_in_order(channels, columns, rows, torch._C._get_mkldnn_enabled(), precision, torch.get_num_threads())


@functools.lru_cache(maxsize=256)
def _adds_in_order(channels: int, columns: int, rows: int, *settings: object) -> bool:
    """True if torch adds up a kernel as the core: row by row, in one chain of fused multiply-adds for each value.

    Args:
        channels: the image's channels.
        columns, rows: the kernel's size.
        settings: other settings by which torch chooses its algorithm; keys of the cache.
    """
    generator = torch.Generator().manual_seed(0)
    new: Any = {"generator": generator, "dtype": torch.float32, "device": "cpu"}
    along, down = (torch.rand(size, **new).add_(0.5).div_(size) for size in (columns, rows))
    kernel = torch.mul(down[:, None], along).expand(channels, 1, rows, columns)
    factors = along.numpy().tobytes(), down.numpy().tobytes()
    for height, width in ((12, 46), (150, 211)):  # small with edges, and large
        size = max(height, rows // 2 + 1), max(width, columns // 2 + 1)
        image = torch.randn((1, channels, *size), **new)
        sums = _convolved(image, *factors)
        pixels = torch_pad(image, [columns // 2] * 2 + [rows // 2] * 2, mode="reflect")
        for layout in (torch.contiguous_format, torch.channels_last):  # of tensors, and of Pillow's images
            with torch.no_grad():
                known = conv2d(pixels.contiguous(memory_format=layout), kernel, groups=channels)
            if sums is None or not torch.equal(known, sums):
                return False
    return True
