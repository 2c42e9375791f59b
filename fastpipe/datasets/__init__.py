"""Map-style datasets of image files."""

from typing import TYPE_CHECKING

from fastpipe.lazy_names import imported_lazily

if TYPE_CHECKING:
    from fastpipe.datasets.arrays import ArrayFolder, ArrayList
    from fastpipe.datasets.bad_files import BadFile, BadFileCounts
    from fastpipe.datasets.base import ImageDataset
    from fastpipe.datasets.containers import ImageShards, ImageTable
    from fastpipe.datasets.detection import CocoDetection, VOCDetection, VOCSegmentation, wrap_dataset_for_transforms_v2
    from fastpipe.datasets.folder import ImageFolder
    from fastpipe.datasets.image_array import ImageArray
    from fastpipe.datasets.image_list import ImageList
    from fastpipe.datasets.joint import JointDataset, SampleDataset, collate_fn
    from fastpipe.datasets.standard_transform import StandardTransform, default_loader
    from fastpipe.datasets.target_values import Boxes, KeyPoints, MaskFile
    from fastpipe.index.extensions import IMG_EXTENSIONS, has_file_allowed_extension, is_image_file
    from fastpipe.index.image_index import ImageIndex
    from fastpipe.index.make_dataset import find_classes, make_dataset
    from fastpipe.index.statistics import index_statistics

__all__ = [
    "IMG_EXTENSIONS",
    "ArrayFolder",
    "ArrayList",
    "BadFile",
    "BadFileCounts",
    "Boxes",
    "CocoDetection",
    "ImageArray",
    "ImageDataset",
    "ImageFolder",
    "ImageIndex",
    "ImageList",
    "ImageShards",
    "ImageTable",
    "JointDataset",
    "KeyPoints",
    "MaskFile",
    "SampleDataset",
    "StandardTransform",
    "VOCDetection",
    "VOCSegmentation",
    "collate_fn",
    "default_loader",
    "find_classes",
    "has_file_allowed_extension",
    "index_statistics",
    "is_image_file",
    "make_dataset",
    "wrap_dataset_for_transforms_v2",
]

_HOMES = {
    "arrays": (
        "ArrayFolder",
        "ArrayList",
    ),
    "bad_files": (
        "BadFile",
        "BadFileCounts",
    ),
    "base": ("ImageDataset",),
    "containers": (
        "ImageShards",
        "ImageTable",
    ),
    "detection": (
        "CocoDetection",
        "VOCDetection",
        "VOCSegmentation",
        "wrap_dataset_for_transforms_v2",
    ),
    "folder": ("ImageFolder",),
    "image_array": ("ImageArray",),
    "image_list": ("ImageList",),
    "joint": (
        "JointDataset",
        "SampleDataset",
        "collate_fn",
    ),
    "standard_transform": (
        "StandardTransform",
        "default_loader",
    ),
    "target_values": (
        "Boxes",
        "KeyPoints",
        "MaskFile",
    ),
    ".index.extensions": (
        "IMG_EXTENSIONS",
        "has_file_allowed_extension",
        "is_image_file",
    ),
    ".index.image_index": ("ImageIndex",),
    ".index.make_dataset": (
        "find_classes",
        "make_dataset",
    ),
    ".index.statistics": ("index_statistics",),
}

if not TYPE_CHECKING:  # for a type checker every public name is imported above, and any other is a mistake
    __getattr__ = imported_lazily(__name__, _HOMES, modules=("folder",))


def __dir__() -> list[str]:
    return sorted(__all__)
