"""Map-style datasets of image files."""

from fastpipe.data.arrays import ArrayFolder, ArrayList
from fastpipe.data.bad_files import BadFile, BadFileCounts
from fastpipe.data.base import ImageDataset, StandardTransform, default_loader
from fastpipe.data.detection import CocoDetection, VOCDetection, VOCSegmentation, wrap_dataset_for_transforms_v2
from fastpipe.data.folder import ImageFolder
from fastpipe.data.image_list import ImageList
from fastpipe.data.image_table import ImageTable
from fastpipe.data.index import ImageIndex
from fastpipe.data.joint import Boxes, JointDataset, KeyPoints, MaskFile, SampleDataset, collate_fn
from fastpipe.data.listing import (
    IMG_EXTENSIONS,
    find_classes,
    has_file_allowed_extension,
    is_image_file,
    make_dataset,
)
from fastpipe.data.shards import ImageShards
from fastpipe.data.statistics import index_statistics

__all__ = [
    "IMG_EXTENSIONS",
    "ArrayFolder",
    "ArrayList",
    "BadFile",
    "BadFileCounts",
    "Boxes",
    "CocoDetection",
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
