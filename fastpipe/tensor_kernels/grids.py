"""The points at which torch's ``grid_sample`` samples an image for a warp, computed as torchvision does.

Derived from torchvision (BSD-3-Clause, see NOTICE); compiled by TorchScript.
"""

import functools

import torch
from torch import Tensor

from fastpipe.tensor_kernels.torchscript import is_scripting
from fastpipe.torch_modes import computes_by_default


def affine_grid(theta: Tensor, w: int, h: int, ow: int, oh: int) -> Tensor:
    """The grid ``(1, oh, ow, 2)`` of a matrix ``(1, 2, 3)`` in pixels from the image's centre.

    Unlike torch's ``affine_grid``, normalises by the input's size after the matrix, as the output may be larger.
    """
    d = 0.5
    x_grid = torch.linspace(-ow * 0.5 + d, ow * 0.5 + d - 1, steps=ow, device=theta.device)
    y_grid = torch.linspace(-oh * 0.5 + d, oh * 0.5 + d - 1, steps=oh, device=theta.device)
    rescaled_theta = rescaled(theta, w, h)
    if not is_scripting():
        alike = sums_up(theta)
        if alike:
            return summed_grid(x_grid, y_grid, rescaled_theta)
    return multiplied_grid(x_grid, y_grid, rescaled_theta)


def rescaled(theta: Tensor, w: int, h: int) -> Tensor:
    return theta.transpose(1, 2) / torch.tensor([0.5 * w, 0.5 * h], dtype=theta.dtype, device=theta.device)


def sums_up(theta: Tensor) -> bool:
    """True if `summed_grid` gives the same grid as `multiplied_grid` for this matrix."""
    if theta.dtype != torch.float32 or theta.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    return computes_by_default() and products_are_sums()


def multiplied_grid(x_grid: Tensor, y_grid: Tensor, theta: Tensor) -> Tensor:
    """The products of points ``(x, y, 1)`` and a matrix ``(1, 3, 2)``, as ``(1, H, W, 2)``, as in torchvision."""
    return points_of(x_grid, y_grid, theta.dtype).bmm(theta).view(1, len(y_grid), len(x_grid), 2)


def points_of(x_grid: Tensor, y_grid: Tensor, dtype: torch.dtype) -> Tensor:
    """The points ``(x, y, 1)`` of a grid, as ``(1, H * W, 3)``."""
    ow, oh = len(x_grid), len(y_grid)
    points = torch.empty(1, oh, ow, 3, dtype=dtype, device=x_grid.device)
    points[..., 0].copy_(x_grid)
    points[..., 1].copy_(y_grid.unsqueeze(-1))
    points[..., 2].fill_(1)
    return points.view(1, oh * ow, 3)


def summed_grid(x_grid: Tensor, y_grid: Tensor, theta: Tensor) -> Tensor:
    """`multiplied_grid` for float32 in a tenth of the time: adds the terms of x, y and 1 as complex numbers."""
    x, y = x_grid.to(torch.float32).unsqueeze(-1), y_grid.to(torch.float32).unsqueeze(-1)
    across, down = torch.view_as_complex(x * theta[0, 0]), torch.view_as_complex(y * theta[0, 1])
    points = (across + down.unsqueeze(-1)).add_(torch.view_as_complex(theta[0, 2].contiguous()))
    return torch.view_as_real(points).unsqueeze(0)


@functools.cache
def products_are_sums() -> bool:
    """True if this torch's matrix products round as its sums do; some versions use fused multiply-adds."""
    generator = torch.Generator().manual_seed(0)

    def numbers(*size: int) -> Tensor:
        return torch.randn(size, generator=generator, dtype=torch.float32, device="cpu")

    sizes = ((1, 2), (7, 13), (33, 64), (224, 224), (375, 500))
    tried = [(30 * numbers(width), 30 * numbers(height), numbers(1, 3, 2)) for height, width in sizes]
    return all(torch.equal(summed_grid(*one), multiplied_grid(*one)) for one in tried)


def affine_output_size(matrix: list[float], w: int, h: int) -> tuple[int, int]:
    """The ``(width, height)`` of the whole warped image, by Pillow's rule in torch's float32."""
    # The corners relative to the image's centre, where the tensor backend's matrices have their origin.
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

    # A corner that float32 rounding puts just past a pixel must not add one.
    tol = 1e-4
    cmax = torch.ceil((max_vals / tol).trunc_() * tol)
    cmin = torch.floor((min_vals / tol).trunc_() * tol)
    size = cmax - cmin
    return int(size[0]), int(size[1])


def perspective_grid(coeffs: list[float], ow: int, oh: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The grid ``(1, oh, ow, 2)`` of a perspective warp with eight coefficients."""
    theta1 = torch.tensor(
        [[[coeffs[0], coeffs[1], coeffs[2]], [coeffs[3], coeffs[4], coeffs[5]]]], dtype=dtype, device=device
    )
    theta2 = torch.tensor([[[coeffs[6], coeffs[7], 1.0], [coeffs[6], coeffs[7], 1.0]]], dtype=dtype, device=device)

    d = 0.5
    x_grid = torch.linspace(d, ow * 1.0 + d - 1.0, steps=ow, device=device)
    y_grid = torch.linspace(d, oh * 1.0 + d - 1.0, steps=oh, device=device)
    points = points_of(x_grid, y_grid, dtype)
    output_grid = points.bmm(rescaled(theta1, ow, oh)) / points.bmm(theta2.transpose(1, 2)) - 1.0
    return output_grid.view(1, oh, ow, 2)


def identity_grid(size: list[int]) -> Tensor:
    """The position of each pixel of a ``[height, width]``: ``(1, H, W, 2)``, x first, from -1 to 1."""
    hw_space = [torch.linspace((-s + 1) / s, (s - 1) / s, s) for s in size]
    grid_y, grid_x = torch.meshgrid(hw_space, indexing="ij")
    return torch.stack([grid_x, grid_y], -1).unsqueeze(0)
