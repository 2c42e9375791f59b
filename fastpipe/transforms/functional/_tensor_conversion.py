"""Scaling between dtypes, normalising and erasing image tensors ``(..., C, H, W)``.

Derived from torchvision (BSD-3-Clause, see NOTICE) and equal to its tensor backend; compiled by TorchScript.
"""

# TorchScript needs narrow annotations; eagerly wider values arrive, which the type checker calls unreachable.
# mypy: no-warn-unreachable

import torch
from torch import Tensor

from fastpipe.transforms.functional._tensor_common import assert_image_tensor, max_value


def convert_image_dtype(image: Tensor, dtype: torch.dtype = torch.float) -> Tensor:
    if image.dtype == dtype:
        return image
    # TorchScript has no dtype.is_floating_point.
    to_float = torch.tensor(0, dtype=dtype).is_floating_point()

    if image.is_floating_point():
        if to_float:
            return image.to(dtype)
        if (image.dtype == torch.float32 and dtype in (torch.int32, torch.int64)) or (
            image.dtype == torch.float64 and dtype == torch.int64
        ):
            raise RuntimeError(f"The cast from {image.dtype} to {dtype} cannot be performed safely.")
        # Times the maximum itself, only 1.0 would become white; times (almost) one more, every integer gets an equal
        # share of [0, 1]: https://github.com/pytorch/vision/pull/2078#issuecomment-612045321
        return image.mul(float(max_value(dtype)) + 1.0 - 1e-3).to(dtype)

    input_max = float(max_value(image.dtype))
    if to_float:
        return image.to(dtype) / input_max

    # The factors are made ints: TorchScript would otherwise compute with floats, and round.
    output_max = float(max_value(dtype))
    if input_max > output_max:
        return torch.div(image, int((input_max + 1) // (output_max + 1)), rounding_mode="floor").to(dtype)
    return image.to(dtype) * int((output_max + 1) // (input_max + 1))


def normalize(tensor: Tensor, mean: list[float], std: list[float], inplace: bool = False) -> Tensor:
    assert_image_tensor(tensor)

    if not tensor.is_floating_point():
        raise TypeError(f"Input tensor should be a float tensor. Got {tensor.dtype}.")

    if tensor.ndim < 3:
        raise ValueError(
            f"Expected tensor to be a tensor image of size (..., C, H, W). Got tensor.size() = {tensor.size()}"
        )

    if not inplace:
        tensor = tensor.clone()

    dtype = tensor.dtype
    mean_tensor = torch.as_tensor(mean, dtype=dtype, device=tensor.device)
    std_tensor = torch.as_tensor(std, dtype=dtype, device=tensor.device)
    if (std_tensor == 0).any():
        raise ValueError(f"std evaluated to zero after conversion to {dtype}, leading to division by zero.")
    if mean_tensor.ndim == 1:
        mean_tensor = mean_tensor.view(-1, 1, 1)
    if std_tensor.ndim == 1:
        std_tensor = std_tensor.view(-1, 1, 1)
    return tensor.sub_(mean_tensor).div_(std_tensor)


def erase(img: Tensor, i: int, j: int, h: int, w: int, v: Tensor, inplace: bool = False) -> Tensor:
    assert_image_tensor(img)

    if not inplace:
        img = img.clone()

    img[..., i : i + h, j : j + w] = v
    return img
