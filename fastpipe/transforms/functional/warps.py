"""Affine, perspective and elastic warps: on tensors here, on other images by `_images`.

See `geometry` for the images. ``interpolation`` is an `InterpolationMode` or Pillow's integer: nearest and bilinear for
tensors and floating ndarrays, also bicubic for PIL images and uint8 ndarrays. ``fill`` is the value of pixels from
outside of the image: None for black, one number, or one a channel.

Derived from torchvision (BSD-3-Clause, see NOTICE); compiled by TorchScript.
"""

import numbers
import warnings

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from fastpipe.ops.interpolation import InterpolationMode, checked_interpolation
from fastpipe.ops.matrices import inverse_affine_matrix, perspective_coeffs
from fastpipe.tensor_kernels import planes
from fastpipe.tensor_kernels.grids import (
    affine_grid,
    affine_output_size,
    identity_grid,
    perspective_grid,
    rescaled,
    sums_up,
)
from fastpipe.tensor_kernels.torchscript import Fill, Floats, Image, IntList, Ints, TensorFill, is_scripting
from fastpipe.transforms import _functional_pil as _pil
from fastpipe.transforms.functional import _images
from fastpipe.transforms.functional._tensor_common import assert_image_tensor, cast_squeeze_in, cast_squeeze_out
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
        TypeError: ``interpolation`` is neither a mode nor an integer, or ``img`` is no image.
        ValueError: there aren't four points each, a number of fill values other than of channels, or a mode that can't
            warp.
    """
    coeffs = perspective_coeffs(startpoints, endpoints)
    interpolation = checked_interpolation(interpolation)

    if not isinstance(img, torch.Tensor):
        return _images.perspective(img, startpoints, endpoints, coeffs, interpolation, fill)
    return perspective_tensor(img, coeffs, interpolation.value, fill)


def perspective_tensor(
    img: Tensor,
    perspective_coeffs: list[float],
    interpolation: str = "bilinear",
    fill: TensorFill = None,
) -> Tensor:
    assert_warpable(img, interpolation, fill)
    ow, oh = img.shape[-1], img.shape[-2]
    dtype = img.dtype if torch.is_floating_point(img) else torch.float32
    grid = perspective_grid(perspective_coeffs, ow, oh, dtype, img.device)
    return apply_grid(img, grid, interpolation, fill=fill)


def _from_center(center: IntList | None, height: int, width: int) -> list[float]:
    """``[x, y]`` of a point relative to the image's centre, the origin of the tensor backend."""
    if center is None:
        return [0.0, 0.0]
    return [1.0 * (center[0] - width * 0.5), 1.0 * (center[1] - height * 0.5)]


def rotate(
    img: Image,
    angle: float,
    interpolation: InterpolationMode = InterpolationMode.NEAREST,
    expand: bool = False,
    center: IntList | None = None,
    fill: Fill | None = None,
) -> Image:
    """The image turned by an angle.

    Args:
        img: tensor ``(..., C, H, W)``, PIL image or ndarray.
        angle: degrees, counter-clockwise.
        interpolation: an `InterpolationMode` or Pillow's integer constant.
        expand: make the result large enough for the whole image, turned about its centre.
        center: ``(x, y)`` to turn about, in pixels from the top left corner; by default the image's centre.
        fill: the value outside of the image; TorchScript needs a list.

    Raises:
        TypeError: an argument has another type.
        ValueError: a number of fill values other than of channels, or a mode that can't warp.
    """
    interpolation = checked_interpolation(interpolation)
    if not isinstance(angle, (int, float)):
        raise TypeError("Argument angle should be int or float")
    if center is not None and not isinstance(center, (list, tuple)):
        raise TypeError("Argument center should be a sequence")

    if not isinstance(img, torch.Tensor):
        return _images.rotate(img, angle, interpolation, expand, center, fill)

    _, height, width = get_dimensions(img)
    # `rotate` turns in the opposite direction of `affine`.
    matrix = inverse_affine_matrix(_from_center(center, height, width), -angle, [0.0, 0.0], 1.0, [0.0, 0.0])
    return rotate_tensor(img, matrix, interpolation.value, expand, fill)


def rotate_tensor(
    img: Tensor,
    matrix: list[float],
    interpolation: str = "nearest",
    expand: bool = False,
    fill: TensorFill = None,
) -> Tensor:
    assert_warpable(img, interpolation, fill)
    w, h = img.shape[-1], img.shape[-2]
    ow, oh = affine_output_size(matrix, w, h) if expand else (w, h)
    dtype = img.dtype if torch.is_floating_point(img) else torch.float32
    theta = torch.tensor(matrix, dtype=dtype, device=img.device).reshape(1, 2, 3)
    if not is_scripting():
        points = rescaled(theta, w, h) if sums_up(theta) else None
        sampled = planes.sampled(img, (oh, ow), interpolation, fill, points)
        if sampled is not None:
            return sampled
    return apply_grid(img, affine_grid(theta, w, h, ow, oh), interpolation, fill)


def affine(
    img: Image,
    angle: float,
    translate: Ints,
    scale: float,
    shear: Floats,
    interpolation: InterpolationMode = InterpolationMode.NEAREST,
    fill: Fill | None = None,
    center: IntList | None = None,
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
        TypeError: an argument has another type.
        ValueError: another number of elements, a ``scale`` that isn't positive, a number of fill values other than of
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
    if isinstance(shear, tuple):
        shear = list(shear)
    if isinstance(shear, numbers.Number):
        shear = [shear, 0.0]
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
    return affine_tensor(img, matrix, interpolation.value, fill)


def affine_tensor(
    img: Tensor,
    matrix: list[float],
    interpolation: str = "nearest",
    fill: TensorFill = None,
) -> Tensor:
    return rotate_tensor(img, matrix, interpolation, False, fill)


def elastic_transform(
    img: Image,
    displacement: Tensor,
    interpolation: InterpolationMode = InterpolationMode.BILINEAR,
    fill: Fill | None = None,
) -> Image:
    """The image with each pixel taken from a displaced position.

    Args:
        img: tensor ``(..., C, H, W)``, PIL image or ndarray.
        displacement: ``(1, H, W, 2)``, x and y, in units in which the image's width and height are 2.
        interpolation: an `InterpolationMode` or Pillow's integer constant; nearest or bilinear.
        fill: the value outside of the image; TorchScript needs a list.

    Raises:
        TypeError: ``displacement`` is no tensor, or ``img`` is no image.
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
    if not isinstance(img, torch.Tensor):  # noqa: SIM102 - TorchScript must not compile the inner condition
        if not _pil._is_pil_image(img) and not isinstance(img, np.ndarray):
            raise TypeError(f"img should be PIL Image or Tensor. Got {type(img)}")

    _, height, width = get_dimensions(img)
    shape = (1, height, width, 2)
    if shape != displacement.shape:
        raise ValueError(f"Argument displacement shape should be {shape}, but given {displacement.shape}")

    if not isinstance(img, torch.Tensor):
        return _images.elastic_transform(img, displacement, interpolation, fill)
    return elastic_tensor(img, displacement, interpolation.value, fill)


def elastic_tensor(
    img: Tensor,
    displacement: Tensor,
    interpolation: str = "bilinear",
    fill: TensorFill = None,
) -> Tensor:
    grid = identity_grid(list(img.shape[-2:])).to(img.device) + displacement.to(img.device)
    return apply_grid(img, grid, interpolation, fill)


def assert_warpable(
    img: Tensor,
    interpolation: str,
    fill: TensorFill,
) -> None:
    assert_image_tensor(img)
    if fill is not None and not isinstance(fill, (int, float, tuple, list)):
        warnings.warn("Argument fill should be either int, float, tuple or list")  # noqa: B028 - TorchScript has no stacklevel

    num_channels = get_dimensions(img)[0]
    if fill is not None and isinstance(fill, (tuple, list)) and len(fill) > 1 and len(fill) != num_channels:
        msg = (
            "The number of elements in 'fill' cannot broadcast to match the number of channels of the image ({} != {})"
        )
        raise ValueError(msg.format(len(fill), num_channels))
    if interpolation not in ["nearest", "bilinear"]:
        raise ValueError(f"Interpolation mode '{interpolation}' is unsupported with Tensor input")


def apply_grid(img: Tensor, grid: Tensor, mode: str, fill: TensorFill) -> Tensor:
    if not is_scripting():
        sampled = planes.sampled(img, (grid.shape[1], grid.shape[2]), mode, fill, grid)
        if sampled is not None:
            return sampled
    img, need_cast, need_squeeze, out_dtype = cast_squeeze_in(img, [grid.dtype])

    if img.shape[0] > 1:
        grid = grid.expand(img.shape[0], grid.shape[1], grid.shape[2], grid.shape[3])

    # A channel of ones is warped, too: where it is less than 1 afterwards, the fill colour is mixed in.
    if fill is not None:
        mask = torch.ones((img.shape[0], 1, img.shape[2], img.shape[3]), dtype=img.dtype, device=img.device)
        img = torch.cat((img, mask), dim=1)

    img = grid_sample(img, grid, mode=mode, padding_mode="zeros", align_corners=False)

    if fill is not None:
        mask = img[:, -1:, :, :]
        img = img[:, :-1, :, :]
        mask = mask.expand_as(img)
        fill_list, len_fill = (fill, len(fill)) if isinstance(fill, (tuple, list)) else ([float(fill)], 1)  # type: ignore[arg-type]
        fill_img = torch.tensor(fill_list, dtype=img.dtype, device=img.device).view(1, len_fill, 1, 1).expand_as(img)
        if mode == "nearest":
            mask = mask < 0.5
            img[mask] = fill_img[mask]
        else:
            img = img * mask + (1.0 - mask) * fill_img

    return cast_squeeze_out(img, need_cast, need_squeeze, out_dtype)
