"""``torchvision.transforms.transforms``'s names: all classes except those of `autoaugment`.

The underscored names and `RandomTransforms` are torchvision's too; other libraries use them.
"""

from fastpipe.ops.interpolation import interpolation_from_int as _interpolation_modes_from_int
from fastpipe.transforms import functional as F
from fastpipe.transforms._base import check_length as _check_sequence_input
from fastpipe.transforms._base import setup_angle as _setup_angle
from fastpipe.transforms._base import setup_size as _setup_size
from fastpipe.transforms.color import (
    ColorJitter,
    Grayscale,
    RandomAutocontrast,
    RandomEqualize,
    RandomGrayscale,
    RandomInvert,
    RandomPosterize,
    RandomSolarize,
)
from fastpipe.transforms.compose import (
    Compose,
    Lambda,
    RandomApply,
    RandomChoice,
    RandomOrder,
    RandomTransforms,
)
from fastpipe.transforms.conversion import (
    ConvertImageDtype,
    LinearTransformation,
    Normalize,
    PILToTensor,
    ToPILImage,
    ToTensor,
)
from fastpipe.transforms.erasing import RandomErasing
from fastpipe.transforms.filters import GaussianBlur, RandomAdjustSharpness
from fastpipe.transforms.functional import InterpolationMode
from fastpipe.transforms.geometry import (
    CenterCrop,
    FiveCrop,
    Pad,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
    TenCrop,
)
from fastpipe.transforms.warps import ElasticTransform, RandomAffine, RandomPerspective, RandomRotation

__all__ = sorted(name for name in globals() if name[0].isupper() and name not in ("F", "RandomTransforms"))
