"""Crop, flip, pad and resize of image tensors ``(..., C, H, W)``.

Derived from torchvision (BSD-3-Clause, see NOTICE) and equal to its tensor backend; compiled by TorchScript.
"""

# TorchScript needs narrow annotations; eagerly wider values arrive, which the type checker calls unreachable.
# mypy: no-warn-unreachable

import torch
from torch import Tensor
from torch.nn.functional import interpolate
from torch.nn.functional import pad as torch_pad

from fastpipe.ops.sizes import padding_ltrb
from fastpipe.transforms.functional._tensor_common import (
    assert_image_tensor,
    cast_squeeze_in,
    cast_squeeze_out,
    get_dimensions,
)
from fastpipe.transforms.functional._types import Ints


def vflip(img: Tensor) -> Tensor:
    assert_image_tensor(img)
    return img.flip(-2)


def hflip(img: Tensor) -> Tensor:
    assert_image_tensor(img)
    return img.flip(-1)


def crop(img: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    """A view where the box is inside the image, else zeros outside of it."""
    assert_image_tensor(img)
    _, h, w = get_dimensions(img)
    right = left + width
    bottom = top + height
    if left < 0 or top < 0 or right > w or bottom > h:
        padding = [
            max(-left + min(0, right), 0),
            max(-top + min(0, bottom), 0),
            max(right - max(w, left), 0),
            max(bottom - max(h, top), 0),
        ]
        return pad(img[..., max(top, 0) : bottom, max(left, 0) : right], padding, fill=0)
    return img[..., top:bottom, left:right]


def pad_symmetric(img: Tensor, padding: list[int]) -> Tensor:
    """Mirror the image with its edge repeated; negative padding crops.

    Args:
        padding: left, right, top, bottom.
    """
    if padding[0] < 0 or padding[1] < 0 or padding[2] < 0 or padding[3] < 0:
        crop_left, crop_right, crop_top, crop_bottom = [-min(x, 0) for x in padding]
        img = img[..., crop_top : img.shape[-2] - crop_bottom, crop_left : img.shape[-1] - crop_right]
        padding = [max(x, 0) for x in padding]

    x_indices = torch.tensor(_mirrored(img.shape[-1], padding[0], padding[1]), device=img.device)
    y_indices = torch.tensor(_mirrored(img.shape[-2], padding[2], padding[3]), device=img.device)
    if img.ndim == 3:
        return img[:, y_indices[:, None], x_indices[None, :]]
    if img.ndim == 4:
        return img[:, :, y_indices[:, None], x_indices[None, :]]
    raise RuntimeError("Symmetric padding of N-D tensors are not supported yet")


def _mirrored(length: int, before: int, after: int) -> list[int]:
    """Indices such as [1, 0, 0, 1, 2, -1, -2]; one past the other edge raises where they are used."""
    # From -before to length + after: a comprehension, because TorchScript makes no list of a range.
    return [i if i >= 0 else -i - 1 for i in range(-before, length)] + [-(i + 1) for i in range(after)]


def pad(img: Tensor, padding: Ints, fill: int | float | None = 0, padding_mode: str = "constant") -> Tensor:
    assert_image_tensor(img)
    if fill is None:
        fill = 0
    if not isinstance(padding, (int, tuple, list)):
        raise TypeError("Got inappropriate padding arg")
    if not isinstance(fill, (int, float)):
        raise TypeError("Got inappropriate fill arg")
    if not isinstance(padding_mode, str):
        raise TypeError("Got inappropriate padding_mode arg")
    left, top, right, bottom = padding_ltrb(padding)
    left_right_top_bottom = [left, right, top, bottom]
    if padding_mode not in ["constant", "edge", "reflect", "symmetric"]:
        raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
    if padding_mode == "symmetric":
        return pad_symmetric(img, left_right_top_bottom)

    # torch mirrors and replicates floating dtypes only: https://github.com/pytorch/pytorch/issues/40763
    dtypes = [img.dtype] if padding_mode == "constant" else [torch.float32, torch.float64]
    img, need_cast, need_squeeze, out_dtype = cast_squeeze_in(img, dtypes)
    if padding_mode == "constant":
        img = torch_pad(img, left_right_top_bottom, mode="constant", value=float(fill))
    elif padding_mode == "edge":
        img = torch_pad(img, left_right_top_bottom, mode="replicate")
    else:
        img = torch_pad(img, left_right_top_bottom, mode="reflect")
    return cast_squeeze_out(img, need_cast, need_squeeze, out_dtype)


def resize(img: Tensor, size: list[int], interpolation: str = "bilinear", antialias: bool | None = True) -> Tensor:
    """Args: ``size``: height and width; ``interpolation``: torch's name of the mode."""
    assert_image_tensor(img)
    if isinstance(size, tuple):
        size = list(size)
    smooth = interpolation in ["bilinear", "bicubic"]
    # torch's interpolate refuses to antialias other modes, where it would change nothing.
    use_antialias = False if antialias is None else antialias and smooth

    img, need_cast, need_squeeze, out_dtype = cast_squeeze_in(img, [torch.float32, torch.float64])
    # Naming align_corners where it has no meaning is an error, not naming it elsewhere a warning.
    align_corners = False if smooth else None
    img = interpolate(img, size=size, mode=interpolation, align_corners=align_corners, antialias=use_antialias)
    if interpolation == "bicubic" and out_dtype == torch.uint8:
        img = img.clamp(min=0, max=255)
    return cast_squeeze_out(img, need_cast=need_cast, need_squeeze=need_squeeze, out_dtype=out_dtype)
