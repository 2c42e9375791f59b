"""The functions behind the transforms: ``torchvision.transforms.functional``'s names, signatures and results.

Each takes tensors ``(..., C, H, W)``, PIL images and ndarrays ``(H, W)`` or ``(H, W, C)`` (uint8, or floating in
[0, 1]) and returns what it was given, unless it says otherwise; none changes its input. For tensors the reference is
torchvision's tensor backend, for PIL images and uint8 ndarrays torchvision on PIL images.
"""

from fastpipe.transforms.functional.conversion import (
    convert_image_dtype,
    normalize,
    pil_to_tensor,
    to_pil_image,
    to_tensor,
)
from fastpipe.transforms.functional.geometry import (
    center_crop,
    crop,
    five_crop,
    get_dimensions,
    get_image_num_channels,
    get_image_size,
    hflip,
    pad,
    resize,
    resized_crop,
    ten_crop,
    vflip,
)
from fastpipe.transforms.functional.interpolation import InterpolationMode, pil_modes_mapping

__all__ = [
    "InterpolationMode",
    "center_crop",
    "convert_image_dtype",
    "crop",
    "five_crop",
    "get_dimensions",
    "get_image_num_channels",
    "get_image_size",
    "hflip",
    "normalize",
    "pad",
    "pil_modes_mapping",
    "pil_to_tensor",
    "resize",
    "resized_crop",
    "ten_crop",
    "to_pil_image",
    "to_tensor",
    "vflip",
]
