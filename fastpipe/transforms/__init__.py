"""torchvision's transforms: same names, parameters, random numbers and pixels, for PIL images, ndarrays and tensors.

``import fastpipe.transforms as T`` replaces ``import torchvision.transforms as T``. Besides torchvision's names there
is `Albumentations`, which puts an albumentations transform into such a pipeline.
"""

from fastpipe.transforms.compose import Compose, Lambda, RandomApply, RandomChoice, RandomOrder
from fastpipe.transforms.conversion import (
    ConvertImageDtype,
    LinearTransformation,
    Normalize,
    PILToTensor,
    ToPILImage,
    ToTensor,
)
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

__all__ = [
    "CenterCrop",
    "Compose",
    "ConvertImageDtype",
    "FiveCrop",
    "InterpolationMode",
    "Lambda",
    "LinearTransformation",
    "Normalize",
    "PILToTensor",
    "Pad",
    "RandomApply",
    "RandomChoice",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomOrder",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Resize",
    "TenCrop",
    "ToPILImage",
    "ToTensor",
]
