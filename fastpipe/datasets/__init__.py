"""Map-style datasets of image files."""

from fastpipe.datasets.base import ImageDataset, StandardTransform, default_loader
from fastpipe.datasets.folder import (
    IMG_EXTENSIONS,
    ImageFolder,
    find_classes,
    has_file_allowed_extension,
    is_image_file,
    make_dataset,
)

__all__ = [
    "IMG_EXTENSIONS",
    "ImageDataset",
    "ImageFolder",
    "StandardTransform",
    "default_loader",
    "find_classes",
    "has_file_allowed_extension",
    "is_image_file",
    "make_dataset",
]
