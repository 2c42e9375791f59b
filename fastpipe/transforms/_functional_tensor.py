"""The tensor backend under torchvision's module path and names, for code that imports it from there."""

from fastpipe.tensor_kernels.filters import gaussian_kernel_1d as _get_gaussian_kernel1d
from fastpipe.tensor_kernels.grids import affine_output_size as _compute_affine_output_size
from fastpipe.tensor_kernels.grids import identity_grid as _create_identity_grid
from fastpipe.transforms.functional._tensor_common import assert_channels as _assert_channels
from fastpipe.transforms.functional._tensor_common import assert_image_tensor as _assert_image_tensor
from fastpipe.transforms.functional._tensor_common import cast_squeeze_in as _cast_squeeze_in
from fastpipe.transforms.functional._tensor_common import cast_squeeze_out as _cast_squeeze_out
from fastpipe.transforms.functional._tensor_common import max_value as _max_value
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
)
from fastpipe.transforms.functional.color import blend as _blend
from fastpipe.transforms.functional.color import hsv_to_rgb as _hsv2rgb
from fastpipe.transforms.functional.color import rgb_to_hsv as _rgb2hsv
from fastpipe.transforms.functional.color import scale_channel as _scale_channel
from fastpipe.transforms.functional.conversion import convert_image_dtype, normalize
from fastpipe.transforms.functional.erasing import erase
from fastpipe.transforms.functional.filters import adjust_sharpness, gaussian_blur
from fastpipe.transforms.functional.filters import gaussian_kernel_2d as _get_gaussian_kernel2d
from fastpipe.transforms.functional.geometry import (
    crop,
    get_dimensions,
    get_image_num_channels,
    get_image_size,
    hflip,
    pad,
    vflip,
)
from fastpipe.transforms.functional.geometry import pad_symmetric as _pad_symmetric
from fastpipe.transforms.functional.geometry import resize_tensor as resize
from fastpipe.transforms.functional.warps import affine_tensor as affine
from fastpipe.transforms.functional.warps import elastic_tensor as elastic_transform
from fastpipe.transforms.functional.warps import perspective_tensor as perspective
from fastpipe.transforms.functional.warps import rotate_tensor as rotate
