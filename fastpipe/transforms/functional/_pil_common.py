"""What every operation on PIL images shares.

Derived from torchvision (BSD-3-Clause, see NOTICE).
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from PIL import Image

__all__ = [
    "check_image",
    "fill_per_band",
    "from_array",
    "get_dimensions",
    "get_image_num_channels",
    "get_image_size",
    "is_pil_image",
]


def is_pil_image(img: Any) -> bool:
    return isinstance(img, Image.Image)


def check_image(img: Any) -> None:
    if not isinstance(img, Image.Image):
        raise TypeError(f"img should be PIL Image. Got {type(img)}")


def get_dimensions(img: Any) -> list[int]:
    if isinstance(img, Image.Image):
        return [len(img.getbands()), img.height, img.width]
    raise TypeError(f"Unexpected type {type(img)}")


def get_image_size(img: Any) -> list[int]:
    if isinstance(img, Image.Image):
        return list(img.size)
    raise TypeError(f"Unexpected type {type(img)}")


def get_image_num_channels(img: Any) -> int:
    if isinstance(img, Image.Image):
        return len(img.getbands())
    raise TypeError(f"Unexpected type {type(img)}")


def fill_per_band(fill: Any, channels: int, integer: bool = True) -> Any:
    """A fill colour as Pillow wants it: one number for one band, else a tuple; integers unless the mode is F.

    Raises:
        ValueError: a sequence of neither 1 nor ``channels`` numbers.
    """
    if fill is None:
        fill = 0
    if isinstance(fill, numbers.Number) and channels > 1:
        fill = (fill,) * channels
    if isinstance(fill, (list, tuple)):
        fill = tuple(fill)
        if len(fill) == 1:
            fill = fill * channels
        elif len(fill) != channels:
            raise ValueError(
                "The number of elements in 'fill' does not match the number of channels of the image "
                f"({len(fill)} != {channels})"
            )
    if not integer:
        return fill
    return tuple(int(x) for x in fill) if isinstance(fill, tuple) else int(fill)


def from_array(array: np.ndarray[Any, Any], mode: str) -> Image.Image:
    """An image of that mode whose bytes are the array's, whatever mode its dtype suggests (a deep copy).

    ``Image.fromarray`` with a mode is deprecated since Pillow 11.3, and infers the mode without one.
    """
    return Image.frombuffer(mode, (array.shape[1], array.shape[0]), array.tobytes(), "raw", mode, 0, 1)
