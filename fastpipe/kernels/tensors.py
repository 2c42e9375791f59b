"""torchvision's v2 kernels on uint8 tensors ``(3, H, W)``: the same bytes in less time.

`fastpipe.ops.tensors` takes one only after it gave what the installed torchvision gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import torch

from fastpipe import core
from fastpipe.kernels import memory

STRIP = 1 << 16
"""Pixels that torch's temporary tensors leave in the cache."""


def strips(image: torch.Tensor, most: int = STRIP) -> Iterator[slice]:
    """The rows of a tensor ``(C, H, W)``, some after the other, of so many pixels."""
    rows = max(1, most // max(1, image.shape[2]))
    return (slice(top, top + rows) for top in range(0, image.shape[1], rows))


def adjust_hue(image: torch.Tensor, hue_factor: float) -> torch.Tensor | None:
    """Runs torch's operations in the core, pixel by pixel. None without the core, and for other memory layouts."""
    channels, height, width = image.shape
    if channels != 3 or not core.available() or image.stride()[1:] != (width, 1) or not -0.5 <= hue_factor <= 0.5:
        return None
    out = memory.fresh((channels, height, width), torch.uint8)
    core.hue(image.data_ptr(), out.data_ptr(), height * width, image.stride(0), height * width, hue_factor)
    return out


def adjust_contrast(image: torch.Tensor, contrast_factor: float) -> torch.Tensor | None:
    """Strip by strip; the mean alone is of the whole image, of the same numbers in the same order."""
    channels, height, width = image.shape
    if channels != 3 or contrast_factor < 0:
        return None
    gray = memory.fresh((1, height, width), torch.float32)
    for rows in strips(image):
        red, green, blue = image[:, rows]
        gray[0, rows] = red.mul(0.2989).add_(green, alpha=0.587).add_(blue, alpha=0.114).floor_()
    mean = torch.mean(gray, dim=(-3, -2, -1), keepdim=True)
    ratio = float(contrast_factor)
    out = memory.fresh((channels, height, width), torch.uint8)
    for rows in strips(image):
        out[:, rows] = image[:, rows].mul(ratio).add_(mean, alpha=1.0 - ratio).clamp_(0, 255)
    return out


KERNELS: Mapping[str, tuple[Callable[..., torch.Tensor | None], Mapping[str, Any]]] = MappingProxyType(
    {
        "adjust_contrast": (adjust_contrast, {"contrast_factor": 1.3}),
        "adjust_hue": (adjust_hue, {"hue_factor": 0.037}),
    }
)
"""The kernels by torchvision's name, each with arguments to try it with."""
