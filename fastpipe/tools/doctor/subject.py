"""What is examined: a folder, a list of files, a dataset or a loader, made one thing that the probes can use."""

from __future__ import annotations

import bisect
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import ConcatDataset, IterableDataset, Subset, default_collate
from torch.utils.data import DataLoader as TorchDataLoader

from fastpipe.datasets import ImageFolder, ImageList
from fastpipe.datasets.base import ImageDataset
from fastpipe.datasets.listing import IMG_EXTENSIONS, has_file_allowed_extension
from fastpipe.errors import DatasetError
from fastpipe.loading import DataLoader
from fastpipe.loading.collate import BatchCollate
from fastpipe.pipeline import BatchOptions

__all__ = ["Subject", "open_dataset", "path_of", "subject_of"]

_PATH_LISTS = ("samples", "imgs", "paths", "files", "image_paths", "img_paths", "filenames")


@dataclass(frozen=True)
class Subject:
    """A dataset and how its batches are made.

    Attributes:
        name: for the report.
        loader: its settings are those that every probe uses.
        batch_size: of the training.
        workers: of the training; None where nobody said.
    """

    name: str
    loader: TorchDataLoader[Any]
    batch_size: int
    workers: int | None

    @property
    def dataset(self) -> Any:
        return self.loader.dataset

    @property
    def planned(self) -> ImageDataset | None:
        """The dataset of fastpipe's that decodes by plan; None where it is another kind of dataset."""
        return self.dataset if isinstance(self.dataset, ImageDataset) and self.dataset.plans else None

    @property
    def prefetch(self) -> int:
        """Batches that each worker makes ahead."""
        return self.loader.prefetch_factor or 2

    @property
    def collate(self) -> Callable[[Any], Any]:
        return self.loader.collate_fn

    @property
    def options(self) -> BatchOptions | None:
        """What is asked of the dataset where whole batches are."""
        collate = self.loader.collate_fn
        asked = isinstance(collate, BatchCollate) and collate.collate is default_collate
        return collate.options if asked and isinstance(collate, BatchCollate) else None

    @property
    def context(self) -> Any:
        """How worker processes are started; None for the system's way."""
        return self.loader.multiprocessing_context

    def loader_for(self, sampler: Iterable[int], batch_size: int, workers: int) -> TorchDataLoader[Any]:
        """A loader of the same making with another sampler, batch size and number of workers."""
        given = self.loader
        shared: dict[str, Any] = {
            "sampler": sampler,
            "num_workers": workers,
            "worker_init_fn": given.worker_init_fn,
            "pin_memory": given.pin_memory,
        }
        if workers:
            shared |= {"prefetch_factor": self.prefetch, "multiprocessing_context": self.context}
        if not isinstance(given, DataLoader):
            return TorchDataLoader(self.dataset, batch_size, collate_fn=given.collate_fn, **shared)
        collate: Any = given.collate_fn
        if isinstance(collate, BatchCollate):  # the loader makes it anew
            collate = None if collate.collate is default_collate else collate.collate
        own = {name: getattr(given, name) for name in ("device", "dtype", "memory_format", "threads")}
        return DataLoader(self.dataset, batch_size, collate_fn=collate, **own, **shared)


def subject_of(given: Any, transform: Any, batch_size: int | None, workers: int | None) -> Subject:
    """What was given, as a subject.

    Args:
        given: a path, a map-style dataset or a loader.
        transform: for a path.
        batch_size: None for the loader's, or 256.
        workers: None for the loader's, or nobody's.

    Raises:
        DatasetError: none of these, or nothing in it.
    """
    if isinstance(given, TorchDataLoader):
        name, loader = f"a {type(given).__name__} of {type(given.dataset).__name__}", given
        size = given.batch_size or getattr(given.batch_sampler, "batch_size", None)
        if size is None and batch_size is None:
            raise DatasetError("doctor got a loader without a batch size: give batch_size.")
        batch_size = batch_size or size
        workers = given.num_workers if workers is None else workers
        dataset: Any = given.dataset
    else:
        dataset = open_dataset(given, transform) if isinstance(given, (str, os.PathLike)) else given
        name = str(given) if dataset is not given else f"a {type(dataset).__name__}"
        loader = None
    batch_size = 256 if batch_size is None else batch_size
    if isinstance(dataset, IterableDataset):
        raise DatasetError(
            f"doctor got a {type(dataset).__name__}, which is an IterableDataset: it takes samples by index, so give "
            "it a map-style dataset, a loader of one, or a folder. Mind that each worker runs through all of an "
            "iterable dataset unless it asks torch.utils.data.get_worker_info() for its share."
        )
    if not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        raise DatasetError(
            f"doctor takes a folder, a list of files, a dataset or a loader, not a {type(dataset).__name__}."
        )
    if len(dataset) == 0 or batch_size < 1 or (workers is not None and workers < 0):
        raise DatasetError(
            f"doctor got {len(dataset)} samples, batch_size={batch_size}, workers={workers}: give it at least one "
            "sample, a batch size of at least 1 and no negative number of workers."
        )
    return Subject(name, DataLoader(dataset, batch_size) if loader is None else loader, batch_size, workers)


def open_dataset(path: str | os.PathLike[str], transform: Any) -> ImageDataset:
    """The dataset of a path: a folder of class folders, a folder of images, one image, or a list of files.

    Raises:
        DatasetError: there is no such path, or no image in it.
    """
    place = Path(path).expanduser()
    if not place.exists():
        raise DatasetError(f"there is no {place}: name a folder of images, an image, or a list of them.")
    if place.is_file():
        if has_file_allowed_extension(place.name, IMG_EXTENSIONS):
            return ImageList(([str(place)], [0]), transform)
        return ImageList(str(place), transform)
    try:
        folder = ImageFolder(place, transform, allow_empty=True)
        if len(folder):
            return folder
    except FileNotFoundError:  # no class folders
        pass
    names = sorted(name for name in os.listdir(place) if has_file_allowed_extension(name, IMG_EXTENSIONS))
    if not names:
        raise DatasetError(f"{place} holds no image, nor folders of images: name one that does.")
    return ImageList(([str(place / name) for name in names], [0] * len(names)), transform)


def path_of(dataset: Any, index: int) -> str | None:
    """The file of a sample; None for a dataset that doesn't show it."""
    if isinstance(dataset, Subset):
        return path_of(dataset.dataset, dataset.indices[index])
    if isinstance(dataset, ConcatDataset):
        part = bisect.bisect_right(dataset.cumulative_sizes, index)
        return path_of(dataset.datasets[part], index - (dataset.cumulative_sizes[part - 1] if part else 0))
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
