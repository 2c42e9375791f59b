"""The operations on ndarrays and PIL images alike: one dispatch, to the core from the image's own memory.

What the core doesn't take of a PIL image (another mode, an image of several blocks, an argument that isn't meant to be
taken, pixels too few to be worth a call: `Operation.least_pixels`) is Pillow's to do, or to refuse, as ever.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from PIL.Image import Image

from fastpipe import core
from fastpipe.ops import (
    Affine,
    Operation,
    Pad,
    PerspectiveBy,
    PilToTensor,
    Resize,
    Rotate,
    ToTensor,
    fused_conversion,
    interned,
    least_pixels_of_warp,
)
from fastpipe.ops.interpolation import InterpolationMode, pil_modes_mapping
from fastpipe.ops.matrices import inverse_affine_matrix
from fastpipe.program import run_operation, shape_of
from fastpipe.program.on_image import on_pixels
from fastpipe.transforms import _functional_pil as _pil
from fastpipe.transforms.functional import _array
from fastpipe.types import Box


def changed(
    operation: Operation,
    img: Any,
    permitted: tuple[int, ...],
    kernel: Any,
    pillow: Callable[[Any], Any],
) -> Any:
    """An operation's result on an ndarray or a PIL image.

    Args:
        operation: what is done.
        img: any object; what is no image is refused.
        permitted, kernel: of arrays, as `_array.changed` takes them.
        pillow: does it to a PIL image.
    """
    if isinstance(img, np.ndarray):
        return _array.changed(operation, img, permitted, kernel)
    made = run_operation(operation, img)
    return pillow(img) if made is None else made


def adjusted(operation: Operation, img: Any, *arguments: Any, kernel: Any = None) -> Any:
    """`changed` by an operation on colours, which Pillow does by `_functional_pil`'s function with its arguments."""
    if isinstance(img, np.ndarray):
        return _array.changed(operation, img, kernel=kernel)
    made = run_operation(operation, img)
    return getattr(_pil, operation.op)(img, *arguments) if made is None else made


def to_tensor(conversion: ToTensor | PilToTensor, img: Any) -> torch.Tensor | None:
    """A PIL image as a tensor, from its memory; None where it is to be read as an array."""
    shape = shape_of(img)
    if shape is None or not core.available():
        return None
    made: torch.Tensor = on_pixels(img, (), fused_conversion((conversion,), shape.channels)[0], None)
    return made


def resize(img: Any, height: int, width: int, interpolation: InterpolationMode) -> Any:
    """`geometry.resize` of a PIL image."""
    made = run_operation(_resize(height, width, interpolation), img)
    return _pil.resize(img, [height, width], pil_modes_mapping[interpolation]) if made is None else made


def center_crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """`geometry.center_crop` of a PIL image, by its box: one that is smaller is padded before."""
    _, rows, columns = _pil.get_dimensions(img)
    missing = [-left, -top, left + width - columns, top + height - rows]
    if max(missing) > 0:
        img = pad(img, [max(pixels, 0) for pixels in missing])
        if img.size == (width, height):
            return img
        top, left = max(top, 0), max(left, 0)
    return _pil.crop(img, top, left, height, width)


def resized_crop(
    img: Any, top: int, left: int, height: int, width: int, size: Any, interpolation: InterpolationMode
) -> Any:
    """`geometry.resized_crop` of a PIL image, without a crop between; None where there is to be one."""
    fixed = isinstance(size, (list, tuple)) and len(size) == 2
    operation = _resize(*size, interpolation) if fixed else Resize(size, interpolation)
    return run_operation(operation, img, Box(top, left, height, width))


@lru_cache(maxsize=64)
def _resize(height: int, width: int, interpolation: InterpolationMode) -> Resize:
    return interned(Resize([height, width], interpolation))


def perspective(img: Any, coefficients: list[float], interpolation: InterpolationMode, fill: Any) -> Any:
    """`warps.perspective` of a PIL image."""
    made = run_operation(PerspectiveBy(coefficients, interpolation, fill), img)
    return _pil.perspective(img, coefficients, pil_modes_mapping[interpolation], fill) if made is None else made


def pad(img: Any, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Any:
    """`geometry.pad` of a PIL image."""
    made = None if padding_mode == "constant" else run_operation(Pad(padding, fill, padding_mode), img)
    return _pil.pad(img, padding, fill, padding_mode) if made is None else made


def _is_small(img: Any, interpolation: InterpolationMode) -> bool:
    """Whether a warp of a PIL image is Pillow's, before anything is made for the core."""
    if not isinstance(img, Image):
        return False
    width, height = img.size
    return width * height < least_pixels_of_warp(interpolation, 1 if img.mode == "L" else 3)


def rotate(img: Any, angle: float, interpolation: InterpolationMode, expand: bool, center: Any, fill: Any) -> Any:
    """`warps.rotate` of an ndarray or a PIL image."""
    if isinstance(img, np.ndarray):
        return _array.changed(Rotate(angle, interpolation, expand, center, fill), img, _array.ANY)
    made = None
    if not _is_small(img, interpolation):
        made = run_operation(Rotate(angle, interpolation, expand, center, fill), img)
    return _pil.rotate(img, angle, pil_modes_mapping[interpolation], expand, center, fill) if made is None else made


def affine(
    img: Any,
    angle: float,
    translate: list[float],
    scale: float,
    shear: list[float],
    interpolation: InterpolationMode,
    fill: Any,
    center: Any,
) -> Any:
    """`warps.affine` of an ndarray or a PIL image."""
    if isinstance(img, np.ndarray):
        return _array.changed(Affine(angle, translate, scale, shear, interpolation, fill, center), img, _array.ANY)
    if not _is_small(img, interpolation):
        made = run_operation(Affine(angle, translate, scale, shear, interpolation, fill, center), img)
        if made is not None:
            return made
    # Pillow counts from the top left corner. Half a pixel less than the true centre, as torchvision has it: so a turn
    # by 90 degrees agrees with torch.rot90.
    _, height, width = _pil.get_dimensions(img)
    middle = [width * 0.5, height * 0.5] if center is None else center
    matrix = inverse_affine_matrix(middle, angle, translate, scale, shear)
    return _pil.affine(img, matrix, pil_modes_mapping[interpolation], fill)
