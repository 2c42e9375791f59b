"""The loader's part in bad files: batches without the samples that were left out, and an epoch's counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fastpipe.datasets import BadFileCounts, ImageDataset

__all__ = ["CollateGood", "EmptyBatch", "bad_files_of", "begin_epoch", "end_epoch", "image_datasets"]


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


def image_datasets(dataset: Any) -> Iterator[ImageDataset]:
    """This dataset, or those inside torch's `Subset` and `ConcatDataset`."""
    if isinstance(dataset, ImageDataset):
        yield dataset
        return
    for part in (getattr(dataset, "dataset", None), *getattr(dataset, "datasets", ())):
        if part is not None:
            yield from image_datasets(part)


def begin_epoch(dataset: Any, samples: int) -> None:
    """Tells each image dataset how many of an epoch's samples it will be asked for.

    Args:
        dataset: the loader's.
        samples: that the loader will ask for.
    """
    shares: Counter[int] = Counter()
    for part, share in _shares(dataset, samples):
        shares[id(part)] += round(share)
    for part in _distinct(dataset):
        part.begin_epoch(shares[id(part)])


def end_epoch(dataset: Any) -> None:
    """Tells each image dataset that the epoch is over."""
    for part in _distinct(dataset):
        part.end_epoch()


def bad_files_of(dataset: Any) -> BadFileCounts:
    """The counts of all image datasets together."""
    return sum((part.bad_files for part in _distinct(dataset)), BadFileCounts(0, 0, 0))


def _distinct(dataset: Any) -> list[ImageDataset]:
    return list({id(part): part for part in image_datasets(dataset)}.values())


def _shares(dataset: Any, samples: float) -> Iterator[tuple[ImageDataset, float]]:
    if isinstance(dataset, ImageDataset):
        yield dataset, samples
    elif (inner := getattr(dataset, "dataset", None)) is not None:
        yield from _shares(inner, samples)
    else:
        for part in getattr(dataset, "datasets", ()):
            yield from _shares(part, samples * len(part) / max(len(dataset), 1))
