"""The tensor backend under torchvision's module path and names, for code that imports it from there."""

from fastpipe.transforms.functional._tensor_color import (  # noqa: F401
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
from fastpipe.transforms.functional._tensor_color import blend as _blend  # noqa: F401
from fastpipe.transforms.functional._tensor_color import hsv_to_rgb as _hsv2rgb  # noqa: F401
from fastpipe.transforms.functional._tensor_color import rgb_to_hsv as _rgb2hsv  # noqa: F401
from fastpipe.transforms.functional._tensor_color import scale_channel as _scale_channel  # noqa: F401
from fastpipe.transforms.functional._tensor_common import assert_channels as _assert_channels  # noqa: F401
from fastpipe.transforms.functional._tensor_common import assert_image_tensor as _assert_image_tensor  # noqa: F401
from fastpipe.transforms.functional._tensor_common import cast_squeeze_in as _cast_squeeze_in  # noqa: F401
from fastpipe.transforms.functional._tensor_common import cast_squeeze_out as _cast_squeeze_out  # noqa: F401
from fastpipe.transforms.functional._tensor_common import (  # noqa: F401
    get_dimensions,
    get_image_num_channels,
    get_image_size,
)
from fastpipe.transforms.functional._tensor_common import max_value as _max_value  # noqa: F401
from fastpipe.transforms.functional._tensor_conversion import (  # noqa: F401
    convert_image_dtype,
    erase,
    normalize,
)
from fastpipe.transforms.functional._tensor_filters import adjust_sharpness, gaussian_blur  # noqa: F401
from fastpipe.transforms.functional._tensor_filters import gaussian_kernel_1d as _get_gaussian_kernel1d  # noqa: F401
from fastpipe.transforms.functional._tensor_filters import gaussian_kernel_2d as _get_gaussian_kernel2d  # noqa: F401
from fastpipe.transforms.functional._tensor_geometry import crop, hflip, pad, resize, vflip  # noqa: F401
from fastpipe.transforms.functional._tensor_geometry import pad_symmetric as _pad_symmetric  # noqa: F401
from fastpipe.transforms.functional._tensor_warps import (  # noqa: F401
    affine,
    elastic_transform,
    perspective,
    rotate,
)
from fastpipe.transforms.functional._tensor_warps import (  # noqa: F401
    affine_output_size as _compute_affine_output_size,
)
from fastpipe.transforms.functional._tensor_warps import identity_grid as _create_identity_grid  # noqa: F401
