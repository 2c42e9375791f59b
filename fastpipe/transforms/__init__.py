"""torchvision's transforms: same names, parameters, random numbers and pixels, for PIL images, ndarrays and tensors.

``import fastpipe.transforms as T`` replaces ``import torchvision.transforms as T``, its modules ``transforms``,
``autoaugment`` and ``functional`` included. In addition there is `Albumentations`, which makes an albumentations
transform a member of such a pipeline.
"""

from typing import TYPE_CHECKING

from fastpipe.lazy_names import imported_lazily
from fastpipe.transforms.transforms import (
    CenterCrop,
    ColorJitter,
    Compose,
    ConvertImageDtype,
    ElasticTransform,
    FiveCrop,
    GaussianBlur,
    Grayscale,
    InterpolationMode,
    Lambda,
    LinearTransformation,
    Normalize,
    Pad,
    PILToTensor,
    RandomAdjustSharpness,
    RandomAffine,
    RandomApply,
    RandomAutocontrast,
    RandomChoice,
    RandomCrop,
    RandomEqualize,
    RandomErasing,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomInvert,
    RandomOrder,
    RandomPerspective,
    RandomPosterize,
    RandomResizedCrop,
    RandomRotation,
    RandomSolarize,
    RandomVerticalFlip,
    Resize,
    TenCrop,
    ToPILImage,
    ToTensor,
)

if TYPE_CHECKING:
    from fastpipe.transforms.albumentations import Albumentations
    from fastpipe.transforms.autoaugment import AugMix, AutoAugment, AutoAugmentPolicy, RandAugment, TrivialAugmentWide

__all__ = [
    "Albumentations",
    "AugMix",
    "AutoAugment",
    "AutoAugmentPolicy",
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "ConvertImageDtype",
    "ElasticTransform",
    "FiveCrop",
    "GaussianBlur",
    "Grayscale",
    "InterpolationMode",
    "Lambda",
    "LinearTransformation",
    "Normalize",
    "PILToTensor",
    "Pad",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChoice",
    "RandomCrop",
    "RandomEqualize",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomOrder",
    "RandomPerspective",
    "RandomPosterize",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomSolarize",
    "RandomVerticalFlip",
    "Resize",
    "TenCrop",
    "ToPILImage",
    "ToTensor",
    "TrivialAugmentWide",
]


_HOMES = {
    "albumentations": ("Albumentations",),
    "autoaugment": ("AugMix", "AutoAugment", "AutoAugmentPolicy", "RandAugment", "TrivialAugmentWide"),
}
"""The modules of classes that few scripts need."""

if not TYPE_CHECKING:  # for a type checker every public name is imported above, and any other is a mistake
    __getattr__ = imported_lazily(__name__, _HOMES, modules=("autoaugment", "v2"))  # v2 needs torchvision


def __dir__() -> list[str]:
    return sorted({*__all__, "autoaugment", "functional", "transforms", "v2"})
