"""Neighbourhood filters: torchvision's Gaussian blur of images, by torch's own convolution or by the core.

The order in which torch adds up a float32 convolution decides about one byte in some ten thousand. The core adds in
the order of oneDNN on processors with fused multiply-add. Whether the installed torch does so, too, is tried out once
for each size of kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv2d

from fastpipe.torch_modes import computes_by_default

_MOST_WEIGHTS = 4096  # of a kernel: trying a larger one takes more than a second
_get_precision = getattr(torch._C, "_get_fp32_precision_getter", None)  # since torch 2.9


def gaussian_kernel_1d(kernel_size: int, sigma: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """torchvision's Gaussian weights along one axis."""
    ksize_half = (kernel_size - 1) * 0.5

    x = torch.linspace(-ksize_half, ksize_half, steps=kernel_size, dtype=dtype, device=device)
    pdf = torch.exp(-0.5 * (x / sigma).pow(2))
    return pdf / pdf.sum()


def blur_weights(
    kernel_size: Sequence[int], sigma: Sequence[float], height: int, width: int, channels: int
) -> tuple[bytes, bytes] | None:
    """The horizontal and vertical weights of a blur that the core computes exactly as torch does.

    Args:
        kernel_size, sigma: ``(x, y)`` in pixels.
        height, width, channels: the image's shape.

    Returns:
        Both weights as bytes of float32; None if torch has to compute or refuse the blur.
    """
    columns, rows = kernel_size
    if columns // 2 >= width or rows // 2 >= height or columns * rows > _MOST_WEIGHTS or not columns & rows & 1:
        return None
    if not computes_by_default() or not _is_known(channels, columns, rows):
        return None
    along = _weights(columns, sigma[0])
    return along, along if rows == columns and sigma[0] == sigma[1] else _weights(rows, sigma[1])


def _weights(size: int, sigma: float) -> bytes:
    return gaussian_kernel_1d(size, sigma, torch.float32, torch.device("cpu")).numpy().tobytes()


def _is_known(channels: int, columns: int, rows: int) -> bool:
    # For one channel and a narrow kernel torch chooses between oneDNN and a loop of its own by the image's size.
    if channels == 1 and min(columns, rows) <= 3:
        return False
    precision = None if _get_precision is None else _get_precision("mkldnn", "conv")
    return _adds_in_order(channels, columns, rows, torch._C._get_mkldnn_enabled(), precision, torch.get_num_threads())


@functools.lru_cache(maxsize=256)
def _adds_in_order(channels: int, columns: int, rows: int, *settings: object) -> bool:
    """True if torch adds up a kernel row by row, in one chain of fused multiply-adds for each value.

    Args:
        channels: the image's channels.
        columns, rows: the kernel's size.
        settings: other settings by which torch chooses its algorithm; keys of the cache.
    """
    rng = np.random.default_rng(0)
    kernel = (rng.uniform(0.5, 1, (rows, columns)) / (rows * columns)).astype(np.float32)
    for height, width, step in ((12, 46, 1), (150, 211, 29)):  # sizes of the result: small with edges, and large
        image = rng.integers(0, 256, (channels, height + rows - 1, width + columns - 1)).astype(np.float32)
        weights = torch.from_numpy(kernel).expand(channels, 1, rows, columns)
        with torch.no_grad():
            result = conv2d(torch.from_numpy(image)[None], weights, groups=channels)[0, :, ::step, ::step].numpy()
        sums = np.zeros(result.shape, np.float32)
        wide = image.astype(np.float64)  # float64 holds the products and their sums without rounding
        for y in range(rows):
            for x in range(columns):
                part = wide[:, y : y + height : step, x : x + width : step]
                sums = (part * float(kernel[y, x]) + sums).astype(np.float32)
        if not np.array_equal(sums, result):
            return False
    return True
