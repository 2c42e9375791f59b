"""The loader's part in bad files: batches without the samples that were left out, and an epoch's counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import MethodType
from typing import Any

from torch.utils.data import ConcatDataset, Dataset

from fastpipe.datasets import BadFileCounts, ImageDataset


@dataclass(frozen=True, slots=True)
class EmptyBatch:
    """What a worker sends in place of a batch whose samples were all left out; the loader goes on to the next."""


@dataclass(frozen=True)
class CollateGood:
    """A ``collate_fn`` that never sees a sample that was left out.

    A dataset leaves them out of a list by itself; asked for one sample, as by torch's `ConcatDataset`, it gives None.

    Attributes:
        collate: takes the rest.
    """

    collate: Callable[[Any], Any]

    def __call__(self, samples: Any) -> Any:
        if isinstance(samples, list):
            samples = [sample for sample in samples if sample is not None] or None
        return EmptyBatch() if samples is None else self.collate(samples)


_NESTED = 3
"""Lists and dicts in one another that are looked into."""


def image_datasets(dataset: Any) -> Iterator[ImageDataset]:
    """This dataset, or those inside wrappers such as torch's `Subset`, each once."""
    found: dict[int, Any] = {}  # everything that was looked at: wrappers may share a dataset, or lead back
    todo = [dataset]
    while todo:
        one = todo.pop()
        if id(one) not in found:
            found[id(one)] = one
            if isinstance(one, ImageDataset):
                yield one
            else:
                todo += reversed(_parts(one))


def _parts(wrapper: Any) -> list[Any]:
    """The datasets that a wrapper holds: in its attributes, whatever they are called, and in lists and dicts there."""
    slots = (name for kind in type(wrapper).__mro__ for name in vars(kind).get("__slots__", ()))
    attributes = [*getattr(wrapper, "__dict__", {}).values(), *(getattr(wrapper, name, None) for name in slots)]
    return [part for value in attributes for part in _datasets_in(value, _NESTED)]


def _datasets_in(value: Any, depth: int) -> Iterator[Any]:
    held = list(value.values()) if isinstance(value, dict) else value
    if isinstance(held, (list, tuple)):
        # of a list of a million paths, only the first is looked at
        if held and depth and any(True for _ in _datasets_in(held[0], depth - 1)):
            for member in held:
                yield from _datasets_in(member, depth - 1)
    elif isinstance(held, MethodType):  # `self.get = dataset.__getitem__`
        yield from _datasets_in(held.__self__, depth)
    elif _is_dataset(held):
        yield held


def _is_dataset(value: Any) -> bool:
    return isinstance(value, Dataset) or (hasattr(type(value), "__getitem__") and hasattr(value, "__dict__"))


def begin_epoch(dataset: Any, samples: int) -> None:
    """Tells each image dataset of a loader's how many of an epoch's samples it will be asked for."""
    shares: Counter[int] = Counter()
    for part, share in _shares(dataset, samples):
        shares[id(part)] += round(share)
    for part in image_datasets(dataset):
        part.begin_epoch(shares[id(part)])


def end_epoch(dataset: Any) -> None:
    """Tells each image dataset that the epoch is over."""
    for part in image_datasets(dataset):
        part.end_epoch()


def bad_files_of(dataset: Any) -> BadFileCounts:
    """The counts of all image datasets together."""
    return sum((part.bad_files for part in image_datasets(dataset)), BadFileCounts(0, 0, 0))


def _shares(dataset: Any, samples: float) -> Iterator[tuple[ImageDataset, float]]:
    if isinstance(dataset, ImageDataset):
        yield dataset, samples
        return
    for part in _parts(dataset):
        share = len(part) / max(len(dataset), 1) if isinstance(dataset, ConcatDataset) else 1.0
        yield from _shares(part, samples * share)
