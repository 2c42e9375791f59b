"""Decodes and augments images for PyTorch training, with torchvision's API, pixels and random numbers.

``import fastpipe`` is light: public names and modules, such as ``fastpipe.datasets``, are imported when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from fastpipe.lazy_names import imported_lazily

if TYPE_CHECKING:
    from fastpipe import config as config
    from fastpipe import core as core
    from fastpipe import datasets as datasets
    from fastpipe import errors as errors
    from fastpipe import executor as executor
    from fastpipe import growing as growing
    from fastpipe import loading as loading
    from fastpipe import ops as ops
    from fastpipe import packing as packing
    from fastpipe import program as program
    from fastpipe import readers, transforms
    from fastpipe import rng as rng
    from fastpipe import sources as sources
    from fastpipe import tools as tools
    from fastpipe import types as types
    from fastpipe.config import MachineConfig
    from fastpipe.datasets import (
        ArrayFolder,
        ArrayList,
        Boxes,
        CocoDetection,
        ImageFolder,
        ImageIndex,
        ImageList,
        ImageShards,
        ImageTable,
        KeyPoints,
        MaskFile,
        SampleDataset,
        VOCDetection,
        VOCSegmentation,
        collate_fn,
        wrap_dataset_for_transforms_v2,
    )
    from fastpipe.growing import GrowingDataset
    from fastpipe.hooks import install, report, uninstall
    from fastpipe.hooks.conversion import convert
    from fastpipe.loading import DataLoader, samplers, tune
    from fastpipe.loading.load_batch import load_batch
    from fastpipe.packing import pack, unpack
    from fastpipe.pending import is_pending
    from fastpipe.pillow.files import open_image, register_pillow_opener, unregister_pillow_opener
    from fastpipe.sources import ByteSource, Cache, RemoteSource
    from fastpipe.tools.check.run import check
    from fastpipe.tools.doctor import doctor
    from fastpipe.tools.explain import explain
    from fastpipe.tools.preview import preview
    from fastpipe.tools.verify import verify
    from fastpipe.transforms.multi_view import MultiView

__version__ = "0.1.0"

__all__ = [
    "ArrayFolder",
    "ArrayList",
    "Boxes",
    "ByteSource",
    "Cache",
    "CocoDetection",
    "DataLoader",
    "GrowingDataset",
    "ImageFolder",
    "ImageIndex",
    "ImageList",
    "ImageShards",
    "ImageTable",
    "KeyPoints",
    "MachineConfig",
    "MaskFile",
    "MultiView",
    "RemoteSource",
    "SampleDataset",
    "VOCDetection",
    "VOCSegmentation",
    "__version__",
    "check",
    "collate_fn",
    "convert",
    "doctor",
    "explain",
    "install",
    "is_pending",
    "load_batch",
    "open_image",
    "pack",
    "preview",
    "readers",
    "register_pillow_opener",
    "report",
    "samplers",
    "transforms",
    "tune",
    "uninstall",
    "unpack",
    "unregister_pillow_opener",
    "verify",
    "wrap_dataset_for_transforms_v2",
]

_DATASETS = (
    *("ArrayFolder", "ArrayList", "Boxes", "CocoDetection", "ImageFolder", "ImageIndex", "ImageList", "ImageShards"),
    *("ImageTable", "KeyPoints", "MaskFile", "SampleDataset", "VOCDetection", "VOCSegmentation", "collate_fn"),
    "wrap_dataset_for_transforms_v2",
)
_HOMES = {
    "config": ("MachineConfig",),
    "datasets": _DATASETS,
    "hooks": ("install", "report", "uninstall"),
    "hooks.conversion": ("convert",),
    "growing": ("GrowingDataset",),
    "loading": ("DataLoader", "samplers", "tune"),
    "loading.load_batch": ("load_batch",),
    "packing": ("pack", "unpack"),
    "pending": ("is_pending",),
    "pillow.files": ("open_image", "register_pillow_opener", "unregister_pillow_opener"),
    "transforms.multi_view": ("MultiView",),
    "sources": ("ByteSource", "Cache", "RemoteSource"),
    "tools.check.run": ("check",),
    "tools.doctor": ("doctor",),
    "tools.explain": ("explain",),
    "tools.preview": ("preview",),
    "tools.verify": ("verify",),
}
_MODULES = (
    *("config", "core", "datasets", "errors", "executor", "growing", "loading", "ops", "packing"),
    *("program", "readers", "rng", "sources", "tools", "transforms", "types"),
)

if not TYPE_CHECKING:  # for a type checker every public name is imported above, and any other is a mistake
    __getattr__ = imported_lazily(__name__, _HOMES, modules=_MODULES)


def load_ipython_extension(_: object) -> None:
    """Installs the hooks: ``%load_ext fastpipe`` in a notebook."""
    importlib.import_module("fastpipe.hooks").install()


def unload_ipython_extension(_: object) -> None:
    """Removes the hooks: ``%unload_ext fastpipe``."""
    importlib.import_module("fastpipe.hooks").uninstall()


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})
