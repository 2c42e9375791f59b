"""Datasets whose own code loads the images: for `explain`, who decodes there."""

from __future__ import annotations

import os
from typing import Any

import torch

from fastpipe.datasets.base import ImageDataset
from fastpipe.datasets.wrappers import locate
from fastpipe.explanation.graph_breaks import GraphBreak, one_line

_WHOLE = "it loads whole images: leave loader= out, and no pixel is made that isn't needed"
_PATH_LISTS = ("samples", "imgs", "paths", "files", "image_paths", "img_paths", "filenames")


def loaded_by(dataset: Any) -> tuple[str, GraphBreak] | None:
    """The decoder of a dataset's images, in words, and the break, if its own code loads them; None if fastpipe does.

    The words are empty for a dataset derived from one of fastpipe's: what it asks of that is decoded by plan.
    """
    kind = type(dataset)
    owner = next((cls for cls in kind.__mro__ if "__getitem__" in vars(cls)), kind)
    name = f"{kind.__name__}.__getitem__"
    if not isinstance(dataset, ImageDataset):
        has_files = callable(getattr(dataset, "loader", None)) and hasattr(dataset, "samples")
        decode = f"whatever {one_line(dataset.loader) if has_files else name} decodes"
        if shape_in_memory(dataset) is not None:
            decode = f"nothing: {kind.__name__} has its images in memory"
        reason = "one line, fastpipe.convert(dataset), or `fastpipe run` for the script, plans what it asks of an image"
        return decode, GraphBreak(name, reason, is_loading=True)
    if not owner.__module__.startswith("fastpipe."):
        return "", GraphBreak(name, "what it asks of fastpipe's is planned", is_loading=True)
    if dataset.plans:
        return None
    loader = one_line(dataset.loader)
    return f"all of the image, by {loader}", GraphBreak(loader, _WHOLE, is_loading=True)


def path_of(dataset: object, index: int) -> str | None:
    """The file of a sample; None for a dataset that doesn't show it."""
    dataset, index = locate(dataset, index)
    if isinstance(dataset, ImageDataset):
        return dataset.sample(index)[0]
    for name in _PATH_LISTS:
        items = getattr(dataset, name, None)
        try:
            item = items[index] if items is not None and not isinstance(items, torch.Tensor) else None
        except (TypeError, LookupError):  # an attribute of that name which is no list of samples
            continue
        first = item[0] if isinstance(item, (tuple, list)) and item else item
        if isinstance(first, (str, os.PathLike)) and os.path.isfile(first):
            return os.fspath(first)
    return None


def shape_in_memory(dataset: Any) -> tuple[int, int] | None:
    """Height and width of images that a dataset keeps in an array, as torchvision's CIFAR10 and MNIST do."""
    data = getattr(dataset, "data", None)
    shape: tuple[int, ...] = tuple(getattr(data, "shape", ()))
    if len(shape) not in (3, 4) or shape[0] != len(dataset):
        return None
    channels_first = len(shape) == 4 and shape[1] in (1, 3) and shape[3] not in (1, 3)
    height, width = shape[2:] if channels_first else shape[1:3]
    return int(height), int(width)
