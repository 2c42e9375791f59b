"""torchvision's functions on PIL images: recorded on images without pixels, or computed from the file directly.

Each returns the result, or None if torchvision's own function has to run.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from fastpipe.ops import (
    AdjustHue,
    GaussianBlur,
    GaussianBlurOfV2,
    Pad,
    PermuteChannels,
    PilToTensor,
    ToTensor,
    fused_conversion,
)
from fastpipe.pillow.image_record import PlainCall
from fastpipe.pillow.lazy_image import GRAY_IN_THREE, LazyImage, lazy_of, record_operations
from fastpipe.program.on_image import on_pixels, shape_of
from fastpipe.tensor_kernels.filters import blur_arguments


def adjust_hue(img: object, hue_factor: object) -> LazyImage | None:
    """``adjust_hue`` of a colour image."""
    if getattr(img, "mode", None) != "RGB" or not isinstance(hue_factor, (int, float)):
        return None  # returned before the file counts as loaded
    lazy = lazy_of(img)
    if lazy is None:
        return None
    return record_operations(lazy, AdjustHue(hue_factor), plain=_torchvisions("adjust_hue", hue_factor), info={})


def pad(img: Any, padding: Any, fill: Any = 0, padding_mode: Any = "constant") -> LazyImage | None:
    """``pad`` in a mode that repeats the image's own pixels; with a colour torchvision calls ``ImageOps.expand``."""
    sides = padding if isinstance(padding, (list, tuple)) else (padding,)
    is_fill = fill is None or isinstance(fill, (int, float, list, tuple))
    if padding_mode == "constant" or not is_fill or len(sides) not in (1, 2, 4):
        return None
    if not all(isinstance(side, int) and side >= 0 for side in sides):
        return None
    plain = _torchvisions("pad", tuple(sides), fill, padding_mode)
    return record_operations(img, Pad([*sides], 0, padding_mode), plain=plain, info={})


def to_grayscale(img: object, num_output_channels: object) -> LazyImage | None:
    """``to_grayscale`` of a colour image to three channels; for one torchvision calls ``Image.convert``."""
    lazy = lazy_of(img) if num_output_channels == 3 else None
    if lazy is None or lazy.mode != "RGB":
        return None
    return record_operations(lazy, GRAY_IN_THREE, plain=_torchvisions("to_grayscale", 3), info={})


def _permute_channels_image_pil(image: Any, permutation: Any) -> LazyImage | None:
    """v2's ``permute_channels`` on a colour image."""
    lazy = lazy_of(image)
    if lazy is None or lazy.mode != "RGB" or len(permutation) != 3:
        return None
    order = tuple(map(int, permutation))  # RandomPhotometricDistort draws a tensor
    if sorted(order) != [0, 1, 2]:
        return None
    plain = _torchvisions("_permute_channels_image_pil", [*order], home="v2.functional._color")
    return record_operations(lazy, PermuteChannels(order), plain=plain, info={})


def gaussian_blur(img: object, kernel_size: object, sigma: object = None) -> LazyImage | None:
    """``gaussian_blur`` of a colour image."""
    return _blurred(img, GaussianBlur, "functional", "gaussian_blur", kernel_size, sigma)


def _gaussian_blur_image_pil(image: object, kernel_size: object, sigma: object = None) -> LazyImage | None:
    """v2's ``gaussian_blur`` of a colour image."""
    name = "_gaussian_blur_image_pil"
    return _blurred(image, GaussianBlurOfV2, "v2.functional._misc", name, kernel_size, sigma)


def _blurred(
    image: object, kind: type[GaussianBlur], home: str, name: str, kernel_size: object, sigma: object
) -> LazyImage | None:
    arguments = blur_arguments(kernel_size, sigma) if getattr(image, "mode", None) == "RGB" else None
    lazy = None if arguments is None else lazy_of(image)
    if arguments is None or lazy is None:
        return None
    return record_operations(lazy, kind(*arguments), plain=_torchvisions(name, *arguments, home=home), info={})


def _torchvisions(name: str, *arguments: object, home: str = "_functional_pil") -> PlainCall | None:
    """torchvision's own function; None if torchvision's module isn't imported."""
    module = sys.modules.get(f"torchvision.transforms.{home}")
    return None if module is None else lambda image: getattr(module, name)(image, *arguments)


def to_tensor(pic: object) -> torch.Tensor | None:
    """``to_tensor``, computed from the file."""
    return _converted(pic, ToTensor()) if torch.get_default_dtype() is torch.float32 else None


def pil_to_tensor(pic: object) -> torch.Tensor | None:
    """``pil_to_tensor``, computed from the file; as torchvision's, the tensor is interleaved in memory."""
    return _converted(pic, PilToTensor())


def _converted(pic: object, conversion: ToTensor | PilToTensor) -> torch.Tensor | None:
    lazy = lazy_of(pic)
    shape = None if lazy is None else shape_of(lazy)
    if shape is None:
        return None
    fused = fused_conversion((conversion,), shape.channels)[0]
    # torchvision's `to_tensor` only copies a transposed array that isn't contiguous; that of a gray image is.
    in_rows = isinstance(conversion, PilToTensor) or shape.channels == 1 or shape.height * shape.width == 1
    tensor: torch.Tensor = on_pixels(lazy, (), fused, None, in_rows=in_rows)
    return tensor
