"""Brightness, colour and histogram functions: on tensors here, on other images by `_images`.

Images are tensors ``(..., 1 or 3, H, W)``, PIL images, or ndarrays ``(H, W)``, ``(H, W, 1)`` or ``(H, W, 3)``, uint8
or floating in [0, 1]; other floating values work if the formula allows. See `geometry`.

Derived from torchvision (BSD-3-Clause, see NOTICE); compiled by TorchScript.
"""

import numpy as np
import torch
from PIL import Image as PILImageModule
from torch import Tensor
from torch.nn.functional import pad as torch_pad

from fastpipe import ops
from fastpipe.core import Kind, TensorRounding
from fastpipe.tensor_kernels import floats, planes
from fastpipe.tensor_kernels.torchscript import Image, is_scripting
from fastpipe.transforms.functional import _images
from fastpipe.transforms.functional._tensor_common import (
    assert_channels,
    assert_colors,
    assert_image_tensor,
    get_dimensions,
    max_value,
)
from fastpipe.transforms.functional.conversion import convert_image_dtype

_INVERT, _AUTOCONTRAST, _EQUALIZE = map(ops.interned_once, (ops.Invert, ops.Autocontrast, ops.Equalize))


def adjust_brightness(img: Image, brightness_factor: float) -> Image:
    """The image's values times a factor, clipped.

    Args:
        img: tensor, PIL image or ndarray.
        brightness_factor: 0 gives black, 1 the image, 2 twice its brightness.

    Raises:
        ValueError: the factor is negative, for a tensor.
    """
    if not isinstance(img, torch.Tensor):
        return _images.changed(ops.AdjustBrightness(brightness_factor), img, brightness_factor)
    if brightness_factor < 0:
        raise ValueError(f"brightness_factor ({brightness_factor}) is not non-negative.")
    assert_channels(img, [1, 3])

    if not is_scripting():
        by_table = planes.looked_up(img, blend, img.new_zeros(1, 1, 1), brightness_factor)
        if by_table is not None:
            return by_table
    return blend(img, torch.zeros_like(img), brightness_factor)


def adjust_contrast(img: Image, contrast_factor: float) -> Image:
    """The image blended with the mean of its gray version.

    Args:
        img: tensor, PIL image or ndarray.
        contrast_factor: 0 gives the mean gray, 1 the image, 2 twice its contrast.

    Raises:
        ValueError: the factor is negative, for a tensor.
    """
    if not isinstance(img, torch.Tensor):
        return _images.changed(ops.AdjustContrast(contrast_factor), img, contrast_factor)
    if contrast_factor < 0:
        raise ValueError(f"contrast_factor ({contrast_factor}) is not non-negative.")
    assert_channels(img, [3, 1])
    if not is_scripting():
        blended = planes.changed(Kind.TENSOR_CONTRAST, img, contrast_factor, TensorRounding.V1)
        if blended is not None:
            return blended
    dtype = img.dtype if torch.is_floating_point(img) else torch.float32
    gray = gray_tensor(img) if get_dimensions(img)[0] == 3 else img
    mean = torch.mean(gray.to(dtype), dim=(-3, -2, -1), keepdim=True)

    if not is_scripting() and mean.numel() == 1:
        by_table = planes.looked_up(img, blend, mean.reshape(-1, 1, 1), contrast_factor)
        if by_table is not None:
            return by_table
    return blend(img, mean, contrast_factor)


def adjust_saturation(img: Image, saturation_factor: float) -> Image:
    """The image blended with its gray version.

    Args:
        img: tensor, PIL image or ndarray.
        saturation_factor: 0 gives the gray version, 1 the image, 2 twice its saturation.

    Raises:
        ValueError: the factor is negative, for a tensor.
    """
    if not isinstance(img, torch.Tensor):
        return _images.changed(ops.AdjustSaturation(saturation_factor), img, saturation_factor)
    if saturation_factor < 0:
        raise ValueError(f"saturation_factor ({saturation_factor}) is not non-negative.")
    assert_channels(img, [1, 3])

    if get_dimensions(img)[0] == 1:
        return img

    if not is_scripting():
        saturated = planes.changed(Kind.TENSOR_SATURATION, img, saturation_factor, TensorRounding.V1)
        if saturated is not None:
            return saturated
    return blend(img, gray_tensor(img), saturation_factor)


def adjust_hue(img: Image, hue_factor: float) -> Image:
    """The image with its hues turned round the colour circle; a gray image unchanged.

    Args:
        img: tensor, PIL image without transparency, or ndarray; not negative.
        hue_factor: fraction of a full turn, from -0.5 to 0.5; both ends give complementary colours.

    Raises:
        ValueError: the factor is outside of [-0.5, 0.5].
    """
    if not isinstance(img, torch.Tensor):
        return _images.changed(ops.AdjustHue(hue_factor), img, hue_factor)
    if not (-0.5 <= hue_factor <= 0.5):
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    assert_channels(img, [1, 3])
    if get_dimensions(img)[0] == 1:
        return img

    if not is_scripting():
        adjusted = floats.hue_adjusted(img, hue_factor, as_v1=True)
        if adjusted is not None:
            return adjusted
    h, s, v = rgb_to_hsv(convert_image_dtype(img, torch.float32)).unbind(dim=-3)
    h = (h + hue_factor) % 1.0
    return convert_image_dtype(hsv_to_rgb(torch.stack((h, s, v), dim=-3)), img.dtype)


def adjust_gamma(img: Image, gamma: float, gain: float = 1) -> Image:
    """``gain * value ** gamma`` for values in [0, 1], clipped.

    Args:
        img: tensor, PIL image without transparency, or ndarray.
        gamma: above 1 makes shadows darker, below 1 lighter.
        gain: a factor.

    Raises:
        ValueError: ``gamma`` is negative.
    """
    if not isinstance(img, torch.Tensor):
        return _images.changed(ops.AdjustGamma(gamma, gain), img, gamma, gain)
    assert_channels(img, [1, 3])

    if gamma < 0:
        raise ValueError("Gamma should be a non-negative real number")

    if not is_scripting():
        by_table = planes.looked_up(img, to_power, gamma, gain)
        if by_table is not None:
            return by_table
    return to_power(img, gamma, gain)


@torch.jit.unused
def to_grayscale(img, num_output_channels=1):  # type: ignore[no-untyped-def]
    """The gray version of a PIL image of any mode, or of an ndarray; `rgb_to_grayscale` takes tensors.

    Args:
        img (Image | ndarray): PIL image or ndarray.
        num_output_channels (int): 1, or 3 for equal channels.

    Raises:
        TypeError: ``img`` is neither.
        ValueError: ``num_output_channels`` is neither 1 nor 3.
    """
    if isinstance(img, np.ndarray | PILImageModule.Image):
        operation = ops.interned_if_hashable(ops.RgbToGrayscale, num_output_channels)
        return _images.changed(operation, img, num_output_channels)
    raise TypeError("Input should be PIL Image")


def rgb_to_grayscale(img: Image, num_output_channels: int = 1) -> Image:
    """The gray version of an RGB image (0.299, 0.587 and 0.114 times its channels).

    Args:
        img: tensor, PIL image or ndarray.
        num_output_channels: 1, or 3 for equal channels.

    Raises:
        TypeError: ``img`` has neither 1 nor 3 channels.
        ValueError: ``num_output_channels`` is neither 1 nor 3.
    """
    if not isinstance(img, torch.Tensor):
        operation = ops.interned_if_hashable(ops.RgbToGrayscale, num_output_channels)
        return _images.changed(operation, img, num_output_channels)
    return gray_tensor(img, num_output_channels)


def gray_tensor(img: Tensor, num_output_channels: int = 1) -> Tensor:
    if img.ndim < 3:
        raise TypeError(f"Input image tensor should have at least 3 dimensions, but found {img.ndim}")
    assert_channels(img, [1, 3])

    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    if img.shape[-3] == 3:
        if not is_scripting():
            gray = planes.changed(Kind.TENSOR_GRAY, img, 1.0, TensorRounding.V1)
            if gray is not None:
                return gray if num_output_channels == 1 else gray.expand(img.shape)
        r, g, b = img.unbind(dim=-3)
        l_img = (0.2989 * r + 0.587 * g + 0.114 * b).to(img.dtype)
        l_img = l_img.unsqueeze(dim=-3)
    else:
        l_img = img.clone()

    return l_img.expand(img.shape) if num_output_channels == 3 else l_img


def invert(img: Image) -> Image:
    """The negative: white minus the image.

    Args:
        img: tensor, PIL image of mode L or RGB, or ndarray.
    """
    if not isinstance(img, torch.Tensor):
        return _images.changed(_INVERT, img)
    assert_colors(img)

    return max_value(img.dtype) - img


def posterize(img: Image, bits: int) -> Image:
    """The image with only the highest bits of each value.

    Args:
        img: uint8 tensor or ndarray, or PIL image of mode L or RGB.
        bits: number of bits to keep, 0 to 8.

    Raises:
        TypeError: ``img`` is a tensor or ndarray of another dtype.
        ValueError: ``bits`` is out of range.
    """
    if not (0 <= bits <= 8):
        raise ValueError(f"The number if bits should be between 0 and 8. Got {bits}")
    if not isinstance(img, torch.Tensor):
        return _images.changed(ops.interned_if_hashable(ops.Posterize, bits), img, bits)
    assert_image_tensor(img)

    if img.ndim < 3:
        raise TypeError(f"Input image tensor should have at least 3 dimensions, but found {img.ndim}")
    if img.dtype != torch.uint8:
        raise TypeError(f"Only torch.uint8 image tensors are supported, but found {img.dtype}")
    assert_channels(img, [1, 3])
    mask = -int(2 ** (8 - bits))  # TorchScript has no ~ for an int
    return img & mask


def solarize(img: Image, threshold: float) -> Image:
    """The image with all values from a threshold on inverted.

    Args:
        img: tensor, PIL image of mode L or RGB, or ndarray.
        threshold: a value on the image's scale; for tensors at most white.

    Raises:
        TypeError: the threshold is above a tensor's white.
    """
    if not isinstance(img, torch.Tensor):
        return _images.changed(ops.interned_if_hashable(ops.Solarize, threshold), img, threshold)
    assert_colors(img)

    if threshold > max_value(img.dtype):
        raise TypeError("Threshold should be less than bound of img.")

    if not is_scripting():
        by_table = planes.looked_up(img, solarized, threshold)
        if by_table is not None:
            return by_table
    return solarized(img, threshold)


def autocontrast(img: Image) -> Image:
    """Each channel stretched so that its darkest value becomes black and its lightest white.

    Args:
        img: tensor, PIL image of mode L or RGB, or ndarray.
    """
    if not isinstance(img, torch.Tensor):
        return _images.changed(_AUTOCONTRAST, img)
    assert_colors(img)

    if not is_scripting():
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


def equalize(img: Image) -> Image:
    """The image with each channel's histogram equalized.

    Args:
        img: uint8 tensor ``(C, H, W)`` or ``(N, C, H, W)``, PIL image of mode P, L or RGB, or uint8 ndarray.

    Raises:
        TypeError: ``img`` is a tensor or ndarray of another dtype.
    """
    if not isinstance(img, torch.Tensor):
        return _images.changed(_EQUALIZE, img)
    assert_image_tensor(img)

    if not (3 <= img.ndim <= 4):
        raise TypeError(f"Input image tensor should have 3 or 4 dimensions, but found {img.ndim}")
    if img.dtype != torch.uint8:
        raise TypeError(f"Only torch.uint8 image tensors are supported, but found {img.dtype}")
    assert_channels(img, [1, 3])

    if not is_scripting():
        equalized = planes.changed(Kind.EQUALIZE, img)
        if equalized is not None:
            return equalized
    if img.ndim == 3:
        return equalize_single_image(img)

    return torch.stack([equalize_single_image(x) for x in img])


# -- helpers of these functions, on tensors


def blend(img1: Tensor, img2: Tensor, ratio: float) -> Tensor:
    ratio = float(ratio)
    bound = max_value(img1.dtype)
    part, rest = ratio * img1, (1.0 - ratio) * img2
    total = part.add_(rest) if part.dtype == rest.dtype else part + rest
    return total.clamp_(0, bound).to(img1.dtype)


def to_power(img: Tensor, gamma: float, gain: float) -> Tensor:
    values = img if torch.is_floating_point(img) else convert_image_dtype(img, torch.float32)
    return convert_image_dtype((gain * values.pow(gamma)).clamp(0, 1), img.dtype)


def rgb_to_hsv(img: Tensor) -> Tensor:
    r, g, b = img.unbind(dim=-3)

    # Follows Pillow's src/libImaging/Convert.c, rgb2hsv_row.
    maxc = torch.max(img, dim=-3).values
    minc = torch.min(img, dim=-3).values

    # Where maxc = minc, s and h are 0, and so are the dividends: a divisor of 1 avoids a NaN, which would spoil a
    # gradient even if it is overwritten.
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


def solarized(img: Tensor, threshold: float) -> Tensor:
    return torch.where(img >= threshold, max_value(img.dtype) - img, img)


def scale_channel(img_chan: Tensor) -> Tensor:
    # On CUDA histc is faster: https://github.com/pytorch/pytorch/issues/53194
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
