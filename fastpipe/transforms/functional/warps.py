"""Affine, perspective and elastic warps: of tensors by `_tensor_warps`, of other images by `_images`.

See `geometry` for the images. Interpolations are an `InterpolationMode` or Pillow's integer: nearest and
bilinear for tensors and floating ndarrays, bicubic too for PIL images and uint8 ndarrays. Pixels that come from
outside the image are ``fill``: black by default, else one number, or one a channel.

Derived from torchvision (BSD-3-Clause, see NOTICE).
"""

# TorchScript needs narrow annotations; eagerly wider values arrive, which the type checker calls unreachable.
# mypy: no-warn-unreachable

import numbers
import warnings

import numpy as np
import torch
from torch import Tensor

from fastpipe.ops.interpolation import InterpolationMode, checked_interpolation
from fastpipe.ops.matrices import inverse_affine_matrix, perspective_coeffs
from fastpipe.transforms import _functional_pil as _pil
from fastpipe.transforms.functional import _images, _tensor_warps
from fastpipe.transforms.functional._types import Fill, Floats, Image, Ints
from fastpipe.transforms.functional.geometry import get_dimensions


def perspective(
    img: Image,
    startpoints: list[list[int]],
    endpoints: list[list[int]],
    interpolation: InterpolationMode = InterpolationMode.BILINEAR,
    fill: Fill | None = None,
) -> Image:
    """The image as seen from another point.

    Args:
        img: tensor ``(..., C, H, W)``, PIL image or ndarray.
        startpoints: ``[x, y]`` of the image's top left, top right, bottom right and bottom left corner.
        endpoints: ``[x, y]`` of these corners in the result.
        interpolation: an `InterpolationMode` or Pillow's integer constant.
        fill: the value outside of the image; TorchScript needs a list.

    Raises:
        TypeError: ``interpolation`` is neither a mode nor an integer, or ``img`` no image.
        ValueError: not four points each, a colour of another length than the channels, or a mode that can't warp.
    """
    coeffs = perspective_coeffs(startpoints, endpoints)
    interpolation = checked_interpolation(interpolation)

    if not isinstance(img, torch.Tensor):
        return _images.perspective(img, startpoints, endpoints, coeffs, interpolation, fill)
    return _tensor_warps.perspective(img, coeffs, interpolation.value, fill)


def _from_center(center: Ints | None, height: int, width: int) -> list[float]:
    """``[x, y]`` of a point from the image's centre, which the tensor backend counts from."""
    if center is None:
        return [0.0, 0.0]
    return [1.0 * (center[0] - width * 0.5), 1.0 * (center[1] - height * 0.5)]


def rotate(
    img: Image,
    angle: float,
    interpolation: InterpolationMode = InterpolationMode.NEAREST,
    expand: bool = False,
    center: Ints | None = None,
    fill: Fill | None = None,
) -> Image:
    """The image turned.

    Args:
        img: tensor ``(..., C, H, W)``, PIL image or ndarray.
        angle: degrees, counter-clockwise.
        interpolation: an `InterpolationMode` or Pillow's integer constant.
        expand: make the result large enough for the whole image, turned about its centre.
        center: ``(x, y)`` to turn about, in pixels from the top left corner; by default the image's centre.
        fill: the value outside of the image; TorchScript needs a list.

    Raises:
        TypeError: an argument of another type.
        ValueError: a colour of another length than the channels, or a mode that can't warp.
    """
    interpolation = checked_interpolation(interpolation)
    if not isinstance(angle, (int, float)):
        raise TypeError("Argument angle should be int or float")
    if center is not None and not isinstance(center, (list, tuple)):
        raise TypeError("Argument center should be a sequence")

    if not isinstance(img, torch.Tensor):
        return _images.rotate(img, angle, interpolation, expand, center, fill)

    _, height, width = get_dimensions(img)
    # This function turns the other way round than `affine`.
    matrix = inverse_affine_matrix(_from_center(center, height, width), -angle, [0.0, 0.0], 1.0, [0.0, 0.0])
    return _tensor_warps.rotate(img, matrix, interpolation.value, expand, fill)


def affine(
    img: Image,
    angle: float,
    translate: Ints,
    scale: float,
    shear: Floats,
    interpolation: InterpolationMode = InterpolationMode.NEAREST,
    fill: Fill | None = None,
    center: Ints | None = None,
) -> Image:
    """The image turned, sheared and scaled about its centre, then moved.

    Args:
        img: tensor ``(..., C, H, W)``, PIL image or ndarray.
        angle: degrees, clockwise.
        translate: ``(x, y)``, in pixels.
        scale: a positive factor.
        shear: degrees, clockwise: parallel to the x axis, or ``(x, y)``.
        interpolation: an `InterpolationMode` or Pillow's integer constant.
        fill: the value outside of the image; TorchScript needs a list.
        center: ``(x, y)`` of the fixed point, in pixels from the top left corner; by default the image's centre.

    Raises:
        TypeError: an argument of another type.
        ValueError: another number of elements, a ``scale`` that isn't positive, a colour of another length than the
            channels, or a mode that can't warp.
    """
    interpolation = checked_interpolation(interpolation)
    if not isinstance(angle, (int, float)):
        raise TypeError("Argument angle should be int or float")
    if not isinstance(translate, (list, tuple)):
        raise TypeError("Argument translate should be a sequence")
    if len(translate) != 2:
        raise ValueError("Argument translate should be a sequence of length 2")
    if scale <= 0.0:
        raise ValueError("Argument scale should be positive")
    if not isinstance(shear, (numbers.Number, (list, tuple))):
        raise TypeError("Shear should be either a single value or a sequence of two values")

    if isinstance(angle, int):
        angle = float(angle)
    if isinstance(translate, tuple):
        translate = list(translate)
    if isinstance(shear, numbers.Number):
        shear = [shear, 0.0]
    if isinstance(shear, tuple):
        shear = list(shear)
    if len(shear) == 1:
        shear = [shear[0], shear[0]]
    if len(shear) != 2:
        raise ValueError(f"Shear should be a sequence containing two values. Got {shear}")
    if center is not None and not isinstance(center, (list, tuple)):
        raise TypeError("Argument center should be a sequence")

    if not isinstance(img, torch.Tensor):
        return _images.affine(img, angle, translate, scale, shear, interpolation, fill, center)

    _, height, width = get_dimensions(img)
    matrix = inverse_affine_matrix(
        _from_center(center, height, width), angle, [1.0 * t for t in translate], scale, shear
    )
    return _tensor_warps.affine(img, matrix, interpolation.value, fill)


def elastic_transform(
    img: Image,
    displacement: Tensor,
    interpolation: InterpolationMode = InterpolationMode.BILINEAR,
    fill: Fill | None = None,
) -> Image:
    """The image with every pixel taken from a displaced place.

    Args:
        img: tensor ``(..., C, H, W)``, PIL image or ndarray.
        displacement: ``(1, H, W, 2)``, x and y, where the image's width and height are 2.
        interpolation: an `InterpolationMode` or Pillow's integer constant; nearest or bilinear.
        fill: the value outside of the image; TorchScript needs a list.

    Raises:
        TypeError: ``displacement`` is no tensor, or ``img`` no image.
        ValueError: ``displacement`` has another shape.
    """
    if isinstance(interpolation, int):
        warnings.warn(
            "Argument interpolation should be of type InterpolationMode instead of int. "
            "Please, use InterpolationMode enum.",
            stacklevel=2,
        )
    interpolation = checked_interpolation(interpolation)
    if not isinstance(displacement, torch.Tensor):
        raise TypeError("Argument displacement should be a Tensor")
    if not isinstance(img, torch.Tensor):  # noqa: SIM102 - TorchScript must not see the inner one
        if not _pil._is_pil_image(img) and not isinstance(img, np.ndarray):
            raise TypeError(f"img should be PIL Image or Tensor. Got {type(img)}")

    _, height, width = get_dimensions(img)
    shape = (1, height, width, 2)
    if shape != displacement.shape:
        raise ValueError(f"Argument displacement shape should be {shape}, but given {displacement.shape}")

    if not isinstance(img, torch.Tensor):
        return _images.elastic_transform(img, displacement, interpolation, fill)
    return _tensor_warps.elastic_transform(img, displacement, interpolation.value, fill)
