"""What every operation on ndarrays shares: which arrays are images, and the way to the tensor backend for floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fastpipe.transforms.functional._pil_common import fill_per_band

__all__ = ["check_image", "get_dimensions", "is_float_image", "pillow_color", "through_tensor"]

_MAX_CHANNELS = 4


def check_image(img: NDArray[Any], channels: tuple[int, ...] = (1, 2, 3, 4)) -> None:
    """Let an image pass: ``(H, W)`` or ``(H, W, C)`` with up to four channels, uint8, float32 or float64.

    Raises:
        TypeError: any other shape or dtype.
    """
    if img.ndim not in (2, 3) or (img.ndim == 3 and not 1 <= img.shape[2] <= _MAX_CHANNELS):
        raise TypeError(
            f"img should be PIL Image, Tensor or ndarray of shape (H, W) or (H, W, C) with up to {_MAX_CHANNELS} "
            f"channels. Got an ndarray of shape {img.shape}; a channels-first array is an image as "
            "torch.from_numpy(array)"
        )
    if img.dtype != np.uint8 and img.dtype not in (np.float32, np.float64):
        raise TypeError(f"img should be an ndarray of dtype uint8, float32 or float64. Got {img.dtype}")
    found = 1 if img.ndim == 2 else img.shape[2]
    if found not in channels:
        raise TypeError(f"Input image ndarray permitted channel values are {list(channels)}, but found {found}")


def is_float_image(img: NDArray[Any]) -> bool:
    return img.dtype != np.uint8


def get_dimensions(img: NDArray[Any]) -> list[int]:
    check_image(img)
    return [1 if img.ndim == 2 else img.shape[2], img.shape[0], img.shape[1]]


def pillow_color(fill: Any, img: NDArray[Any]) -> Any:
    """What Pillow draws for that fill: an integer, or one a channel, clipped to the range of a pixel."""
    color = fill_per_band(fill, get_dimensions(img)[0])
    return tuple(min(max(x, 0), 255) for x in color) if isinstance(color, tuple) else min(max(color, 0), 255)


def through_tensor(operation: Callable[..., Tensor], img: NDArray[Any], *args: Any, **kwargs: Any) -> NDArray[Any]:
    """The tensor backend's result for a float array ``(H, W)`` or ``(H, W, C)`` of values in [0, 1].

    No pixel is copied on the way in where the array is contiguous, nor on the way out. Another layout is copied: torch
    knows no negative strides, warns of read-only memory, and adds floats up in the order in which they lie.
    """
    if not (img.flags.c_contiguous and img.flags.writeable):
        img = img.copy()
    gray = img.ndim == 2
    tensor = torch.from_numpy(img[:, :, None] if gray else img).permute(2, 0, 1)
    result: NDArray[Any] = operation(tensor, *args, **kwargs).permute(1, 2, 0).numpy()
    return result[:, :, 0] if gray and result.shape[2] == 1 else result
