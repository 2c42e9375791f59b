"""The functionals on PIL images and ndarrays.

PIL images get torchvision's results for them, made by the core from the image's own memory. Pillow handles, or refuses,
all that the core doesn't take: other modes, images with several blocks of memory, invalid arguments, and images with
too few pixels to be worth a call (`Operation.least_pixels`).

uint8 arrays get the results of PIL images: from an operation's table, the core, Pillow, or, for resizes and operations
that move whole pixels, from a kernel. Floating arrays get the tensor backend's results. An elastic warp of any image
goes through a tensor, as in torchvision.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from fastpipe.kernels import geometry, warp
from fastpipe.kernels.arrays import UInt8Array, channels
from fastpipe.kernels.color import apply_table
from fastpipe.kernels.conversion import array_to_tensor, planes_to_array
from fastpipe.ops import (
    Affine,
    Crop,
    ElasticTransform,
    GaussianBlur,
    HFlip,
    Operation,
    Pad,
    Perspective,
    PerspectiveBy,
    Resize,
    Rotate,
    VFlip,
    interned_once,
    least_pixels_of_warp,
    resize_to,
)
from fastpipe.ops.base import on_array
from fastpipe.ops.interpolation import InterpolationMode, pil_modes_mapping
from fastpipe.ops.matrices import inverse_affine_matrix
from fastpipe.program import run_operation, shape_of
from fastpipe.transforms import _functional_pil as _pil
from fastpipe.transforms.functional.conversion import pil_to_tensor, to_pil_image
from fastpipe.types import Array, Box, Fill, Ints

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Pixels: TypeAlias = "Image | Array"
"""An image of the same type as the input."""
ANY = (1, 2, 3, 4)
_GRAY_OR_RGB = (1, 3)
_UINT8 = np.dtype(np.uint8)
_HFLIP = interned_once(HFlip)


def changed(operation: Operation, img: object, *arguments: object) -> Pixels:
    """Applies an operation to an image.

    Args:
        operation: the operation.
        img: any object; raises if it is no image.
        arguments: the operation's arguments, for the function of the same name in `_functional_pil`.
    """
    if isinstance(img, np.ndarray):
        return _changed_array(operation, img, _GRAY_OR_RGB)
    by_core = run_operation(operation, img)
    return getattr(_pil, operation.op)(img, *arguments) if by_core is None else by_core


# -- arrays


def check_array(img: Array, permitted: tuple[int, ...] = ANY) -> None:
    """Checks an image: ``(H, W)`` or ``(H, W, C)`` with up to four channels, uint8, float32 or float64.

    Raises:
        TypeError: the array has another shape or dtype.
    """
    if img.dtype is _UINT8 and img.ndim == 3 and img.shape[2] in permitted:
        return  # a shortcut for most images
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


def _is_uint8(img: Array) -> TypeIs[UInt8Array]:
    return img.dtype == _UINT8


def _changed_array(
    operation: Operation,
    img: Array,
    permitted: tuple[int, ...] = ANY,
    kernel: Callable[[UInt8Array], UInt8Array] | None = None,
) -> Array:
    """Applies an operation to an array: by a kernel, the operation's table, the core, Pillow or a tensor."""
    check_array(img, permitted)
    if not _is_uint8(img):
        return _through_tensor(operation, img)
    if kernel is not None:
        return kernel(img)
    table = operation.table()
    if table is not None:
        return apply_table(img, table)
    if (
        isinstance(operation, (Affine, Perspective, Rotate))
        and isinstance(operation.fill, (list, tuple))
        and channels(img) == len(operation.fill) == 2
    ):
        operation = replace(operation, fill=(*operation.fill, 0, 0))  # Pillow has four values for two channels
    return on_array(operation, img)


def _through_tensor(operation: Operation, img: Array) -> Array:
    """The tensor backend's result for a float array ``(H, W)`` or ``(H, W, C)`` of values in [0, 1].

    Copies no pixels of a contiguous array, and none of the result. Another layout is copied, because torch supports no
    negative strides, warns of read-only memory, and adds floats in memory order.
    """
    if not (img.flags.c_contiguous and img.flags.writeable):
        img = img.copy()
    gray = img.ndim == 2
    tensor = torch.from_numpy(img[:, :, None] if gray else img).permute(2, 0, 1)
    result: Array = operation.apply(tensor).permute(1, 2, 0).numpy()
    return result[:, :, 0] if gray and result.shape[2] == 1 else result


# -- the functionals, in the order of `geometry`, `warps` and `filters`


def get_dimensions(img: object) -> list[int]:
    if isinstance(img, np.ndarray):
        check_array(img)
        return [channels(img), *img.shape[:2]]
    return _pil.get_dimensions(img)


def crop(img: Pixels, top: int, left: int, height: int, width: int) -> Pixels:
    if not isinstance(img, np.ndarray):
        return _pil.crop(img, top, left, height, width)
    check_array(img)
    # Pillow's message; an inverted box is invalid for arrays, too.
    if width < 0:
        raise ValueError("Coordinate 'right' is less than 'left'")
    if height < 0:
        raise ValueError("Coordinate 'lower' is less than 'upper'")
    box = top, left, height, width
    return _changed_array(Crop(*box), img, kernel=lambda pixels: geometry.crop(pixels, *box))


def center_crop(img: Pixels, top: int, left: int, height: int, width: int) -> Pixels:
    """Crops the box in the middle; pads a smaller PIL image first."""
    if isinstance(img, np.ndarray):
        return crop(img, top, left, height, width)
    _, rows, columns = _pil.get_dimensions(img)
    missing = [-left, -top, left + width - columns, top + height - rows]
    if max(missing) > 0:
        img = _pil.pad(img, [max(pixels, 0) for pixels in missing])
        if img.size == (width, height):
            return img
        top, left = max(top, 0), max(left, 0)
    return _pil.crop(img, top, left, height, width)


def hflip(img: Pixels) -> Pixels:
    if isinstance(img, np.ndarray):
        return _changed_array(_HFLIP, img, ANY, geometry.hflip)
    # Checked inline: with one more Python call, small images would take longer than in Pillow.
    is_large = isinstance(img, Image) and img.width * img.height >= _HFLIP.least_pixels(3)
    by_core = run_operation(_HFLIP, img) if is_large else None
    return _pil.hflip(img) if by_core is None else by_core


def vflip(img: Pixels) -> Pixels:
    """Mirrors top and bottom; a PIL image by Pillow, as nothing copies whole rows faster."""
    if not isinstance(img, np.ndarray):
        return _pil.vflip(img)
    return _changed_array(VFlip(), img, ANY, geometry.vflip)


def resize(img: Pixels, height: int, width: int, interpolation: InterpolationMode, antialias: bool | None) -> Pixels:
    """Resizes; ``antialias`` only affects float arrays, as PIL images and uint8 arrays are always antialiased."""
    if isinstance(img, np.ndarray):
        check_array(img)
        if height <= 0 or width <= 0:
            raise ValueError("height and width must be > 0")
        if not _is_uint8(img):
            return _through_tensor(Resize([height, width], interpolation, None, bool(antialias)), img)
        return img if img.shape[:2] == (height, width) else on_array(resize_to([height, width], interpolation), img)
    if antialias is False:
        warnings.warn(
            "Anti-alias option is always applied for PIL Image input. Argument antialias is ignored.", stacklevel=3
        )
    by_core = run_operation(resize_to([height, width], interpolation), img)
    return _pil.resize(img, [height, width], pil_modes_mapping[interpolation]) if by_core is None else by_core


def resized_crop(
    img: Pixels, top: int, left: int, height: int, width: int, size: Ints, interpolation: InterpolationMode
) -> Image | None:
    """`geometry.resized_crop` of a PIL image, without making the crop; None if the crop has to be made."""
    return run_operation(resize_to(size, interpolation), img, Box(top, left, height, width))


def pad(img: Pixels, padding: Ints, fill: Fill = 0, padding_mode: str = "constant") -> Pixels:
    if not isinstance(img, np.ndarray):
        by_core = None if padding_mode == "constant" else run_operation(Pad(padding, fill, padding_mode), img)
        return _pil.pad(img, padding, fill, padding_mode) if by_core is None else by_core
    check_array(img)
    padding = _pil.check_pad_arguments(padding, fill, padding_mode)
    if not _is_uint8(img):
        return _through_tensor(Pad(padding, fill, padding_mode), img)
    left, top, right, bottom = (int(p) for p in (padding * 2 if len(padding) == 2 else padding))
    color = None
    if padding_mode == "constant":  # as Pillow: integers, clipped to the range of a pixel
        bands = _pil.fill_per_band(fill, channels(img))
        color = [min(max(x, 0), 255) for x in (bands if isinstance(bands, tuple) else (bands,))]
    return geometry.pad(img, left, top, right, bottom, color, padding_mode)


def _is_small(img: Pixels, interpolation: InterpolationMode) -> bool:
    """True for a PIL image so small that Pillow warps it faster."""
    if not isinstance(img, Image):
        return False
    width, height = img.size
    return width * height < least_pixels_of_warp(interpolation, 1 if img.mode == "L" else 3)


def rotate(
    img: Pixels, angle: float, interpolation: InterpolationMode, expand: bool, center: Sequence[int] | None, fill: Fill
) -> Pixels:
    if isinstance(img, np.ndarray):
        check_array(img)
        turns = _quarter_turns(img.shape[0], img.shape[1], angle, expand, center)
        kernel = None if turns is None else partial(geometry.quarter_turns, turns=turns)
        return _changed_array(Rotate(angle, interpolation, expand, center, fill), img, kernel=kernel)
    arguments = angle, pil_modes_mapping[interpolation], expand, center, fill
    if _is_small(img, interpolation) or (
        isinstance(img, Image) and _quarter_turns(img.height, img.width, angle, expand, center) is not None
    ):
        return _pil.rotate(img, *arguments)
    return changed(Rotate(angle, interpolation, expand, center, fill), img, *arguments)


def _quarter_turns(height: int, width: int, angle: float, expand: bool, center: Sequence[int] | None) -> int | None:
    """The number of quarter turns of a rotation that only moves pixels, which Pillow and OpenCV do fast; else None."""
    return None if angle % 90 else warp.rotation(height, width, angle, expand, center)[0]


def affine(
    img: Pixels,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Sequence[float],
    interpolation: InterpolationMode,
    fill: Fill,
    center: Sequence[int] | None,
) -> Pixels:
    arguments = angle, translate, scale, shear, interpolation, fill, center
    if isinstance(img, np.ndarray):
        return _changed_array(Affine(*arguments), img)
    by_core = None if _is_small(img, interpolation) else run_operation(Affine(*arguments), img)
    if by_core is not None:
        return by_core
    # Pillow's origin is the top left corner. The centre is half a pixel less than the true one, as in torchvision, so
    # that a turn by 90 degrees agrees with torch.rot90.
    _, height, width = _pil.get_dimensions(img)
    middle = [width * 0.5, height * 0.5] if center is None else center
    matrix = inverse_affine_matrix(middle, angle, translate, scale, shear)
    return _pil.affine(img, matrix, pil_modes_mapping[interpolation], fill)


def perspective(
    img: Pixels,
    startpoints: list[list[int]],
    endpoints: list[list[int]],
    coefficients: list[float],
    interpolation: InterpolationMode,
    fill: Fill,
) -> Pixels:
    """Warps an image in perspective; ``coefficients`` are those of the points."""
    if isinstance(img, np.ndarray):
        return _changed_array(Perspective(startpoints, endpoints, interpolation, fill), img)
    by_core = run_operation(PerspectiveBy(coefficients, interpolation, fill), img)
    return _pil.perspective(img, coefficients, pil_modes_mapping[interpolation], fill) if by_core is None else by_core


def elastic_transform(img: Pixels, displacement: Tensor, interpolation: InterpolationMode, fill: Fill) -> Pixels:
    operation = ElasticTransform(displacement, interpolation, fill)
    if not isinstance(img, np.ndarray):
        if shape_of(img) is None:
            warped: Image = to_pil_image(operation.apply(pil_to_tensor(img)), img.mode)  # type: ignore[no-untyped-call]
            return warped
        return _pil.from_array(
            np.asarray(elastic_transform(np.asarray(img), displacement, interpolation, fill)), img.mode
        )
    check_array(img)
    if img.size == 0:
        return np.zeros_like(img)
    if not _is_uint8(img):
        return _through_tensor(operation, img)
    return planes_to_array(operation.apply(array_to_tensor(img)).numpy()).reshape(img.shape)


def gaussian_blur(img: Pixels, kernel_size: Sequence[int], sigma: list[float]) -> Pixels:
    operation = GaussianBlur(kernel_size, sigma)
    if not isinstance(img, np.ndarray):
        if not _pil._is_pil_image(img):
            raise TypeError(f"img should be PIL Image or Tensor. Got {type(img)}")
        blurred = run_operation(operation, img)
        if blurred is None:
            blurred = to_pil_image(operation.apply(pil_to_tensor(img)), mode=img.mode)  # type: ignore[no-untyped-call]
        return blurred
    check_array(img)
    # The blur mirrors the image at its edges, so an edge must be longer than the mirrored part: torch's rule and error.
    if _is_uint8(img) and (kernel_size[0] // 2 >= img.shape[1] or kernel_size[1] // 2 >= img.shape[0]):
        raise RuntimeError(
            f"kernel_size (x, y) should be less than twice the image's size. Got {kernel_size} for a width of "
            f"{img.shape[1]} and a height of {img.shape[0]}"
        )
    return _changed_array(operation, img)
