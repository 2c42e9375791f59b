"""Brightness, colour and histogram operations: each call goes to the backend of its image's type.

Images are tensors ``(..., 1 or 3, H, W)``, PIL images, or ndarrays ``(H, W)``, ``(H, W, 1)`` or ``(H, W, 3)``, uint8
or floating in [0, 1]; other floating values work where the formula allows. See `geometry` for the backends.

Derived from torchvision (BSD-3-Clause, see NOTICE).
"""

# TorchScript needs narrow annotations; eagerly wider values arrive, which the type checker calls unreachable.
# mypy: no-warn-unreachable

from functools import partial

import numpy as np
import torch
from PIL import Image as PILImageModule

from fastpipe import ops
from fastpipe.kernels.color import inverted, posterized
from fastpipe.transforms.functional import _images, _tensor_color
from fastpipe.transforms.functional._types import Image

_INVERT, _AUTOCONTRAST, _EQUALIZE = map(ops.interned_once, (ops.Invert, ops.Autocontrast, ops.Equalize))
_GRAY, _THREE_GRAY = (ops.interned_once(ops.RgbToGrayscale, channels) for channels in (1, 3))


def _gray(channels: int) -> ops.RgbToGrayscale:
    return _GRAY if channels == 1 else _THREE_GRAY if channels == 3 else ops.RgbToGrayscale(channels)


def _posterized_to(bits: int) -> ops.Posterize:
    return ops.interned_once(ops.Posterize, bits) if type(bits) is int else ops.Posterize(bits)


def _solarized_from(threshold: float) -> ops.Solarize:
    known = type(threshold) in (int, float)
    return ops.interned_once(ops.Solarize, threshold) if known else ops.Solarize(threshold)


def adjust_brightness(img: Image, brightness_factor: float) -> Image:
    """The image's values times a factor, clipped.

    Args:
        img: tensor, PIL image or ndarray.
        brightness_factor: 0 gives black, 1 the image, 2 twice its brightness.

    Raises:
        ValueError: a negative factor for a tensor.
    """
    if not isinstance(img, torch.Tensor):
        return _images.changed(ops.AdjustBrightness(brightness_factor), img, brightness_factor)
    return _tensor_color.adjust_brightness(img, brightness_factor)


def adjust_contrast(img: Image, contrast_factor: float) -> Image:
    """The image blended with the mean of its gray version.

    Args:
        img: tensor, PIL image or ndarray.
        contrast_factor: 0 gives the mean gray, 1 the image, 2 twice its contrast.

    Raises:
        ValueError: a negative factor for a tensor.
    """
    if not isinstance(img, torch.Tensor):
        return _images.changed(ops.AdjustContrast(contrast_factor), img, contrast_factor)
    return _tensor_color.adjust_contrast(img, contrast_factor)


def adjust_saturation(img: Image, saturation_factor: float) -> Image:
    """The image blended with its gray version.

    Args:
        img: tensor, PIL image or ndarray.
        saturation_factor: 0 gives the gray version, 1 the image, 2 twice its saturation.

    Raises:
        ValueError: a negative factor for a tensor.
    """
    if not isinstance(img, torch.Tensor):
        return _images.changed(ops.AdjustSaturation(saturation_factor), img, saturation_factor)
    return _tensor_color.adjust_saturation(img, saturation_factor)


def adjust_hue(img: Image, hue_factor: float) -> Image:
    """The image with its hues turned round the colour circle; a gray image as it is.

    Args:
        img: tensor, PIL image without transparency, or ndarray; not negative.
        hue_factor: part of a full turn, from -0.5 to 0.5; either end gives complementary colours.

    Raises:
        ValueError: a factor outside of [-0.5, 0.5].
    """
    if not isinstance(img, torch.Tensor):
        return _images.changed(ops.AdjustHue(hue_factor), img, hue_factor)
    return _tensor_color.adjust_hue(img, hue_factor)


def adjust_gamma(img: Image, gamma: float, gain: float = 1) -> Image:
    """``gain * value ** gamma`` for values in [0, 1], clipped.

    Args:
        img: tensor, PIL image without transparency, or ndarray.
        gamma: above 1 shadows get darker, below 1 lighter.
        gain: a factor.

    Raises:
        ValueError: a negative ``gamma``.
    """
    if not isinstance(img, torch.Tensor):
        return _images.changed(ops.AdjustGamma(gamma, gain), img, gamma, gain)
    return _tensor_color.adjust_gamma(img, gamma, gain)


@torch.jit.unused
def to_grayscale(img, num_output_channels=1):  # type: ignore[no-untyped-def]
    """The gray version of a PIL image of any mode, or of an ndarray; `rgb_to_grayscale` takes tensors.

    Args:
        img: PIL image or ndarray.
        num_output_channels: 1, or 3 equal ones.

    Raises:
        TypeError: ``img`` is neither.
        ValueError: another number of channels.
    """
    if isinstance(img, np.ndarray | PILImageModule.Image):
        return _images.changed(_gray(num_output_channels), img, num_output_channels)
    raise TypeError("Input should be PIL Image")


def rgb_to_grayscale(img: Image, num_output_channels: int = 1) -> Image:
    """The gray version of an RGB image (0.299, 0.587 and 0.114 of its channels).

    Args:
        img: tensor, PIL image or ndarray.
        num_output_channels: 1, or 3 equal ones.

    Raises:
        TypeError: neither 1 nor 3 channels come in.
        ValueError: another number of channels is to come out.
    """
    if not isinstance(img, torch.Tensor):
        return _images.changed(_gray(num_output_channels), img, num_output_channels)
    return _tensor_color.rgb_to_grayscale(img, num_output_channels)


def invert(img: Image) -> Image:
    """The negative: white minus the image.

    Args:
        img: tensor, PIL image of mode L or RGB, or ndarray.
    """
    if not isinstance(img, torch.Tensor):
        return _images.changed(_INVERT, img, kernel=inverted)
    return _tensor_color.invert(img)


def posterize(img: Image, bits: int) -> Image:
    """The image with only the highest bits of each value.

    Args:
        img: uint8 tensor or ndarray, or PIL image of mode L or RGB.
        bits: how many to keep, 0 to 8.

    Raises:
        TypeError: a tensor or ndarray of another dtype.
        ValueError: ``bits`` out of range.
    """
    if not (0 <= bits <= 8):
        raise ValueError(f"The number if bits should be between 0 and 8. Got {bits}")
    if not isinstance(img, torch.Tensor):
        return _images.changed(_posterized_to(bits), img, bits, kernel=partial(posterized, bits=bits))
    return _tensor_color.posterize(img, bits)


def solarize(img: Image, threshold: float) -> Image:
    """The image with all values from a threshold on inverted.

    Args:
        img: tensor, PIL image of mode L or RGB, or ndarray.
        threshold: on the image's scale; for tensors at most its white.

    Raises:
        TypeError: a threshold above a tensor's white.
    """
    if not isinstance(img, torch.Tensor):
        return _images.changed(_solarized_from(threshold), img, threshold)
    return _tensor_color.solarize(img, threshold)


def autocontrast(img: Image) -> Image:
    """Each channel stretched so that its darkest value becomes black and its lightest white.

    Args:
        img: tensor, PIL image of mode L or RGB, or ndarray.
    """
    if not isinstance(img, torch.Tensor):
        return _images.changed(_AUTOCONTRAST, img)
    return _tensor_color.autocontrast(img)


def equalize(img: Image) -> Image:
    """Each channel mapped so that its values are spread evenly.

    Args:
        img: uint8 tensor ``(C, H, W)`` or ``(N, C, H, W)``, PIL image of mode P, L or RGB, or uint8 ndarray.

    Raises:
        TypeError: a tensor or ndarray of another dtype.
    """
    if not isinstance(img, torch.Tensor):
        return _images.changed(_EQUALIZE, img)
    return _tensor_color.equalize(img)
