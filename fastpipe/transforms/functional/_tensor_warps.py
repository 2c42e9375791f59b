"""Affine, perspective and elastic warps of image tensors ``(..., C, H, W)``.

Derived from torchvision (BSD-3-Clause, see NOTICE) and equal to its tensor backend; compiled by TorchScript.
"""

# TorchScript needs narrow annotations; eagerly wider values arrive, which the type checker calls unreachable.
# mypy: no-warn-unreachable

import functools
import warnings

import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from fastpipe.kernels import planes
from fastpipe.transforms.functional._tensor_common import (
    assert_image_tensor,
    cast_squeeze_in,
    cast_squeeze_out,
    get_dimensions,
)


def assert_grid_transform_inputs(
    img: Tensor,
    matrix: list[float] | None,
    interpolation: str,
    fill: int | float | list[float] | None,
    supported_interpolation_modes: list[str],
    coeffs: list[float] | None = None,
) -> None:
    assert_image_tensor(img)

    if matrix is not None and not isinstance(matrix, list):
        raise TypeError("Argument matrix should be a list")
    if matrix is not None and len(matrix) != 6:
        raise ValueError("Argument matrix should have 6 float values")
    if coeffs is not None and len(coeffs) != 8:
        raise ValueError("Argument coeffs should have 8 float values")
    if fill is not None and not isinstance(fill, (int, float, tuple, list)):
        warnings.warn("Argument fill should be either int, float, tuple or list")  # noqa: B028 - TorchScript has no stacklevel

    num_channels = get_dimensions(img)[0]
    if fill is not None and isinstance(fill, (tuple, list)) and len(fill) > 1 and len(fill) != num_channels:
        msg = (
            "The number of elements in 'fill' cannot broadcast to match the number of channels of the image ({} != {})"
        )
        raise ValueError(msg.format(len(fill), num_channels))
    if interpolation not in supported_interpolation_modes:
        raise ValueError(f"Interpolation mode '{interpolation}' is unsupported with Tensor input")


def apply_grid_transform(img: Tensor, grid: Tensor, mode: str, fill: int | float | list[float] | None) -> Tensor:
    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        sampled = planes.sampled(img, (grid.shape[1], grid.shape[2]), mode, fill, grid)
        if sampled is not None:
            return sampled
    img, need_cast, need_squeeze, out_dtype = cast_squeeze_in(img, [grid.dtype])

    if img.shape[0] > 1:
        grid = grid.expand(img.shape[0], grid.shape[1], grid.shape[2], grid.shape[3])

    # A channel of ones is warped along: where it isn't 1 any more, the fill colour belongs.
    if fill is not None:
        mask = torch.ones((img.shape[0], 1, img.shape[2], img.shape[3]), dtype=img.dtype, device=img.device)
        img = torch.cat((img, mask), dim=1)

    img = grid_sample(img, grid, mode=mode, padding_mode="zeros", align_corners=False)

    if fill is not None:
        mask = img[:, -1:, :, :]
        img = img[:, :-1, :, :]
        mask = mask.expand_as(img)
        fill_list, len_fill = (fill, len(fill)) if isinstance(fill, (tuple, list)) else ([float(fill)], 1)
        fill_img = torch.tensor(fill_list, dtype=img.dtype, device=img.device).view(1, len_fill, 1, 1).expand_as(img)
        if mode == "nearest":
            mask = mask < 0.5
            img[mask] = fill_img[mask]
        else:
            img = img * mask + (1.0 - mask) * fill_img

    return cast_squeeze_out(img, need_cast, need_squeeze, out_dtype)


def apply_affine_grid(
    img: Tensor, theta: Tensor, ow: int, oh: int, mode: str, fill: int | float | list[float] | None
) -> Tensor:
    w, h = img.shape[-1], img.shape[-2]
    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        points = rescaled(theta, w, h) if sums_up(theta) else None
        sampled = planes.sampled(img, (oh, ow), mode, fill, points)
        if sampled is not None:
            return sampled
    return apply_grid_transform(img, affine_grid(theta, w, h, ow, oh), mode, fill=fill)


def rescaled(theta: Tensor, w: int, h: int) -> Tensor:
    return theta.transpose(1, 2) / torch.tensor([0.5 * w, 0.5 * h], dtype=theta.dtype, device=theta.device)


def affine_grid(
    theta: Tensor,
    w: int,
    h: int,
    ow: int,
    oh: int,
) -> Tensor:
    # As torch's affine_grid, but in pixels, normalised by the input's size after theta: the output may be larger.
    d = 0.5
    x_grid = torch.linspace(-ow * 0.5 + d, ow * 0.5 + d - 1, steps=ow, device=theta.device)
    y_grid = torch.linspace(-oh * 0.5 + d, oh * 0.5 + d - 1, steps=oh, device=theta.device)
    rescaled_theta = rescaled(theta, w, h)
    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        alike = sums_up(theta)
        if alike:
            return summed_grid(x_grid, y_grid, rescaled_theta)
    return multiplied_grid(x_grid, y_grid, rescaled_theta)


def sums_up(theta: Tensor) -> bool:
    """Whether `summed_grid` gives this matrix's grid."""
    plain = theta.dtype == torch.float32 and theta.device.type == "cpu" and not torch.compiler.is_compiling()
    return plain and products_are_sums()


def multiplied_grid(x_grid: Tensor, y_grid: Tensor, theta: Tensor) -> Tensor:
    """``(1, H, W, 2)``: the products of each ``(x, y, 1)`` and a matrix ``(1, 3, 2)``, as torchvision has them."""
    ow, oh = len(x_grid), len(y_grid)
    base_grid = torch.empty(1, oh, ow, 3, dtype=theta.dtype, device=theta.device)
    base_grid[..., 0].copy_(x_grid)
    base_grid[..., 1].copy_(y_grid.unsqueeze(-1))
    base_grid[..., 2].fill_(1)
    return base_grid.view(1, oh * ow, 3).bmm(theta).view(1, oh, ow, 2)


def summed_grid(x_grid: Tensor, y_grid: Tensor, theta: Tensor) -> Tensor:
    """`multiplied_grid` in float32 in a tenth of the time: adds up the parts of x, y and 1 as complex numbers."""
    x, y = x_grid.to(torch.float32).unsqueeze(-1), y_grid.to(torch.float32).unsqueeze(-1)
    across, down = torch.view_as_complex(x * theta[0, 0]), torch.view_as_complex(y * theta[0, 1])
    points = (across + down.unsqueeze(-1)).add_(torch.view_as_complex(theta[0, 2].contiguous()))
    return torch.view_as_real(points).unsqueeze(0)


@functools.cache
def products_are_sums() -> bool:
    """Whether this torch multiplies matrices so that both ways round alike: some add with a single rounding."""
    generator = torch.Generator().manual_seed(0)

    def numbers(*size: int) -> Tensor:
        return torch.randn(size, generator=generator, dtype=torch.float32, device="cpu")

    sizes = ((1, 2), (7, 13), (33, 64), (224, 224), (375, 500))
    tried = [(30 * numbers(width), 30 * numbers(height), numbers(1, 3, 2)) for height, width in sizes]
    return all(torch.equal(summed_grid(*one), multiplied_grid(*one)) for one in tried)


def affine(
    img: Tensor,
    matrix: list[float],
    interpolation: str = "nearest",
    fill: int | float | list[float] | None = None,
) -> Tensor:
    return rotate(img, matrix, interpolation, False, fill)


def affine_output_size(matrix: list[float], w: int, h: int) -> tuple[int, int]:
    """``(width, height)`` that hold the whole image, by Pillow's rule in torch's float32."""
    # The corners from the image's centre, where the tensor backend's matrices have their origin.
    pts = torch.tensor(
        [
            [-0.5 * w, -0.5 * h, 1.0],
            [-0.5 * w, 0.5 * h, 1.0],
            [0.5 * w, 0.5 * h, 1.0],
            [0.5 * w, -0.5 * h, 1.0],
        ]
    )
    theta = torch.tensor(matrix, dtype=torch.float).view(2, 3)
    new_pts = torch.matmul(pts, theta.T)
    min_vals, _ = new_pts.min(dim=0)
    max_vals, _ = new_pts.max(dim=0)

    min_vals += torch.tensor((w * 0.5, h * 0.5))
    max_vals += torch.tensor((w * 0.5, h * 0.5))

    # A corner that float32 puts just past a pixel must not add one.
    tol = 1e-4
    cmax = torch.ceil((max_vals / tol).trunc_() * tol)
    cmin = torch.floor((min_vals / tol).trunc_() * tol)
    size = cmax - cmin
    return int(size[0]), int(size[1])


def rotate(
    img: Tensor,
    matrix: list[float],
    interpolation: str = "nearest",
    expand: bool = False,
    fill: int | float | list[float] | None = None,
) -> Tensor:
    assert_grid_transform_inputs(img, matrix, interpolation, fill, ["nearest", "bilinear"])
    w, h = img.shape[-1], img.shape[-2]
    ow, oh = affine_output_size(matrix, w, h) if expand else (w, h)
    dtype = img.dtype if torch.is_floating_point(img) else torch.float32
    theta = torch.tensor(matrix, dtype=dtype, device=img.device).reshape(1, 2, 3)
    return apply_affine_grid(img, theta, ow, oh, interpolation, fill)


def perspective_grid(coeffs: list[float], ow: int, oh: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    theta1 = torch.tensor(
        [[[coeffs[0], coeffs[1], coeffs[2]], [coeffs[3], coeffs[4], coeffs[5]]]], dtype=dtype, device=device
    )
    theta2 = torch.tensor([[[coeffs[6], coeffs[7], 1.0], [coeffs[6], coeffs[7], 1.0]]], dtype=dtype, device=device)

    d = 0.5
    base_grid = torch.empty(1, oh, ow, 3, dtype=dtype, device=device)
    x_grid = torch.linspace(d, ow * 1.0 + d - 1.0, steps=ow, device=device)
    base_grid[..., 0].copy_(x_grid)
    y_grid = torch.linspace(d, oh * 1.0 + d - 1.0, steps=oh, device=device).unsqueeze_(-1)
    base_grid[..., 1].copy_(y_grid)
    base_grid[..., 2].fill_(1)

    rescaled_theta1 = theta1.transpose(1, 2) / torch.tensor([0.5 * ow, 0.5 * oh], dtype=dtype, device=device)
    output_grid1 = base_grid.view(1, oh * ow, 3).bmm(rescaled_theta1)
    output_grid2 = base_grid.view(1, oh * ow, 3).bmm(theta2.transpose(1, 2))

    output_grid = output_grid1 / output_grid2 - 1.0
    return output_grid.view(1, oh, ow, 2)


def perspective(
    img: Tensor,
    perspective_coeffs: list[float],
    interpolation: str = "bilinear",
    fill: int | float | list[float] | None = None,
) -> Tensor:
    assert_image_tensor(img)

    assert_grid_transform_inputs(
        img,
        matrix=None,
        interpolation=interpolation,
        fill=fill,
        supported_interpolation_modes=["nearest", "bilinear"],
        coeffs=perspective_coeffs,
    )

    ow, oh = img.shape[-1], img.shape[-2]
    dtype = img.dtype if torch.is_floating_point(img) else torch.float32
    grid = perspective_grid(perspective_coeffs, ow=ow, oh=oh, dtype=dtype, device=img.device)
    return apply_grid_transform(img, grid, interpolation, fill=fill)


def identity_grid(size: list[int]) -> Tensor:
    """``(1, H, W, 2)``: where each pixel of a ``[height, width]`` is, from -1 to 1, x first."""
    hw_space = [torch.linspace((-s + 1) / s, (s - 1) / s, s) for s in size]
    grid_y, grid_x = torch.meshgrid(hw_space, indexing="ij")
    return torch.stack([grid_x, grid_y], -1).unsqueeze(0)


def elastic_transform(
    img: Tensor,
    displacement: Tensor,
    interpolation: str = "bilinear",
    fill: int | float | list[float] | None = None,
) -> Tensor:

    size = list(img.shape[-2:])
    displacement = displacement.to(img.device)
    grid = identity_grid(size).to(img.device) + displacement
    return apply_grid_transform(img, grid, interpolation, fill)
