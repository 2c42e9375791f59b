"""The PIL backend under torchvision's module path and names, for code that imports it from there."""

from fastpipe.transforms.functional._pil_color import (  # noqa: F401
    adjust_brightness,
    adjust_contrast,
    adjust_gamma,
    adjust_hue,
    adjust_saturation,
    adjust_sharpness,
    autocontrast,
    equalize,
    invert,
    posterize,
    solarize,
    to_grayscale,
)
from fastpipe.transforms.functional._pil_common import (  # noqa: F401
    get_dimensions,
    get_image_num_channels,
    get_image_size,
)
from fastpipe.transforms.functional._pil_common import is_pil_image as _is_pil_image  # noqa: F401
from fastpipe.transforms.functional._pil_geometry import crop, hflip, pad, resize, vflip  # noqa: F401
from fastpipe.transforms.functional._pil_warps import affine, perspective, rotate  # noqa: F401
