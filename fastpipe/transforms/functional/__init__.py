"""The functions behind the transforms: ``torchvision.transforms.functional``'s names, signatures and results.

Each takes tensors ``(..., C, H, W)``, PIL images and ndarrays ``(H, W)`` or ``(H, W, C)`` (uint8, or floating in
[0, 1]) and returns the same type, unless it says otherwise; none changes its input. Tensors get the results of
torchvision's tensor backend, PIL images and uint8 ndarrays those of torchvision on PIL images.

The underscored names are torchvision's too; its own tests and other libraries use them. Each module is imported at the
first use of one of its functions: planned transforms call none.
"""

from typing import TYPE_CHECKING

from fastpipe.lazy_names import imported_lazily
from fastpipe.ops.interpolation import InterpolationMode, pil_modes_mapping
from fastpipe.ops.interpolation import interpolation_from_int as _interpolation_modes_from_int
from fastpipe.ops.matrices import inverse_affine_matrix as _get_inverse_affine_matrix
from fastpipe.ops.matrices import perspective_coeffs as _get_perspective_coeffs
from fastpipe.transforms._functional_pil import _is_pil_image

if TYPE_CHECKING:
    from fastpipe.transforms.functional.color import (
        adjust_brightness,
        adjust_contrast,
        adjust_gamma,
        adjust_hue,
        adjust_saturation,
        autocontrast,
        equalize,
        invert,
        posterize,
        rgb_to_grayscale,
        solarize,
        to_grayscale,
    )
    from fastpipe.transforms.functional.conversion import (
        convert_image_dtype,
        normalize,
        pil_to_tensor,
        to_pil_image,
        to_tensor,
    )
    from fastpipe.transforms.functional.erasing import erase
    from fastpipe.transforms.functional.filters import adjust_sharpness, gaussian_blur
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
    from fastpipe.transforms.functional.warps import affine, elastic_transform, perspective, rotate

__all__ = [
    "InterpolationMode",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "adjust_hue",
    "adjust_saturation",
    "adjust_sharpness",
    "affine",
    "autocontrast",
    "center_crop",
    "convert_image_dtype",
    "crop",
    "elastic_transform",
    "equalize",
    "erase",
    "five_crop",
    "gaussian_blur",
    "get_dimensions",
    "get_image_num_channels",
    "get_image_size",
    "hflip",
    "invert",
    "normalize",
    "pad",
    "perspective",
    "pil_modes_mapping",
    "pil_to_tensor",
    "posterize",
    "resize",
    "resized_crop",
    "rgb_to_grayscale",
    "rotate",
    "solarize",
    "ten_crop",
    "to_grayscale",
    "to_pil_image",
    "to_tensor",
    "vflip",
]

_HOMES = {
    "color": (
        "adjust_brightness",
        "adjust_contrast",
        "adjust_gamma",
        "adjust_hue",
        "adjust_saturation",
        "autocontrast",
        "equalize",
        "invert",
        "posterize",
        "rgb_to_grayscale",
        "solarize",
        "to_grayscale",
    ),
    "conversion": (
        "convert_image_dtype",
        "normalize",
        "pil_to_tensor",
        "to_pil_image",
        "to_tensor",
    ),
    "erasing": ("erase",),
    "filters": (
        "adjust_sharpness",
        "gaussian_blur",
    ),
    "geometry": (
        "center_crop",
        "crop",
        "five_crop",
        "get_dimensions",
        "get_image_num_channels",
        "get_image_size",
        "hflip",
        "pad",
        "resize",
        "resized_crop",
        "ten_crop",
        "vflip",
    ),
    "warps": (
        "affine",
        "elastic_transform",
        "perspective",
        "rotate",
    ),
}

if not TYPE_CHECKING:  # for a type checker every public name is imported above, and any other is a mistake
    __getattr__ = imported_lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
