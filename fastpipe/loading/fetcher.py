"""Passes the loader's options to the dataset; torch's fetcher only calls ``__getitems__(indices)``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch.utils.data import Dataset

from fastpipe.datasets import ImageDataset
from fastpipe.datasets.bad_files import NothingLeftError
from fastpipe.datasets.wrappers import is_transparent, locate, unwrap_subsets
from fastpipe.executor import BatchSpec, SharedEpoch

Index: TypeAlias = Any
"""An index from a sampler: an integer, or whatever else a dataset of the user's takes."""


@dataclass(slots=True)
class BatchFetcher:
    """Wraps a dataset for torch's fetcher."""

    dataset: Dataset[object]  # the loader's dataset
    options: BatchSpec  # options for each batch

    def __getitem__(self, index: Index) -> object:
        with in_epochs(self.options.epochs):
            return self.dataset[index]

    def __getitems__(self, indices: Sequence[Index]) -> object:
        """A finished batch if the samples are those of an image dataset alone, else a list of samples."""
        with in_epochs(self.options.epochs):
            return batch_of(self.dataset, indices, self.options)


@contextlib.contextmanager
def in_epochs(epochs: Mapping[SharedEpoch, int]) -> Iterator[None]:
    """Sets the datasets' epochs within the block, so that they also hold for datasets called by a user's wrapper."""
    with contextlib.ExitStack() as stack:
        for count, epoch in epochs.items():
            stack.enter_context(count.at(epoch))
        yield


def batch_of(dataset: Any, indices: Sequence[Index], options: BatchSpec) -> object:
    """Makes a batch of any dataset, or a list of its samples; see `BatchFetcher.__getitems__`."""
    dataset, indices = unwrap_subsets(dataset, indices, options.epochs, is_transparent)
    if gives_batches(dataset):
        return dataset.batch(indices, options)
    several = getattr(dataset, "__getitems__", None)
    if not callable(several):
        return [sample_of(dataset, index, options) for index in indices]
    try:
        return several(indices)
    except NothingLeftError:  # raised in a wrapper's call of __getitems__
        return []


def sample_of(dataset: Any, index: Index, options: BatchSpec) -> object:
    """``dataset[index]``, in the options' epoch if only torch's own wrappers are around the dataset."""
    if hasattr(index, "__index__"):
        dataset, index = locate(dataset, index, options.epochs, is_transparent)
    own = issubclass(type(dataset), ImageDataset) and not dataset._fastpipe_has_own_getitem()
    if own and dataset._fastpipe.epoch in options.epochs:
        return dataset.one(index, options.epochs[dataset._fastpipe.epoch])
    return dataset[index]


def gives_batches(dataset: object) -> bool:
    """True if a dataset of fastpipe's makes the loader's batches, and no wrapper around it needs a list."""
    dataset, _ = unwrap_subsets(dataset, through=is_transparent)
    return (
        getattr(type(dataset), "gives_batches", False) is True
        or getattr(type(dataset), "__getitems__", None) is ImageDataset.__getitems__
    )
