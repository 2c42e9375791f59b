"""Datasets whose own code loads the images: for `explain`, who decodes there, and what would mend it."""

from __future__ import annotations

import inspect
import os
import sys
from dataclasses import dataclass
from typing import Any

import torch

from fastpipe.datasets.base import ImageDataset
from fastpipe.datasets.wrappers import locate
from fastpipe.explanation.conversion_gain import conversion_gain
from fastpipe.explanation.graph_breaks import GraphBreak, one_line

_TWINS = frozenset({"CocoDetection", "ImageFolder", "VOCDetection", "VOCSegmentation"})
_PATH_LISTS = ("samples", "imgs", "paths", "files", "image_paths", "img_paths", "filenames")
_OURS = ("fastpipe", "torch", "torchvision", "typing", "builtins")


@dataclass(frozen=True, slots=True)
class ForeignLoading:
    """The loading of a dataset's images where fastpipe alone doesn't make the samples.

    Attributes:
        decode: what is decoded, and by whom; empty where fastpipe's part is decoded by plan all the same.
        ends: why the plan ends there.
    """

    decode: str
    ends: GraphBreak


def foreign_loading(dataset: Any) -> ForeignLoading | None:
    """The loading by a dataset's own code; None where fastpipe does."""
    kind = type(dataset)
    planned = getattr(dataset, "plans", None)  # None of a dataset that isn't fastpipe's
    owner = next((cls for cls in kind.__mro__ if "__getitem__" in vars(cls)), kind)
    name = f"{kind.__name__}.__getitem__"
    advice: tuple[str, ...]
    if planned is None:
        decode = _decoded_by(dataset, name)
        reason = "it makes the samples itself, and calls the transform with images that are there"
        advice = _advice(dataset)
    elif not owner.__module__.startswith("fastpipe."):
        decode = f"whatever {name} decodes: fastpipe has no part in it"
        reason = "it makes the samples without fastpipe's __getitem__"
        if planned and _asks_ours(kind):
            decode, reason = "", "it makes its samples out of fastpipe's, one by one"
        advice = (f"where {name} is Python code, override sample(index), which gives a path and a target",)
    elif planned:
        return None
    else:
        name = one_line(dataset.loader)
        decode = f"all of the image, by {name}"
        reason, advice = "a loader of its own loads whole images", ("leave loader= out, where that will do",)
    return ForeignLoading(decode, GraphBreak(name, "dataset", reason, advice))


def path_of(dataset: Any, index: int) -> str | None:
    """The file of a sample; None for a dataset that doesn't show it."""
    dataset, index = locate(dataset, index)
    if isinstance(dataset, ImageDataset):
        return dataset.sample(index)[0]
    for name in _PATH_LISTS:
        items = getattr(dataset, name, None)
        try:
            item = items[index] if items is not None and not isinstance(items, torch.Tensor) else None
        except (TypeError, LookupError):
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


def _decoded_by(dataset: Any, own: str) -> str:
    if shape_in_memory(dataset) is not None:
        return f"nothing: {type(dataset).__name__} has its images in memory"
    loader = getattr(dataset, "loader", None)
    if not callable(loader) or not hasattr(dataset, "samples"):
        return f"whatever {own} decodes: fastpipe has no part in it"
    name = one_line(loader)
    torchvision = sys.modules.get("torchvision")
    if torchvision is not None and name == "torchvision.datasets.folder.default_loader":
        name = {"PIL": "Pillow"}.get(torchvision.get_image_backend(), name)
    return f"all of the image, by {name}"


def _advice(dataset: Any) -> tuple[str, ...]:
    kind, gain = type(dataset), conversion_gain(dataset)
    line = (f"one line does it, fastpipe.convert(dataset): {gain}",) if gain is not None and gain.pays else ()
    if kind.__module__.startswith("torchvision.") and kind.__name__ in _TWINS:
        return (*line, f"use fastpipe.{kind.__name__}, which takes the same arguments")
    if line or shape_in_memory(dataset) is not None:
        return line
    return (
        "fastpipe.convert(dataset), or `fastpipe run` for the whole script: its code runs as ever, and what it asks of "
        "an image is planned",
    )


def _asks_ours(kind: type[Any]) -> bool:
    """Whether code of the user's classes names a ``__getitem__``, as ``super().__getitem__(index)`` does."""
    for cls in kind.__mro__:
        if cls.__module__.partition(".")[0] in _OURS:
            continue
        for value in vars(cls).values():
            code = getattr(inspect.unwrap(getattr(value, "__func__", value)), "__code__", None)
            if code is not None and "__getitem__" in code.co_names:
                return True
    return False
