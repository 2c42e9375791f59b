"""What all kernels share: array types, cv2's habit of dropping a channel axis of one, the way to Pillow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

__all__ = ["FloatArray", "UInt8Array", "as_uint8", "channels", "copied", "like", "through_pillow", "transposed"]

UInt8Array: TypeAlias = npt.NDArray[np.uint8]
FloatArray: TypeAlias = npt.NDArray[np.float32]


def as_uint8(values: npt.NDArray[np.generic]) -> UInt8Array:
    """The values, which must lie in 0…255, cut to whole numbers."""
    result: UInt8Array = values.astype(np.uint8)
    return result


def copied(image: UInt8Array) -> UInt8Array:
    """A contiguous copy, for the images that an operation leaves as they are."""
    result: UInt8Array = image.copy()
    return result


def channels(image: UInt8Array) -> int:
    """The number of channels; 1 for ``(H, W)``."""
    return 1 if image.ndim == 2 else image.shape[2]


def like(result: UInt8Array, image: UInt8Array) -> UInt8Array:
    """``result`` with the channel axis that ``image`` has: cv2 returns ``(H, W)`` for ``(H, W, 1)``."""
    return result[..., None] if image.ndim == 3 and result.ndim == 2 else result


def transposed(image: UInt8Array) -> UInt8Array:
    """``(W, H)`` or ``(W, H, C)``, contiguous."""
    return like(cv2.transpose(image), image)


def through_pillow(image: UInt8Array, operation: Callable[[Image.Image], Image.Image]) -> UInt8Array:
    """``operation`` on the array as a Pillow image of one, three or four channels."""
    if channels(image) == 4:
        # RGBX, unlike RGBA, has no alpha that Pillow would multiply into the colours.
        picture = Image.frombytes("RGBX", (image.shape[1], image.shape[0]), image.tobytes())
    else:
        picture = Image.fromarray(image[..., 0] if image.ndim == 3 and image.shape[2] == 1 else image)
    return like(np.array(operation(picture)), image)
