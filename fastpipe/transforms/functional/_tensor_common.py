"""Checks and conversions that the functionals on image tensors ``(..., C, H, W)`` share.

Derived from torchvision (BSD-3-Clause, see NOTICE) and equal to its tensor backend; compiled by TorchScript.
"""

import torch
from torch import Tensor


def assert_image_tensor(img: Tensor) -> None:
    if img.ndim < 2:
        raise TypeError("Tensor is not a torch image.")


def assert_channels(img: Tensor, permitted: list[int]) -> None:
    channels = get_dimensions(img)[0]
    if channels not in permitted:
        raise TypeError(f"Input image tensor permitted channel values are {permitted}, but found {channels}")


def assert_colors(img: Tensor) -> None:
    assert_image_tensor(img)
    if img.ndim < 3:
        raise TypeError(f"Input image tensor should have at least 3 dimensions, but found {img.ndim}")
    assert_channels(img, [1, 3])


def get_dimensions(img: Tensor) -> list[int]:
    assert_image_tensor(img)
    channels = 1 if img.ndim == 2 else img.shape[-3]
    height, width = img.shape[-2:]
    return [channels, height, width]


def max_value(dtype: torch.dtype) -> int:
    """The value of white: the largest value of an integer dtype, 1 for others."""
    if dtype == torch.uint8:
        return 255
    if dtype == torch.int8:
        return 127
    if dtype == torch.int16:
        return 32767
    if dtype == torch.uint16:
        return 65535
    if dtype == torch.int32:
        return 2147483647
    if dtype == torch.int64:
        return 9223372036854775807
    return 1


def cast_squeeze_in(img: Tensor, dtypes: list[torch.dtype]) -> tuple[Tensor, bool, bool, torch.dtype]:
    """A batch in one of the dtypes (else in the first), and the arguments with which `cast_squeeze_out` undoes that."""
    need_squeeze = False
    if img.ndim < 4:
        img = img.unsqueeze(dim=0)
        need_squeeze = True

    out_dtype = img.dtype
    need_cast = False
    if out_dtype not in dtypes:
        need_cast = True
        img = img.to(dtypes[0])
    return img, need_cast, need_squeeze, out_dtype


def cast_squeeze_out(img: Tensor, need_cast: bool, need_squeeze: bool, out_dtype: torch.dtype) -> Tensor:
    if need_squeeze:
        img = img.squeeze(dim=0)
    if need_cast:
        if out_dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
            img = torch.round(img)
        img = img.to(out_dtype)
    return img
