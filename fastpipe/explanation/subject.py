"""The subject of `explain`: a transform, or a data set within loaders and wrappers, and its transform."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset

from fastpipe.datasets.base import ImageDataset
from fastpipe.datasets.wrappers import image_datasets
from fastpipe.errors import PlanError
from fastpipe.transforms.adapters import recipe_of

_NAMED_LIKE_ONE = re.compile(
    r"(?!.*(label|target))(.*_)?(transforms?|trans|tfms?|preproc\w*|aug\w*)(_.*)?", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of an explanation: a transform, or a data set with the loaders and wrappers around it."""

    transform: Any  # None of a data set without one
    dataset: Any = None  # the data set that has it; None where a transform alone is explained
    attribute: str = ""  # the data set's name for it; empty if there is none
    around: tuple[str, ...] = ()  # the classes of the loaders and wrappers around the data set, from the outermost
    others: tuple[tuple[str, Any], ...] = ()  # the data sets beside it in the same wrapper, by the words for each


def subject_of(given: object) -> Subject:
    """The subject that a transform, a data set or a loader means: whatever `fastpipe.convert` takes.

    Raises:
        PlanError: it is none of these, or no transform is found in it.
    """
    name = type(given).__name__
    within = _within(given)
    if within:
        (_, first), *others = within
        found = subject_of(first)
        return replace(found, around=(name, *found.around), others=(*found.others, *others))
    if _is_dataset(given):
        return _of_dataset(given)
    if isinstance(given, (list, tuple)) and given and all(map(callable, given)):  # as timm's separate=True gives three
        return Subject(_Sequence(given))
    if given is None or callable(given):
        return Subject(given)
    path = " For a path, `fastpipe explain PATH` on the command line." if isinstance(given, str) else ""
    raise PlanError(f"explain takes a transform, a data set or a loader, not {name}.{path}")


class _Sequence:
    """Transforms one after the other."""

    _is_compose = True

    def __init__(self, transforms: Any) -> None:
        self.transforms = list(transforms)

    def __call__(self, image: object) -> Any:
        for transform in self.transforms:
            image = transform(image)
        return image


def _within(given: Any) -> list[tuple[str, Any]]:
    """The data sets in a loader or a wrapper, with the words for each; none of others."""
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
    joint = getattr(dataset, "_fastpipe_joint", None)  # transforms of image and targets together
    if joint is not None:
        return Subject(joint, dataset, "transforms")
    name, transform = _transform_in(dataset)
    if not (transform is None or callable(transform)):
        raise PlanError(
            f"explain found {type(transform).__name__} as the {name} of {type(dataset).__name__}, which is no transform"
        )
    return Subject(transform, dataset, name)


def _transform_in(dataset: object) -> tuple[str, Any]:
    """The attribute of a data set that is its transform, and the transform; empty and None where there is none."""
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
    """Whether a class is one of fastpipe's transforms, or of a library that has a recipe."""
    return kind.__module__.startswith("fastpipe.transforms.") or recipe_of(kind) is not None
