"""The operations on ndarrays: torchvision's semantics on PIL images for uint8, its tensor backend for floats.

An operation on uint8 pixels is its table, what the core makes of it, or Pillow's own; those that move whole pixels,
resizes and blurs have kernels, and elastic warps are the tensor backend's, as in torchvision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fastpipe.kernels import geometry, resizing
from fastpipe.kernels._arrays import channels, core_or_pillow
from fastpipe.kernels.color import apply_table
from fastpipe.ops import Affine, Crop, ElasticTransform, GaussianBlur, Operation, Pad, Perspective, Resize, Rotate
from fastpipe.ops.interpolation import InterpolationMode
from fastpipe.transforms._functional_pil import check_pad_arguments, fill_per_band
from fastpipe.types import ImageShape

ANY = (1, 2, 3, 4)
GRAY_OR_RGB = (1, 3)

_UINT8 = np.dtype(np.uint8)


def check_image(img: NDArray[Any], permitted: tuple[int, ...] = ANY) -> None:
    """Let an image pass: ``(H, W)`` or ``(H, W, C)`` with up to four channels, uint8, float32 or float64.

    Raises:
        TypeError: any other shape or dtype.
    """
    if img.dtype is _UINT8 and img.ndim == 3 and img.shape[2] in permitted:
        return  # what most are, in half the time
    if img.ndim not in (2, 3) or (img.ndim == 3 and img.shape[2] not in ANY):
        raise TypeError(
            f"img should be PIL Image, Tensor or ndarray of shape (H, W) or (H, W, C) with up to {max(ANY)} "
            f"channels. Got an ndarray of shape {img.shape}; a channels-first array is an image as "
            "torch.from_numpy(array)"
        )
    if img.dtype != np.uint8 and img.dtype not in (np.float32, np.float64):
        raise TypeError(f"img should be an ndarray of dtype uint8, float32 or float64. Got {img.dtype}")
    if channels(img) not in permitted:
        raise TypeError(
            f"Input image ndarray permitted channel values are {list(permitted)}, but found {channels(img)}"
        )


def get_dimensions(img: NDArray[Any]) -> list[int]:
    check_image(img)
    return [channels(img), *img.shape[:2]]


def changed(
    operation: Operation, img: NDArray[Any], permitted: tuple[int, ...] = GRAY_OR_RGB, kernel: Any = None
) -> NDArray[Any]:
    """An operation's result; of floats, the tensor backend's.

    Args:
        operation: what is done.
        img: any array; anything but an image is refused.
        permitted: how many channels the image may have.
        kernel: does it to uint8 pixels; None for the operation's table, what the core makes of it, or Pillow's own.
    """
    check_image(img, permitted)
    if img.dtype != _UINT8:
        return through_tensor(operation.apply, img)
    if kernel is not None:
        return kernel(img)  # type: ignore[no-any-return]
    table = operation.table()
    if table is not None:
        return apply_table(img, table)
    shape = ImageShape(img.shape[0], img.shape[1], channels(img))
    result = operation.output_shape(shape)
    size = tuple(result) if img.ndim == 3 or result.channels > 1 else result.size
    operation = _for_pillow(operation, shape.channels)
    return core_or_pillow(img, lambda job: operation.to_core(job, shape), operation.apply, size)


def _for_pillow(operation: Operation, count: int) -> Operation:
    """To Pillow, two channels are four: so is the colour that fills them."""
    if isinstance(operation, (Affine, Perspective, Rotate)) and isinstance(operation.fill, (list, tuple)):
        return replace(operation, fill=(*operation.fill, 0, 0)) if count == len(operation.fill) == 2 else operation
    return operation


def through_tensor(operation: Callable[[Tensor], Tensor], img: NDArray[Any]) -> NDArray[Any]:
    """The tensor backend's result for a float array ``(H, W)`` or ``(H, W, C)`` of values in [0, 1].

    No pixel is copied on the way in where the array is contiguous, nor on the way out. Another layout is copied: torch
    knows no negative strides, warns of read-only memory, and adds floats up in the order in which they lie.
    """
    if not (img.flags.c_contiguous and img.flags.writeable):
        img = img.copy()
    gray = img.ndim == 2
    tensor = torch.from_numpy(img[:, :, None] if gray else img).permute(2, 0, 1)
    result: NDArray[Any] = operation(tensor).permute(1, 2, 0).numpy()
    return result[:, :, 0] if gray and result.shape[2] == 1 else result


def crop(img: NDArray[Any], top: int, left: int, height: int, width: int) -> NDArray[Any]:
    check_image(img)
    # Pillow's message; an inverted box makes no sense for arrays either.
    if width < 0:
        raise ValueError("Coordinate 'right' is less than 'left'")
    if height < 0:
        raise ValueError("Coordinate 'lower' is less than 'upper'")
    operation = Crop(top, left, height, width)
    return changed(operation, img, ANY, lambda pixels: geometry.crop(pixels, top, left, height, width))


def resize(
    img: NDArray[Any], height: int, width: int, interpolation: InterpolationMode, antialias: bool
) -> NDArray[Any]:
    """``antialias`` is for floats only: uint8 arrays are PIL images by another name, always antialiased."""
    check_image(img)
    if height <= 0 or width <= 0:
        raise ValueError("height and width must be > 0")
    operation = Resize([height, width], interpolation, None, antialias)
    return changed(operation, img, ANY, lambda pixels: resizing.resize(pixels, height, width, interpolation.value))


def pad(img: NDArray[Any], padding: Any, fill: Any = 0, padding_mode: str = "constant") -> NDArray[Any]:
    check_image(img)
    padding = check_pad_arguments(padding, fill, padding_mode)
    if img.dtype != _UINT8:
        return through_tensor(Pad(padding, fill, padding_mode).apply, img)
    left, top, right, bottom = (int(p) for p in (padding * 2 if len(padding) == 2 else padding))
    return geometry.pad(img, left, top, right, bottom, _color(fill, img, padding_mode), padding_mode)


def _color(fill: Any, img: NDArray[Any], padding_mode: str) -> Any:
    """The fill as Pillow draws it: an integer, or one a channel, clipped to the range of a pixel."""
    if padding_mode != "constant":
        return None
    color = fill_per_band(fill, channels(img))
    return tuple(min(max(x, 0), 255) for x in color) if isinstance(color, tuple) else min(max(color, 0), 255)


def gaussian_blur(img: NDArray[Any], kernel_size: list[int], sigma: list[float]) -> NDArray[Any]:
    check_image(img)
    # An image is mirrored at its edges, which must be longer than the mirrored part: torch's rule, and its error.
    if img.dtype == np.uint8 and (kernel_size[0] // 2 >= img.shape[1] or kernel_size[1] // 2 >= img.shape[0]):
        raise RuntimeError(
            f"kernel_size (x, y) should be less than twice the image's size. Got {kernel_size} for a width of "
            f"{img.shape[1]} and a height of {img.shape[0]}"
        )
    return changed(GaussianBlur(kernel_size, sigma), img, ANY)


def elastic_transform(
    img: NDArray[Any], displacement: Tensor, interpolation: InterpolationMode, fill: Any
) -> NDArray[Any]:
    check_image(img)
    if img.size == 0:
        return np.zeros_like(img)
    operation = ElasticTransform(displacement, interpolation, fill).apply
    if img.dtype != np.uint8:
        return through_tensor(operation, img)
    planes = torch.from_numpy(np.stack(cv2.split(img)))  # the core takes images whose planes are one after the other
    moved: NDArray[Any] = cv2.merge([*operation(planes).numpy()])
    return moved.reshape(img.shape)
