"""Passes the loader's options to the dataset; torch's fetcher only calls ``__getitems__(indices)``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from torch.utils.data import Dataset

from fastpipe.datasets import ImageDataset
from fastpipe.datasets.bad_files import NothingLeftError
from fastpipe.datasets.wrappers import is_transparent, unwrap_subsets
from fastpipe.executor import BatchSpec, SharedEpoch, in_epochs

Index: TypeAlias = Any
"""An index from a sampler: an integer, or whatever else a dataset of the user's takes."""


@dataclass(slots=True)
class BatchFetcher:
    """Wraps a dataset for torch's fetcher."""

    dataset: Dataset[object]  # the loader's dataset
    options: BatchSpec  # options for each batch
    epochs: Mapping[SharedEpoch, int] = field(default_factory=dict)  # the datasets' epochs; of others, the current ones

    def __getitem__(self, index: Index) -> object:
        with in_epochs(self.epochs):
            return self.dataset[index]

    def __getitems__(self, indices: Sequence[Index]) -> object:
        """A finished batch if the samples are those of an image dataset alone, else a list of samples."""
        with in_epochs(self.epochs):
            return batch_of(self.dataset, indices, self.options)


def batch_of(dataset: Any, indices: Sequence[Index], options: BatchSpec) -> object:
    """Makes a batch of any dataset, or a list of its samples; see `BatchFetcher.__getitems__`."""
    dataset, indices = unwrap_subsets(dataset, indices, is_transparent)
    if gives_batches(dataset):
        return dataset.batch(indices, options)
    several = getattr(dataset, "__getitems__", None)
    if not callable(several):
        return [dataset[index] for index in indices]
    try:
        return several(indices)
    except NothingLeftError:  # raised in a wrapper's call of __getitems__
        return []


def gives_batches(dataset: object) -> bool:
    """True if a dataset of fastpipe's makes the loader's batches, and no wrapper around it needs a list."""
    dataset, _ = unwrap_subsets(dataset, through=is_transparent)
    return (
        getattr(type(dataset), "gives_batches", False) is True
        or getattr(type(dataset), "__getitems__", None) is ImageDataset.__getitems__
    )
