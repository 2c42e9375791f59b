"""The loader's part in bad files: batches without the samples that were left out, and an epoch's counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastpipe.datasets import BadFileCounts
from fastpipe.datasets.wrappers import image_datasets, shares


@dataclass(frozen=True, slots=True)
class EmptyBatch:
    """Sent by a worker in place of a batch whose samples were all left out; the loader goes on to the next."""


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


def begin_epoch(dataset: Any, samples: int) -> None:
    """Tells each image dataset of a loader's how many of an epoch's samples it will be asked for."""
    expected: Counter[int] = Counter()
    for part, share in shares(dataset, samples):
        expected[id(part)] += round(share)
    for part in image_datasets(dataset):
        part.begin_epoch(expected[id(part)])


def end_epoch(dataset: Any) -> None:
    """Tells each image dataset that the epoch is over."""
    for part in image_datasets(dataset):
        part.end_epoch()


def bad_files_of(dataset: Any) -> BadFileCounts:
    """The counts of all image datasets together."""
    return sum((part.bad_files for part in image_datasets(dataset)), BadFileCounts(0, 0, 0))
