"""The loader's fetcher asks for batches as the loader wants them; torch's own knows only ``__getitems__(indices)``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastpipe.datasets import ImageDataset
from fastpipe.datasets.bad_files import NothingLeftError
from fastpipe.datasets.wrappers import is_transparent, locate, unwrap_subsets
from fastpipe.executor import BatchSpec, SharedEpoch


@dataclass(slots=True)
class BatchFetcher:
    """A dataset as torch's fetcher sees it."""

    dataset: Any  # the loader's
    options: BatchSpec  # what is wanted of a batch

    def __getitem__(self, index: object) -> Any:
        with in_epochs(self.options.epochs):
            return self.dataset[index]

    def __getitems__(self, indices: Sequence[object]) -> object:
        """A batch in one piece where an image dataset alone says what it is, else a list of samples."""
        with in_epochs(self.options.epochs):
            return batch_of(self.dataset, indices, self.options)


@contextlib.contextmanager
def in_epochs(epochs: Mapping[SharedEpoch, int]) -> Iterator[None]:
    """Has datasets be at these epochs within the block, also for wrappers that know nothing of a batch's options."""
    with contextlib.ExitStack() as stack:
        for count, epoch in epochs.items():
            stack.enter_context(count.at(epoch))
        yield


def batch_of(dataset: Any, indices: Sequence[Any], options: BatchSpec) -> object:
    """A batch of any dataset, or a list of its samples; see `BatchFetcher.__getitems__`."""
    dataset, indices = unwrap_subsets(dataset, indices, options.epochs, is_transparent)
    if gives_batches(dataset):
        return dataset.batch(indices, options)
    several = getattr(dataset, "__getitems__", None)
    if not callable(several):
        return [sample_of(dataset, index, options) for index in indices]
    try:
        return several(indices)
    except NothingLeftError:  # a wrapper has asked for a list
        return []


def sample_of(dataset: Any, index: Any, options: BatchSpec) -> object:
    """``dataset[index]``, in the epoch of the options where nothing but torch's own wrappers is in between."""
    if hasattr(index, "__index__"):
        dataset, index = locate(dataset, index, options.epochs, is_transparent)
    own = getattr(type(dataset), "__getitem__", None) is ImageDataset.__getitem__
    if own and dataset._fastpipe.epoch in options.epochs:
        return dataset.one(index, options.epochs[dataset._fastpipe.epoch])
    return dataset[index]


def gives_batches(dataset: object) -> bool:
    """Whether a dataset of fastpipe's makes the loader's batches, and nobody in between wants a list."""
    dataset, _ = unwrap_subsets(dataset, through=is_transparent)
    return (
        getattr(type(dataset), "gives_batches", False) is True
        or getattr(type(dataset), "__getitems__", None) is ImageDataset.__getitems__
    )
