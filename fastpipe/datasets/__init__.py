"""Map-style datasets of image files."""

from fastpipe.datasets.bad_files import BadFile, BadFileCounts
from fastpipe.datasets.base import ImageDataset, StandardTransform, default_loader
from fastpipe.datasets.folder import ImageFolder
from fastpipe.datasets.image_list import ImageList
from fastpipe.datasets.index import ImageIndex
from fastpipe.datasets.listing import (
    IMG_EXTENSIONS,
    find_classes,
    has_file_allowed_extension,
    is_image_file,
    make_dataset,
)
from fastpipe.datasets.statistics import index_statistics

__all__ = [
    "IMG_EXTENSIONS",
    "BadFile",
    "BadFileCounts",
    "ImageDataset",
    "ImageFolder",
    "ImageIndex",
    "ImageList",
    "StandardTransform",
    "default_loader",
    "find_classes",
    "has_file_allowed_extension",
    "index_statistics",
    "is_image_file",
    "make_dataset",
]
