"""Erasing a rectangle of an image tensor.

Derived from torchvision (BSD-3-Clause, see NOTICE).
"""

import torch
from torch import Tensor

from fastpipe.transforms.functional._tensor_common import assert_image_tensor


def erase(img: Tensor, i: int, j: int, h: int, w: int, v: Tensor, inplace: bool = False) -> Tensor:
    """The image with a rectangle set to given values.

    Args:
        img: tensor ``(..., C, H, W)``.
        i: the rectangle's first row.
        j: the rectangle's first column.
        h: the rectangle's height.
        w: the rectangle's width.
        v: the values, of a shape that broadcasts to ``(..., C, h, w)``.
        inplace: change and return the given tensor.

    Raises:
        TypeError: ``img`` is no tensor.
    """
    if not isinstance(img, torch.Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(img)}")
    assert_image_tensor(img)

    if not inplace:
        img = img.clone()

    img[..., i : i + h, j : j + w] = v
    return img
