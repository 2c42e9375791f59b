"""Opens the tools' inputs: a folder, files, a list, a dataset or a loader."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import IterableDataset, default_collate, default_convert

from fastpipe.datasets import ImageDataset, ImageFolder, ImageIndex, ImageList, collate_fn
from fastpipe.datasets.arrays import Arrays
from fastpipe.errors import DatasetError
from fastpipe.executor import BatchSpec
from fastpipe.index.extensions import IMG_EXTENSIONS
from fastpipe.index.folder_source import is_folder
from fastpipe.index.index_source import DEFAULT_OPTIONS, BuildOptions
from fastpipe.index.open import OTHER_EXTENSIONS, named_container, named_images
from fastpipe.index.statistics import files_left_out
from fastpipe.loading import DataLoader
from fastpipe.loading.collate import DRAW_NOTHING, BatchCollate, CollateGood
from fastpipe.loading.threads import gil_bound_part_within
from fastpipe.paths import local_path
from fastpipe.tools import recipes

Transform: TypeAlias = Callable[[Any], object]

_OTHER_ENDINGS = (
    *(".apng", ".avif", ".gif", ".heic", ".heif", ".ico", ".jfif", ".jp2", ".jpe", ".jxl", ".pbm", ".pnm", ".psd"),
    *(".svg", ".tga", ".arw", ".cr2", ".cr3", ".dng", ".nef", ".orf", ".raw", ".rw2"),
)
"""Endings of images that `ImageFolder` doesn't list; reported, so that a folder of them doesn't pass as empty."""


def choose_files(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], count: int, seed: int = 0
) -> list[str]:
    """Returns up to ``count`` image files: the given ones, or some from all over a folder.

    A folder's files are taken from its subfolders in turn, in an order fixed by the seed. Only the folders needed are
    listed, so a folder of millions of files takes no longer than a small one. A file given by name may have any
    extension.

    Raises:
        DatasetError: a path doesn't exist, or no image is found.
    """
    given = list(files) if isinstance(files, Iterable) and not isinstance(files, (str, os.PathLike)) else [files]
    paths = [Path(local_path(path)) for path in given]
    rng = random.Random(seed)
    if len(paths) == 1 and (container := named_container(given[0])) is not None:
        index = container.index
        return index.paths(np.array(sorted(rng.sample(range(len(index)), min(count, len(index)))), np.int64))
    # An empty path would mean the current folder; for a too long path, os.path.exists returns False.
    missing = next((one for one, path in zip(given, paths, strict=True) if not one or not os.path.exists(path)), None)
    if missing is not None:
        shown = os.fspath(missing) or "path in ''"
        raise DatasetError(f"there is no {shown:.200}; name a folder of images, or an image")
    if paths and all(path.is_file() for path in paths):
        chosen = [str(path) for path in paths]
        return chosen if len(chosen) <= count else [chosen[i] for i in sorted(rng.sample(range(len(chosen)), count))]
    sources = [iter([str(path)]) if path.is_file() else _images_below(str(path), rng, set()) for path in paths]
    found = list(itertools.islice(_in_turn(sources), count))
    if not found:
        names = ", ".join(map(str, paths[:3])) or "no path"
        raise DatasetError(
            f"{names}: no image is found there; images are told by their extension, such as .jpg or .png"
        )
    return found


def dataset_of(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    transform: Transform | None,
    count: int,
    seed: int = 0,
) -> ImageList:
    """An `ImageList` of the files that `choose_files` returns; each file's label is its folder's name."""
    chosen = choose_files(files, count, seed)
    return ImageList((chosen, [Path(path).parent.name for path in chosen]), transform)


def _images_below(folder: str, rng: random.Random, seen: set[str]) -> Iterator[str]:
    real = os.path.realpath(folder)
    if real in seen:  # a link that leads back to a visited folder
        return
    seen.add(real)
    try:
        with os.scandir(folder) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
    except OSError:  # no permission, or a loop of links
        return
    rng.shuffle(listed)
    images, folders = [], []
    for entry in listed:
        if entry.name.startswith("."):
            continue
        if is_folder(entry):
            folders.append(entry.path)
        elif entry.name.lower().endswith((*IMG_EXTENSIONS, *OTHER_EXTENSIONS)):
            images.append(entry.path)
    yield from _in_turn([iter(images), *(_images_below(below, rng, seen) for below in folders)])


def _in_turn(sources: list[Iterator[str]]) -> Iterator[str]:
    """Yields one item of each source in turn, until all are exhausted."""
    for some in itertools.zip_longest(*sources):
        yield from (path for path in some if path is not None)


def open_dataset(path: str | os.PathLike[str], transform: Transform | None) -> ImageDataset:
    """Opens a dataset of the images that a path names; raises DatasetError if there are none."""
    index = named_images(path).index
    return ImageList(index, transform, root=index.root or None)


def index_of(source: object, options: BuildOptions = DEFAULT_OPTIONS) -> ImageIndex:
    """Returns the index of the images that a path names, an `ImageIndex` has, or a dataset has.

    Raises:
        DatasetError: none of these, or there is no image.
    """
    if isinstance(source, ImageIndex):
        return source
    if isinstance(source, Arrays):
        raise DatasetError(f"check examines images, and {type(source).__name__} holds arrays.")
    if isinstance(source, (ImageFolder, ImageList)):
        index = source._fastpipe_index
        if index is not None:
            return index
        return ImageList(([path for path, _ in source.samples], [0] * len(source))).index
    if not isinstance(source, (str, os.PathLike)):
        raise DatasetError(
            f"check takes a folder, a list, an image file, an ImageIndex or a dataset; not {type(source).__name__}."
        )
    return named_images(source, options).index


def other_images(index: ImageIndex) -> dict[str, int]:
    """For each image ending that datasets don't read, the number of such files in local class folders."""
    if index.table.folders is None or index.source is not None:
        return {}
    return {ending: count for ending, count in files_left_out(index).items() if ending in _OTHER_ENDINGS}


@dataclass(frozen=True)
class Subject:
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
    def collate(self) -> Callable[[Any], object]:
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
        return gil_bound_part_within(self.dataset) or (
            "" if self._own_collate in (None, *DRAW_NOTHING) else "the collate_fn"
        )

    @property
    def _own_collate(self) -> Any:
        """The user's collate function; None if the loader has torch's or fastpipe's default."""
        collate = self.loader.collate_fn
        while isinstance(collate, (BatchCollate, CollateGood)):
            collate = collate.collate
        return None if collate in (default_collate, default_convert) else collate


def subject_of(given: object, transform: Transform | None, batch_size: int | None, workers: int | None) -> Subject:
    """Makes a subject of a path with a transform, of a map-style dataset, or of a loader.

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
            f"doctor takes a folder, a list of files, a dataset or a loader, not a {type(dataset).__name__}."
        )
    if len(dataset) == 0 or batch_size < 1 or (workers is not None and workers < 0):
        raise DatasetError(
            f"doctor got {len(dataset)} samples, batch_size={batch_size}, workers={workers}: give it at least one "
            "sample, a batch size of at least 1 and no negative number of workers."
        )
    if loader is None:  # samples with boxes and masks may not be stackable
        loader = DataLoader(dataset, batch_size, collate_fn=collate_fn if recipes.is_joint(dataset) else None)
    return Subject(name, loader, batch_size, workers)
