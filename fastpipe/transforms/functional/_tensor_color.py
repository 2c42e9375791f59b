"""Brightness, colour and histogram operations on image tensors ``(..., C, H, W)``.

Derived from torchvision (BSD-3-Clause, see NOTICE) and equal to its tensor backend; compiled by TorchScript.
"""

# TorchScript needs narrow annotations; eagerly wider values arrive, which the type checker calls unreachable.
# mypy: no-warn-unreachable

import torch
from torch import Tensor
from torch.nn.functional import pad as torch_pad

from fastpipe.core import Kind, TensorRounding
from fastpipe.kernels import planes
from fastpipe.transforms.functional._tensor_common import (
    assert_channels,
    assert_colors,
    assert_image_tensor,
    get_dimensions,
    max_value,
)
from fastpipe.transforms.functional.conversion import convert_image_dtype


def blend(img1: Tensor, img2: Tensor, ratio: float) -> Tensor:
    ratio = float(ratio)
    bound = max_value(img1.dtype)
    return (ratio * img1).add_((1.0 - ratio) * img2).clamp_(0, bound).to(img1.dtype)


def rgb_to_grayscale(img: Tensor, num_output_channels: int = 1) -> Tensor:
    if img.ndim < 3:
        raise TypeError(f"Input image tensor should have at least 3 dimensions, but found {img.ndim}")
    assert_channels(img, [1, 3])

    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    if img.shape[-3] == 3:
        if not torch.jit.is_scripting():  # type: ignore[attr-defined]
            gray = planes.changed(Kind.TENSOR_GRAY, img, 1.0, TensorRounding.V1)
            if gray is not None:
                return gray if num_output_channels == 1 else gray.expand(img.shape)
        r, g, b = img.unbind(dim=-3)
        l_img = (0.2989 * r + 0.587 * g + 0.114 * b).to(img.dtype)
        l_img = l_img.unsqueeze(dim=-3)
    else:
        l_img = img.clone()

    if num_output_channels == 3:
        return l_img.expand(img.shape)

    return l_img


def adjust_brightness(img: Tensor, brightness_factor: float) -> Tensor:
    if brightness_factor < 0:
        raise ValueError(f"brightness_factor ({brightness_factor}) is not non-negative.")
    assert_image_tensor(img)
    assert_channels(img, [1, 3])

    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        by_table = planes.looked_up(img, blend, img.new_zeros(1, 1, 1), brightness_factor)
        if by_table is not None:
            return by_table
    return blend(img, torch.zeros_like(img), brightness_factor)


def adjust_contrast(img: Tensor, contrast_factor: float) -> Tensor:
    if contrast_factor < 0:
        raise ValueError(f"contrast_factor ({contrast_factor}) is not non-negative.")
    assert_image_tensor(img)
    assert_channels(img, [3, 1])
    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        blended = planes.changed(Kind.TENSOR_CONTRAST, img, contrast_factor, TensorRounding.V1)
        if blended is not None:
            return blended
    c = get_dimensions(img)[0]
    dtype = img.dtype if torch.is_floating_point(img) else torch.float32
    if c == 3:
        mean = torch.mean(rgb_to_grayscale(img).to(dtype), dim=(-3, -2, -1), keepdim=True)
    else:
        mean = torch.mean(img.to(dtype), dim=(-3, -2, -1), keepdim=True)

    if not torch.jit.is_scripting() and mean.numel() == 1:  # type: ignore[attr-defined]
        by_table = planes.looked_up(img, blend, mean.reshape(-1, 1, 1), contrast_factor)
        if by_table is not None:
            return by_table
    return blend(img, mean, contrast_factor)


def adjust_hue(img: Tensor, hue_factor: float) -> Tensor:
    if not (-0.5 <= hue_factor <= 0.5):
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    assert_image_tensor(img)
    assert_channels(img, [1, 3])
    if get_dimensions(img)[0] == 1:
        return img

    orig_dtype = img.dtype
    img = convert_image_dtype(img, torch.float32)

    img = rgb_to_hsv(img)
    h, s, v = img.unbind(dim=-3)
    h = (h + hue_factor) % 1.0
    img = torch.stack((h, s, v), dim=-3)
    img_hue_adj = hsv_to_rgb(img)

    return convert_image_dtype(img_hue_adj, orig_dtype)


def adjust_saturation(img: Tensor, saturation_factor: float) -> Tensor:
    if saturation_factor < 0:
        raise ValueError(f"saturation_factor ({saturation_factor}) is not non-negative.")
    assert_image_tensor(img)
    assert_channels(img, [1, 3])

    if get_dimensions(img)[0] == 1:
        return img

    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        saturated = planes.changed(Kind.TENSOR_SATURATION, img, saturation_factor, TensorRounding.V1)
        if saturated is not None:
            return saturated
    return blend(img, rgb_to_grayscale(img), saturation_factor)


def adjust_gamma(img: Tensor, gamma: float, gain: float = 1) -> Tensor:
    assert_channels(img, [1, 3])

    if gamma < 0:
        raise ValueError("Gamma should be a non-negative real number")

    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        by_table = planes.looked_up(img, to_power, gamma, gain)
        if by_table is not None:
            return by_table
    return to_power(img, gamma, gain)


def to_power(img: Tensor, gamma: float, gain: float) -> Tensor:
    result = img
    dtype = img.dtype
    if not torch.is_floating_point(img):
        result = convert_image_dtype(result, torch.float32)

    result = (gain * result.pow(gamma)).clamp(0, 1)

    return convert_image_dtype(result, dtype)


def rgb_to_hsv(img: Tensor) -> Tensor:
    r, g, b = img.unbind(dim=-3)

    # Follows Pillow's src/libImaging/Convert.c, rgb2hsv_row.
    maxc = torch.max(img, dim=-3).values
    minc = torch.min(img, dim=-3).values

    # Where maxc = minc, s and h are 0, and so are their dividends: 1 in place of their divisors avoids the NaN, which
    # would spoil a gradient even where it is overwritten.
    eqc = maxc == minc

    cr = maxc - minc
    ones = torch.ones_like(maxc)
    s = cr / torch.where(eqc, ones, maxc)
    cr_divisor = torch.where(eqc, ones, cr)
    rc = (maxc - r) / cr_divisor
    gc = (maxc - g) / cr_divisor
    bc = (maxc - b) / cr_divisor

    hr = (maxc == r) * (bc - gc)
    hg = ((maxc == g) & (maxc != r)) * (2.0 + rc - bc)
    hb = ((maxc != g) & (maxc != r)) * (4.0 + gc - rc)
    h = hr + hg + hb
    h = torch.fmod((h / 6.0 + 1.0), 1.0)
    return torch.stack((h, s, maxc), dim=-3)


def hsv_to_rgb(img: Tensor) -> Tensor:
    h, s, v = img.unbind(dim=-3)
    i = torch.floor(h * 6.0)
    f = (h * 6.0) - i
    i = i.to(dtype=torch.int32)

    p = torch.clamp((v * (1.0 - s)), 0.0, 1.0)
    q = torch.clamp((v * (1.0 - s * f)), 0.0, 1.0)
    t = torch.clamp((v * (1.0 - s * (1.0 - f))), 0.0, 1.0)
    i = i % 6

    mask = i.unsqueeze(dim=-3) == torch.arange(6, device=i.device).view(-1, 1, 1)

    a1 = torch.stack((v, q, p, p, t, v), dim=-3)
    a2 = torch.stack((t, v, v, q, p, p), dim=-3)
    a3 = torch.stack((p, p, t, v, v, q), dim=-3)
    a4 = torch.stack((a1, a2, a3), dim=-4)

    return torch.einsum("...ijk, ...xijk -> ...xjk", mask.to(dtype=img.dtype), a4)


def invert(img: Tensor) -> Tensor:
    assert_colors(img)

    return max_value(img.dtype) - img


def posterize(img: Tensor, bits: int) -> Tensor:
    assert_image_tensor(img)

    if img.ndim < 3:
        raise TypeError(f"Input image tensor should have at least 3 dimensions, but found {img.ndim}")
    if img.dtype != torch.uint8:
        raise TypeError(f"Only torch.uint8 image tensors are supported, but found {img.dtype}")
    assert_channels(img, [1, 3])
    mask = -int(2 ** (8 - bits))  # TorchScript has no ~ for an int
    return img & mask


def solarize(img: Tensor, threshold: float) -> Tensor:
    assert_colors(img)

    if threshold > max_value(img.dtype):
        raise TypeError("Threshold should be less than bound of img.")

    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        by_table = planes.looked_up(img, solarized, threshold)
        if by_table is not None:
            return by_table
    return solarized(img, threshold)


def solarized(img: Tensor, threshold: float) -> Tensor:
    return torch.where(img >= threshold, invert(img), img)


def autocontrast(img: Tensor) -> Tensor:
    assert_colors(img)

    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        stretched = planes.changed(Kind.TENSOR_AUTOCONTRAST, img, 1.0, TensorRounding.V1)
        if stretched is not None:
            return stretched
    bound = max_value(img.dtype)
    dtype = img.dtype if torch.is_floating_point(img) else torch.float32

    minimum = img.amin(dim=(-2, -1), keepdim=True).to(dtype)
    maximum = img.amax(dim=(-2, -1), keepdim=True).to(dtype)
    scale = bound / (maximum - minimum)
    eq_idxs = torch.isfinite(scale).logical_not()
    minimum[eq_idxs] = 0
    scale[eq_idxs] = 1

    return ((img - minimum) * scale).clamp(0, bound).to(img.dtype)


def scale_channel(img_chan: Tensor) -> Tensor:
    # On CUDA histc is the faster one: https://github.com/pytorch/pytorch/issues/53194
    if img_chan.is_cuda:
        hist = torch.histc(img_chan.to(torch.float32), bins=256, min=0, max=255)
    else:
        hist = torch.bincount(img_chan.reshape(-1), minlength=256)

    nonzero_hist = hist[hist != 0]
    step = torch.div(nonzero_hist[:-1].sum(), 255, rounding_mode="floor")
    if step == 0:
        return img_chan

    lut = torch.div(torch.cumsum(hist, 0) + torch.div(step, 2, rounding_mode="floor"), step, rounding_mode="floor")
    lut = torch_pad(lut, [1, 0])[:-1].clamp(0, 255)

    return lut[img_chan.to(torch.int64)].to(torch.uint8)


def equalize_single_image(img: Tensor) -> Tensor:
    return torch.stack([scale_channel(img[c]) for c in range(img.size(0))])


def equalize(img: Tensor) -> Tensor:
    assert_image_tensor(img)

    if not (3 <= img.ndim <= 4):
        raise TypeError(f"Input image tensor should have 3 or 4 dimensions, but found {img.ndim}")
    if img.dtype != torch.uint8:
        raise TypeError(f"Only torch.uint8 image tensors are supported, but found {img.dtype}")
    assert_channels(img, [1, 3])

    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        equalized = planes.changed(Kind.EQUALIZE, img)
        if equalized is not None:
            return equalized
    if img.ndim == 3:
        return equalize_single_image(img)

    return torch.stack([equalize_single_image(x) for x in img])
