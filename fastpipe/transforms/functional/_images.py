"""The operations on PIL images and ndarrays.

PIL images have torchvision's results on them: by the core, from the image's own memory; what it doesn't take (another
mode, an image of several blocks, an argument that isn't meant to be taken, pixels too few to be worth a call:
`Operation.least_pixels`) is Pillow's to do, or to refuse, as ever.

uint8 arrays have the results of PIL images, by an operation's table, the core, Pillow, or, where whole pixels move and
for resizes, by a kernel; floating arrays have those of the tensor backend. An elastic warp of any image goes through a
tensor, as it does in torchvision.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image
from torch import Tensor

from fastpipe.kernels import geometry, warp
from fastpipe.kernels.arrays import channels
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
from fastpipe.types import Box

Pixels: TypeAlias = "Image | NDArray[Any]"
"""An image of the kind that came in."""
ANY = (1, 2, 3, 4)
_GRAY_OR_RGB = (1, 3)
_UINT8 = np.dtype(np.uint8)
_HFLIP = interned_once(HFlip)


def changed(operation: Operation, img: object, *arguments: object) -> Pixels:
    """An operation's result.

    Args:
        operation: what is done.
        img: any object; what is no image is refused.
        arguments: the operation's, for `_functional_pil`'s function of its name.
    """
    if isinstance(img, np.ndarray):
        return _changed_array(operation, img, _GRAY_OR_RGB)
    made = run_operation(operation, img)
    return getattr(_pil, operation.op)(img, *arguments) if made is None else made


# -- arrays


def check_array(img: NDArray[Any], permitted: tuple[int, ...] = ANY) -> None:
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


def _changed_array(
    operation: Operation,
    img: NDArray[Any],
    permitted: tuple[int, ...] = ANY,
    kernel: Callable[[NDArray[np.uint8]], NDArray[np.uint8]] | None = None,
) -> NDArray[Any]:
    """An operation's result on an array of so many channels: by a kernel, its table, the core, Pillow or a tensor."""
    check_array(img, permitted)
    if img.dtype != _UINT8:
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
        operation = replace(operation, fill=(*operation.fill, 0, 0))  # to Pillow, two channels are four
    return on_array(operation, img)


def _through_tensor(operation: Operation, img: NDArray[Any]) -> NDArray[Any]:
    """The tensor backend's result for a float array ``(H, W)`` or ``(H, W, C)`` of values in [0, 1].

    No pixel is copied on the way in where the array is contiguous, nor on the way out. Another layout is copied: torch
    knows no negative strides, warns of read-only memory, and adds floats up in the order in which they lie.
    """
    if not (img.flags.c_contiguous and img.flags.writeable):
        img = img.copy()
    gray = img.ndim == 2
    tensor = torch.from_numpy(img[:, :, None] if gray else img).permute(2, 0, 1)
    result: NDArray[Any] = operation.apply(tensor).permute(1, 2, 0).numpy()
    return result[:, :, 0] if gray and result.shape[2] == 1 else result


# -- one after the other, as in `geometry`, `warps` and `filters`


def get_dimensions(img: object) -> list[int]:
    if isinstance(img, np.ndarray):
        check_array(img)
        return [channels(img), *img.shape[:2]]
    return _pil.get_dimensions(img)


def crop(img: Pixels, top: int, left: int, height: int, width: int) -> Pixels:
    if not isinstance(img, np.ndarray):
        return _pil.crop(img, top, left, height, width)
    check_array(img)
    # Pillow's message; an inverted box makes no sense for arrays either.
    if width < 0:
        raise ValueError("Coordinate 'right' is less than 'left'")
    if height < 0:
        raise ValueError("Coordinate 'lower' is less than 'upper'")
    box = top, left, height, width
    return _changed_array(Crop(*box), img, kernel=lambda pixels: geometry.crop(pixels, *box))


def center_crop(img: Pixels, top: int, left: int, height: int, width: int) -> Pixels:
    """The box in the middle; of a PIL image that is smaller, padded before."""
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
    # Asked at once: with one call of Python's more, small images take longer than Pillow.
    is_large = isinstance(img, Image) and img.width * img.height >= _HFLIP.least_pixels(3)
    made = run_operation(_HFLIP, img) if is_large else None
    return _pil.hflip(img) if made is None else made


def vflip(img: Pixels) -> Pixels:
    """Pillow's, of a PIL image: nobody copies whole rows faster."""
    if not isinstance(img, np.ndarray):
        return _pil.vflip(img)
    return _changed_array(VFlip(), img, ANY, geometry.vflip)


def resize(img: Pixels, height: int, width: int, interpolation: InterpolationMode, antialias: bool | None) -> Pixels:
    """``antialias`` is for floats only: PIL images, and uint8 arrays, which are those, always are antialiased."""
    if isinstance(img, np.ndarray):
        check_array(img)
        if height <= 0 or width <= 0:
            raise ValueError("height and width must be > 0")
        if img.dtype != _UINT8:
            return _through_tensor(Resize([height, width], interpolation, None, bool(antialias)), img)
        return img if img.shape[:2] == (height, width) else on_array(resize_to([height, width], interpolation), img)
    if antialias is False:
        warnings.warn(
            "Anti-alias option is always applied for PIL Image input. Argument antialias is ignored.", stacklevel=3
        )
    made = run_operation(resize_to([height, width], interpolation), img)
    return _pil.resize(img, [height, width], pil_modes_mapping[interpolation]) if made is None else made


def resized_crop(
    img: Pixels, top: int, left: int, height: int, width: int, size: Any, interpolation: InterpolationMode
) -> Any:
    """`geometry.resized_crop` of a PIL image, without a crop between; None where there is to be one."""
    return run_operation(resize_to(size, interpolation), img, Box(top, left, height, width))


def pad(img: Pixels, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Pixels:
    if not isinstance(img, np.ndarray):
        made = None if padding_mode == "constant" else run_operation(Pad(padding, fill, padding_mode), img)
        return _pil.pad(img, padding, fill, padding_mode) if made is None else made
    check_array(img)
    padding = _pil.check_pad_arguments(padding, fill, padding_mode)
    if img.dtype != _UINT8:
        return _through_tensor(Pad(padding, fill, padding_mode), img)
    left, top, right, bottom = (int(p) for p in (padding * 2 if len(padding) == 2 else padding))
    color: Any = None
    if padding_mode == "constant":  # as Pillow draws it: integers, clipped to the range of a pixel
        color = _pil.fill_per_band(fill, channels(img))
        color = [min(max(x, 0), 255) for x in (color if isinstance(color, tuple) else (color,))]
    return geometry.pad(img, left, top, right, bottom, color, padding_mode)


def _is_small(img: Pixels, interpolation: InterpolationMode) -> bool:
    """True for a PIL image that is so small that Pillow warps it."""
    if not isinstance(img, Image):
        return False
    width, height = img.size
    return width * height < least_pixels_of_warp(interpolation, 1 if img.mode == "L" else 3)


def rotate(img: Pixels, angle: float, interpolation: InterpolationMode, expand: bool, center: Any, fill: Any) -> Pixels:
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


def _quarter_turns(height: int, width: int, angle: float, expand: bool, center: Any) -> int | None:
    """How many quarters a rotation turns that only moves pixels, which Pillow and OpenCV are at once done with."""
    return None if angle % 90 else warp.rotation(height, width, angle, expand, center)[0]


def affine(
    img: Pixels,
    angle: float,
    translate: list[float],
    scale: float,
    shear: list[float],
    interpolation: InterpolationMode,
    fill: Any,
    center: Any,
) -> Pixels:
    arguments = angle, translate, scale, shear, interpolation, fill, center
    if isinstance(img, np.ndarray):
        return _changed_array(Affine(*arguments), img)
    made = None if _is_small(img, interpolation) else run_operation(Affine(*arguments), img)
    if made is not None:
        return made
    # Pillow counts from the top left corner. Half a pixel less than the true centre, as torchvision has it: so a turn
    # by 90 degrees agrees with torch.rot90.
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
    fill: Any,
) -> Pixels:
    """An image with a perspective; ``coefficients`` are those of the points."""
    if isinstance(img, np.ndarray):
        return _changed_array(Perspective(startpoints, endpoints, interpolation, fill), img)
    made = run_operation(PerspectiveBy(coefficients, interpolation, fill), img)
    return _pil.perspective(img, coefficients, pil_modes_mapping[interpolation], fill) if made is None else made


def elastic_transform(img: Pixels, displacement: Tensor, interpolation: InterpolationMode, fill: Any) -> Pixels:
    operation = ElasticTransform(displacement, interpolation, fill)
    if not isinstance(img, np.ndarray):
        if shape_of(img) is None:
            made: Image = to_pil_image(operation.apply(pil_to_tensor(img)), img.mode)  # type: ignore[no-untyped-call]
            return made
        return _pil.from_array(
            np.asarray(elastic_transform(np.asarray(img), displacement, interpolation, fill)), img.mode
        )
    check_array(img)
    if img.size == 0:
        return np.zeros_like(img)
    if img.dtype != np.uint8:
        return _through_tensor(operation, img)
    return planes_to_array(operation.apply(array_to_tensor(img)).numpy()).reshape(img.shape)


def gaussian_blur(img: Pixels, kernel_size: list[int], sigma: list[float]) -> Pixels:
    operation = GaussianBlur(kernel_size, sigma)
    if not isinstance(img, np.ndarray):
        if not _pil._is_pil_image(img):
            raise TypeError(f"img should be PIL Image or Tensor. Got {type(img)}")
        made = run_operation(operation, img)
        if made is None:
            made = to_pil_image(operation.apply(pil_to_tensor(img)), mode=img.mode)  # type: ignore[no-untyped-call]
        return made
    check_array(img)
    # An image is mirrored at its edges, which must be longer than the mirrored part: torch's rule, and its error.
    if img.dtype == np.uint8 and (kernel_size[0] // 2 >= img.shape[1] or kernel_size[1] // 2 >= img.shape[0]):
        raise RuntimeError(
            f"kernel_size (x, y) should be less than twice the image's size. Got {kernel_size} for a width of "
            f"{img.shape[1]} and a height of {img.shape[0]}"
        )
    return _changed_array(operation, img)
