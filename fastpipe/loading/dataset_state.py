"""A dataset's description in a loader's state, by which a resumed run finds out that its dataset is another one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import PurePath

import numpy as np

from fastpipe.counts import pluralize
from fastpipe.datasets.bad_files import warn_again
from fastpipe.datasets.base import ImageDataset
from fastpipe.datasets.wrappers import EpochSubset, inner_datasets, is_transparent, is_wrapper, locate
from fastpipe.errors import DatasetError
from fastpipe.loading.resumable import SavedState, State

_COMPARED = 64
"""The number of samples that are described, spread evenly over the dataset."""


def describe_dataset(dataset: object, epoch: int = 0) -> State:
    """Describes a dataset by its length, and short digests of some samples' names and targets.

    Of a path, the file name and the last two folders count, so that the dataset may be in another place on another
    machine. There are no digests if the samples have no names that are known without reading them. A growing dataset is
    described by its source and the content of the epoch.
    """
    if isinstance(dataset, EpochSubset):
        return {**describe_dataset(dataset.dataset), "content": dataset.describe_epoch(epoch)}
    if not _has_names(dataset) or not hasattr(dataset, "__len__"):
        return {}
    return {"length": len(dataset), "samples": [_digest(dataset, index) for index in _compared(len(dataset))]}


def check_dataset(saved: Mapping[str, object] | None, dataset: object, allow_changes: bool) -> bool:
    """Returns True, after a warning, if a dataset isn't the one that a state was saved with.

    Args:
        saved: the saved result of `describe_dataset`; None if there is none.
        dataset: the dataset to compare.
        allow_changes: warn instead of raising.

    Raises:
        DatasetError: the dataset is another one; the message says what differs.
    """
    changed = _difference(saved, dataset)
    if not changed:
        return False
    told = f"the dataset isn't the one that this state was saved with: {changed}."
    if not allow_changes:
        raise DatasetError(
            f"{told} Resume with that one, begin a new epoch, or go on all the same with load_state_dict(state, "
            "allow_changes=True)."
        )
    warn_again(f"{told} Samples may come twice in this epoch, or not at all.")
    return True


def _difference(saved: SavedState | None, dataset: object) -> str:
    """Describes the difference; empty if none is found. Gives the saved content to an epoch without content yet."""
    if isinstance(dataset, EpochSubset):
        content = (saved or {}).get("content")
        return _difference(saved, dataset.dataset) or (dataset.adopt_epoch(content) if content else "")
    now = describe_dataset(dataset)
    if not saved or "length" not in saved or not now:
        return ""
    if saved["length"] != now["length"]:
        return f"it has {pluralize(now['length'], 'sample')}, and had {saved['length']:,}"
    pairs = zip(_compared(now["length"]), saved["samples"], now["samples"], strict=True)
    others = [index for index, before, after in pairs if before != after]
    if not others:
        return ""
    name, target = _named(dataset, others[0])
    return (
        f"{len(others)} of {len(now['samples'])} compared samples differ; the first is {others[0]:,}, "
        f"now {name} with target {target!r:.40}"
    )


def _compared(length: int) -> list[int]:
    return np.unique(np.linspace(0, length - 1, min(length, _COMPARED)).astype(np.int64)).tolist() if length else []


def _has_names(dataset: object) -> bool:
    if isinstance(dataset, EpochSubset):  # its samples depend on the epoch
        return False
    if is_wrapper(dataset):
        return is_transparent(dataset) and all(map(_has_names, inner_datasets(dataset).values()))
    return isinstance(dataset, ImageDataset)


def _named(dataset: object, index: int) -> tuple[str, object]:
    inner, place = locate(dataset, index)
    named: tuple[str, object] = inner.sample(place)
    return named


def _digest(dataset: object, index: int) -> str:
    name, target = _named(dataset, index)
    short = "/".join(PurePath(name).parts[-3:]) if isinstance(name, str) else repr(name)
    comparable = target if isinstance(target, (int, str, float, np.generic)) else ""
    return hashlib.blake2b(f"{short}\0{comparable}".encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()
