"""The subject of `explain`: a transform, or a dataset within loaders and wrappers, and the decoder of its images."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset

from fastpipe.datasets.base import ImageDataset
from fastpipe.datasets.joint import JointDataset
from fastpipe.datasets.wrappers import image_datasets, locate
from fastpipe.errors import PlanError
from fastpipe.interop.graph_breaks import GraphBreak, one_line
from fastpipe.plain_lookup import is_a
from fastpipe.transforms.adapters import recipe_of
from fastpipe.transforms.compose import Compose

_NAMED_LIKE_ONE = re.compile(
    r"(?!.*(label|target))(.*_)?(transforms?|trans|tfms?|preproc\w*|aug\w*)(_.*)?", re.IGNORECASE
)
_WHOLE = "it loads whole images: leave loader= out, and no pixel is made that isn't needed"
_PATH_LISTS = ("samples", "imgs", "paths", "files", "image_paths", "img_paths", "filenames")


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of an explanation: a transform, or a dataset with the loaders and wrappers around it."""

    transform: Any  # None for a dataset without one
    dataset: Any = None  # the dataset that has the transform; None if only a transform is explained
    attribute: str = ""  # the dataset's attribute that holds the transform; empty if there is none
    around: tuple[str, ...] = ()  # the classes of the loaders and wrappers around the dataset, outermost first
    others: tuple[tuple[str, object], ...] = ()  # name and value of other datasets in the same wrapper


def subject_of(given: object) -> Subject:
    """Finds the subject in a transform, a dataset or a loader: anything that `fastpipe.convert` takes.

    Raises:
        PlanError: `given` is none of these, or has no transform.
    """
    name = type(given).__name__
    within = _within(given)
    if within:
        (_, first), *others = within
        inner = subject_of(first)
        return replace(inner, around=(name, *inner.around), others=(*inner.others, *others))
    if _is_dataset(given):
        return _of_dataset(given)
    if isinstance(given, (list, tuple)) and given and all(map(callable, given)):  # timm's separate=True gives three
        return Subject(Compose(given))
    if given is None or callable(given):
        return Subject(given)
    path = " For a path, `fastpipe explain PATH` on the command line." if isinstance(given, str) else ""
    raise PlanError(f"subject={given!r:.80}: explain takes a transform, a dataset or a loader, not {name}.{path}")


def _within(given: Any) -> list[tuple[str, Any]]:
    """The datasets in a loader or a wrapper, each with its name; empty for other objects."""
    if isinstance(given, DataLoader):
        return [("dataset", given.dataset)]
    if (type(given).__module__, type(given).__name__) == ("timm.data.loader", "PrefetchLoader"):
        return [("loader", given.loader)]
    if isinstance(given, Subset):
        return [("dataset", given.dataset)]
    if isinstance(given, ConcatDataset):
        return [(f"datasets[{number}]", part) for number, part in enumerate(given.datasets)]
    if _is_dataset(given) and not isinstance(given, ImageDataset) and not _transform_in(given)[0]:
        return [(type(part).__name__, part) for part in image_datasets(given)]
    return []


def _is_dataset(given: object) -> bool:
    has_items = hasattr(type(given), "__getitem__") and not isinstance(given, (str, bytes, list, tuple, dict, type))
    return isinstance(given, Dataset) or (has_items and (hasattr(given, "transform") or not callable(given)))


def _of_dataset(dataset: object) -> Subject:
    joint = dataset._fastpipe_joint if is_a(dataset, JointDataset) else None
    if joint is not None:
        return Subject(joint, dataset, "transforms")
    name, transform = _transform_in(dataset)
    if not (transform is None or callable(transform)):
        raise PlanError(
            f"explain found {type(transform).__name__} as the {name} of {type(dataset).__name__}, which is no transform"
        )
    return Subject(transform, dataset, name)


def _transform_in(dataset: object) -> tuple[str, object]:
    """Returns the attribute that holds a dataset's transform, and the transform; ("", None) if there is none."""
    own = getattr(dataset, "__dict__", {})
    for name in ("transform", "transforms"):
        if getattr(dataset, name, None) is not None:
            return name, getattr(dataset, name)
    if "_format_kwargs" in own and "transform" in own["_format_kwargs"]:  # Hugging Face's
        return "transform", own["_format_kwargs"]["transform"]
    known = [name for name, value in own.items() if callable(value) and _is_of_library(type(value))]
    named = [name for name, value in own.items() if callable(value) and _NAMED_LIKE_ONE.fullmatch(name)]
    name = next(iter((*known, *named)), "")
    return name, own.get(name)


def _is_of_library(kind: type) -> bool:
    """True if a class is one of fastpipe's transforms, or one of another library with a recipe."""
    return kind.__module__.startswith("fastpipe.transforms.") or recipe_of(kind) is not None


def loaded_by(dataset: Any) -> tuple[str, GraphBreak] | None:
    """Returns the decoder of a dataset's images in words, and the break, if its own code loads them; else None.

    The words are empty for a dataset derived from one of fastpipe's, as its base class decodes by plan.
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
        except (TypeError, LookupError):  # the attribute is no list of samples
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
