"""The dataset that `doctor` examines, and the settings of the training's loader."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from multiprocessing.context import BaseContext
from typing import Any

from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import IterableDataset, default_collate, default_convert

from fastpipe.datasets import ImageDataset, ImageList, collate_fn
from fastpipe.datasets.arrays import Arrays
from fastpipe.errors import DatasetError
from fastpipe.executor import BatchSpec
from fastpipe.index.open import named_images
from fastpipe.loading import DataLoader
from fastpipe.loading.collate import BatchCollate, Collate, users_collate
from fastpipe.loading.threads import gil_bound_step
from fastpipe.tools import recipes
from fastpipe.types import Transform


def open_dataset(path: str | os.PathLike[str], transform: Transform | None) -> ImageDataset:
    """Opens a dataset of the images that a path names; raises DatasetError if there are none."""
    index = named_images(path).index
    return ImageList(index, transform, root=index.root or None)


@dataclass(frozen=True)
class LoaderSetup:
    """A dataset and the settings of its batches."""

    name: str  # its name in the report
    loader: TorchDataLoader[Any]  # the loader whose settings all probes use
    batch_size: int  # the training's batch size
    workers: int | None  # the training's number of workers; None if not given

    @property
    def dataset(self) -> Any:
        return self.loader.dataset

    @property
    def planned(self) -> ImageDataset | None:
        """The dataset if it is fastpipe's and plans its decoding; else None."""
        return self.dataset if isinstance(self.dataset, ImageDataset) and self.dataset.plans else None

    @property
    def prefetch(self) -> int:
        """The number of batches that each worker prefetches."""
        return self.loader.prefetch_factor or 2

    @property
    def collate(self) -> Collate:
        return self.loader.collate_fn

    @property
    def options(self) -> BatchSpec | None:
        """The options for whole batches of the dataset; None if it is asked for lists of samples."""
        collate = self.loader.collate_fn
        asked = isinstance(collate, BatchCollate) and collate.collate is default_collate
        return collate.options if asked and isinstance(collate, BatchCollate) else None

    @property
    def context(self) -> BaseContext | str | None:
        """The start method of worker processes; None for the system's default."""
        context: BaseContext | str | None = self.loader.multiprocessing_context
        return context

    def loader_for(
        self, sampler: Iterable[int], batch_size: int, workers: int, threads: int | None = None
    ) -> TorchDataLoader[Any]:
        """Makes a loader like this one, with another sampler, batch size and number of workers.

        If a number of threads is given, it is a `fastpipe.DataLoader`, whose threads make the batches.
        """
        given = self.loader
        shared: dict[str, Any] = {"sampler": sampler, "pin_memory": given.pin_memory}
        if workers or threads:
            shared["prefetch_factor"] = self.prefetch
        if workers or threads is None:
            shared |= {"num_workers": workers, "worker_init_fn": given.worker_init_fn}
        if workers:
            shared["multiprocessing_context"] = self.context
        if isinstance(given, DataLoader):
            shared |= {name: getattr(given, name) for name in ("device", "dtype", "memory_format", "threads")}
        elif threads is None:
            return TorchDataLoader(self.dataset, batch_size, collate_fn=given.collate_fn, **shared)
        if threads is not None:
            shared["threads"] = threads
        return DataLoader(self.dataset, batch_size, collate_fn=self._own_collate, **shared)

    @property
    def in_python(self) -> str:
        """Names the part that keeps threads from making batches ahead; empty if none does."""
        return gil_bound_step(self.dataset, self.loader.collate_fn)

    @property
    def _own_collate(self) -> Any:
        """The user's collate function; None if the loader has torch's or fastpipe's default."""
        collate = users_collate(self.loader.collate_fn)
        return None if collate is default_convert else collate


def setup_of(given: object, transform: Transform | None, batch_size: int | None, workers: int | None) -> LoaderSetup:
    """Makes the setup of a path with a transform, of a map-style dataset, or of a loader.

    Raises:
        DatasetError: `given` is none of these, or has no samples.
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
    if isinstance(dataset, Arrays):
        raise DatasetError(f"doctor looks at the way of images, and {type(dataset).__name__} holds arrays.")
    if isinstance(dataset, IterableDataset):
        raise DatasetError(
            f"doctor got a {type(dataset).__name__}, which is an IterableDataset: it takes samples by index, so give "
            "it a map-style dataset, a loader of one, or a folder. Mind that each worker runs through all of an "
            "iterable dataset unless it asks torch.utils.data.get_worker_info() for its share."
        )
    if not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        raise DatasetError(
            f"subject={dataset!r:.80}: doctor takes a folder, a list of files, a dataset or a loader, "
            f"not a {type(dataset).__name__}."
        )
    if len(dataset) == 0:
        raise DatasetError(f"the {type(dataset).__name__} has 0 samples: give doctor at least one.")
    if loader is None:  # samples with boxes and masks may not be stackable
        loader = DataLoader(dataset, batch_size, collate_fn=collate_fn if recipes.is_joint(dataset) else None)
    return LoaderSetup(name, loader, batch_size, workers)
