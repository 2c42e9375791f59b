"""`GrowingDataset`: a dataset in a store, larger than the disk; an epoch has the samples that have arrived."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import math
import multiprocessing
import operator
import os
import time
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import overload

import filelock
import numpy as np
from numpy.typing import DTypeLike

from fastpipe.arguments import seed_number, whole_number
from fastpipe.counts import pluralize
from fastpipe.datasets import IMG_EXTENSIONS, ImageDataset, ImageFolder, ImageIndex
from fastpipe.datasets.bad_files import warn_again
from fastpipe.datasets.indexed import IndexedDataset
from fastpipe.datasets.wrappers import EpochContent, EpochSubset
from fastpipe.errors import DatasetError, StoreError
from fastpipe.forks import garbage_left_to_parent
from fastpipe.growing.prefetch_process import run_prefetcher
from fastpipe.growing.state import FetchProgress, GrowingState, Window
from fastpipe.index.lazy_sequences import Targets
from fastpipe.index.table import Array
from fastpipe.loading.permutation import Permutation
from fastpipe.sources import Cache, CachedSource

__all__ = ["GrowingDataset", "GrowingStatistics"]

_POLL_S = 0.05
_STALL_S = 60.0
_ATTEMPTS = 6


@dataclass(frozen=True)
class GrowingStatistics:
    """The size, arrivals and speed of a growing set.

    Attributes:
        epoch: the current epoch.
        samples: the number of its samples.
        new: how many of them weren't in the epoch decided before.
        arrived: samples that have arrived since the set was begun, over all runs.
        missing: samples that couldn't be read, among those that the next epoch may have.
        evicted: samples that were removed from the set to make room.
        fetched_bytes: read from the store.
        mb_per_s: MB read for each second of fetching.
        still_s: seconds since the last arrival, if more samples are due; 0 if none are.
    """

    epoch: int
    samples: int
    new: int
    arrived: int
    missing: int
    evicted: int
    fetched_bytes: int
    mb_per_s: float
    still_s: float


class GrowingDataset(EpochSubset):
    """The part of a dataset that has arrived from its store; it grows while a model trains on it.

    An epoch has the samples that have arrived by its beginning; the first epoch waits for `start` samples. Meanwhile a
    separate process fetches more into the cache, in an order fixed by the seed, up to `growth` times as many as the
    epoch has. When the cache is full, the samples that arrived first are removed: an epoch then has ``1 / growth`` of
    the samples that the cache has room for, and the next samples arrive in the rest. After the source's last sample,
    the order starts again at its front.

    The length and the content of an epoch are fixed at the first request, and kept in the cache's folder: all ranks and
    workers on a machine see the same, and so does a resumed run. (Ranks on several machines would have epochs of
    different lengths, as each machine has its own cache.) A loader's state holds the content of its epoch, so that a
    run can be resumed on a machine without that cache. `set_epoch`, the samplers, `fastpipe.DataLoader` and its
    `state_dict` work as with any dataset; random numbers depend on (seed, epoch, index in the source).

    The source is listed once, when it is made. `rescan` lists it again, to add files that have come into the store.

    If the store is slow or fails, training continues with the samples that have arrived, and a warning says for how
    long nothing has arrived. Samples that can't be read, although others can, are left out.

    Args:
        source: a dataset whose files are in a store: an `ImageFolder`, `ImageList`, `ArrayList`, ….
        cache: where samples are kept, on a local disk; None for the cache that the source was made with.
        start: the number of samples that the first epoch waits for; all, if the source has fewer.
        growth: the largest ratio of the next epoch's number of samples to this epoch's, more than 1.
        seed: fixes the order in which samples arrive; also the random numbers, if the source has no seed.

    Attributes:
        dataset: the source, read through the cache.
        indices: the positions in the source that the current epoch has.

    Raises:
        DatasetError: the source isn't in a store, there is no cache, or a number is out of its range; from ``len`` or
            an iteration: the cache is too small for `start` samples and those of the next epoch.
        StoreError: from ``len`` or an iteration: no sample arrives for the first epoch.
    """

    def __init__(
        self,
        source: ImageDataset,
        cache: Cache | None = None,
        start: int = 50_000,
        growth: float = 1.5,
        seed: int = 0,
    ) -> None:
        takes = "the number of samples that the first epoch waits for"
        start = whole_number("start", start, takes, least=1, error=DatasetError)
        if not (isinstance(growth, (int, float)) and 1 < growth < math.inf):
            raise DatasetError(
                f"growth={growth!r:.80}: give a number above 1; with 1.5 each epoch may be half as large again."
            )
        seed = seed_number(seed, error=DatasetError)
        self.dataset: IndexedDataset
        self.dataset, index, self.cache = _with_cache(source, cache, seed)
        if not len(index):
            raise DatasetError(f"there is no sample in {index.root}.")
        self.start, self.growth, self.seed = start, growth, seed
        self._state = GrowingState(self.cache, _name(index, seed), len(index), start, growth)
        self._order = Permutation(len(index), (seed, 0x67726F77))
        self._warned_of_return = False
        self._process: BaseProcess | None = None
        self._begun = time.time()
        self._source = source
        self._fetch()

    def __len__(self) -> int:
        """The number of samples in the current epoch; fixes its content."""
        return self.length_at(self.dataset.epoch)

    def length_at(self, epoch: int) -> int:
        """The number of samples in an epoch; fixes its content if it isn't fixed yet."""
        return len(self._window(epoch))

    def set_epoch(self, epoch: int) -> None:
        """Sets the current epoch; `fastpipe.DataLoader` calls it."""
        self.dataset.set_epoch(epoch)

    @property
    def indices(self) -> Sequence[int]:
        """The positions in the source of the current epoch's samples, computed on demand."""
        return _Indices(self)

    @indices.setter
    def indices(self, value: object) -> None:
        raise AttributeError("the indices of an epoch can't be set: an epoch has what has arrived by its beginning")

    def inner(self, places: Sequence[int]) -> list[int]:
        """Converts places in the current epoch, 0 ≤ place < length, to positions in the source."""
        window = self._window(self.dataset.epoch)
        self._state.begin(window)
        asked = np.asarray(places, np.int64)
        outside = asked[(asked < 0) | (asked >= len(window))]
        if len(outside):
            raise IndexError(f"place {outside[0]} is out of range: the epoch has {pluralize(len(window), 'sample')}")
        found: list[int] = self._order.at(window.at(asked) % len(self._order)).tolist()
        return found

    def describe_epoch(self, epoch: int) -> EpochContent:
        """The content of an epoch, for a loader's state: a part of the order in which samples arrive."""
        window = self._window(epoch)
        return {"epoch": epoch, "first": window.first, "stop": window.stop, "missing": [*window.missing]}

    def adopt_epoch(self, content: EpochContent) -> str:
        """Sets an epoch's content to a saved one, unless it is fixed here already; returns the difference then."""
        had = Window(content["first"], content["stop"], tuple(content["missing"]))
        has = self._state.adopt(content["epoch"], had)
        if has.same_samples(had):
            return ""
        return (
            f"its epoch {content['epoch']} has the samples that arrived as numbers {has.first:,} to {has.stop - 1:,}, "
            f"{len(has):,} of them, and had {had.first:,} to {had.stop - 1:,}, {len(had):,} of them"
        )

    def statistics(self) -> GrowingStatistics:
        """Counts the samples of the current epoch, and those that have arrived, are missing or have left."""
        epoch = self.dataset.epoch
        window = self._window(epoch)
        progress = self._state.progress()
        return GrowingStatistics(
            epoch,
            len(window),
            window.new,
            progress.stop,
            len(progress.missing),
            self._state.latest().first,
            progress.bytes,
            progress.bytes / 1e6 / max(progress.seconds, 1e-9),
            self._still_s(progress),
        )

    def forget(self) -> None:
        """Forgets the content of all epochs, for a new run, whose first epoch has all samples that are there now.

        Without it, a second run over the same cache has the same epochs as the first run.
        """
        self._state.forget()

    def rescan(self) -> GrowingDataset:
        """Lists the source's folder again, and returns a growing set that includes files added to the store since.

        Call it between epochs, in the main process, and make a new loader for the result. Files in the cache aren't
        fetched again, so the next epoch begins with them, in a new order, as the seed orders all files. Files that the
        store no longer has are dropped.

        Returns:
            This set if nothing has changed; else a new set at the same epoch, and this one stops fetching.

        Raises:
            DatasetError: the source is no folder, or a class was added or removed, which would change the targets.
            StoreError: the store doesn't answer.
        """
        source = self._source
        if not isinstance(source, ImageFolder) or source.source is None:
            raise DatasetError(
                f"rescan lists an ImageFolder in a store again, and the source is {source!r:.100}: make it again from "
                "the longer list, and a GrowingDataset of it; files in the cache aren't fetched again."
            )
        index = ImageIndex.from_folder(source.source, location=None, extensions=source.extensions or IMG_EXTENSIONS)
        if list(index.classes) != source.classes:
            changed = sorted({*index.classes} ^ {*source.classes})
            raise DatasetError(
                f"the classes of {source.root} have changed ({', '.join(changed)}), and targets are their positions: "
                "make the ImageFolder and the GrowingDataset again; files in the cache aren't fetched again."
            )
        if self.dataset.index is not None and np.array_equal(index.table.paths, self.dataset.index.table.paths):
            return self
        longer = _of_index(source, index)
        longer.targets = Targets(index)
        epoch = self.dataset.epoch
        self.close()
        grown = type(self)(longer, self.cache, self.start, self.growth, self.seed)
        grown.set_epoch(epoch)
        return grown

    def close(self) -> None:
        """Ends the process that fetches; the next request for an epoch without content starts it again.

        The process also ends with this process, or when the dataset is deleted.
        """
        process, self._process = self._process, None
        if process is not None:
            _end(process, os.getpid())

    def _window(self, epoch: int) -> Window:
        window = self._state.window(epoch)
        if window is None:
            self._fetch()
            window = self._decided(epoch)
        elif not self._warned_of_return and window.number < (latest := self._state.latest()).number - 1:
            # The latest window may be the next epoch's, which is prepared while this epoch runs.
            gone = min(latest.first - window.first, len(window))
            if gone > 0:
                self._warned_of_return = True
                warn_again(
                    f"epoch {epoch} is one of an earlier run, and {gone} of its samples have left the cache since: "
                    "they are read from the store again. For a new run, call forget() before its first epoch."
                )
        return window

    def _decided(self, epoch: int) -> Window:
        """Fixes the content of an epoch; waits until enough samples have arrived."""
        told = _STALL_S
        while True:
            progress = self._state.progress()
            self._check_room(progress)
            window = self._state.decide(epoch)
            still_s = self._still_s(progress)
            if window is not None:
                break
            self._check_arrivals(progress)
            if still_s > told:
                told *= 2
                self._warn(
                    still_s, progress.error, f"the first epoch waits for {pluralize(self._state.start, 'sample')}"
                )
            self._wait()
        if still_s > _STALL_S:
            self._warn(still_s, progress.error, f"training goes on with {pluralize(len(window), 'sample')}")
        return window

    def _still_s(self, progress: FetchProgress) -> float:
        """Seconds since the last arrival, if more samples are due; 0 if none are."""
        return 0.0 if progress.idle else max(0.0, time.time() - max(progress.last_arrival, self._begun))

    def _check_arrivals(self, progress: FetchProgress) -> None:
        """Raises an error if there is no sample, and none can be expected."""
        if progress.written <= self._begun or progress.stop > len(progress.missing):
            return
        if progress.room == 0:
            raise DatasetError(
                f"{self.cache} has no room for a single sample: give it a larger capacity, or make room on its disk."
            )
        if progress.failures >= _ATTEMPTS or progress.idle:
            why = progress.error or "none of its files can be read"
            raise StoreError(f"nothing arrives from {self.dataset.root}: {why}")

    def _check_room(self, progress: FetchProgress) -> None:
        """Raises a DatasetError if the cache is full and has no room for the first epoch."""
        if self._state.latest().number or not progress.room or progress.capacity != self.cache.capacity:
            return
        start = self._state.start
        possible = max(1, math.floor(progress.room / self.growth))
        if possible >= start:
            return
        each = self.cache.capacity / progress.room
        if progress.files:  # other files in the cache take room, too
            each = min(each, progress.bytes / progress.files + 4096)
        wanted = math.ceil(1.05 * each * (math.ceil(start * self.growth) + 1) / 1e6)
        raise DatasetError(
            f"start={start}: {self.cache} is full with {pluralize(progress.room, 'sample')}, and an epoch has "
            f"1/{self.growth:g} of these, {possible}. Give the cache a capacity of {wanted} MB, which holds "
            f"{self.growth:g} × {start} samples of {each / 1e3:.0f} kB, or start={possible}."
        )

    def _wait(self) -> None:
        """Sleeps while the fetching process works."""
        time.sleep(_POLL_S)
        if not self._fetch():
            raise DatasetError(
                "this process is a daemon, which can't start the one that fetches: ask for the dataset's length in the "
                "main process first."
            )

    def _warn(self, still_s: float, error: str, what: str) -> None:
        why = f" ({error})" if error else ""
        warn_again(f"nothing has arrived from {self.dataset.root} for {still_s:.0f} s{why}: {what}.")

    def _fetch(self) -> bool:
        """Starts the fetching process, unless one runs on this machine; returns False if it can't be started."""
        if self._process in multiprocessing.active_children():  # a fork has its parent's here
            return True
        lock = self._state.fetching_lock
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            return True
        lock.release()
        if multiprocessing.current_process().daemon:
            return False
        self._begun = time.time()
        self._process = multiprocessing.Process(
            target=run_prefetcher,
            args=(self.dataset.index, self._order, self._state),
            name="fastpipe-fetch",
            daemon=True,
        )
        with garbage_left_to_parent():
            self._process.start()
        weakref.finalize(self, _end, self._process, os.getpid())
        return True

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_process": None, "_source": None}

    def __repr__(self) -> str:
        return f"GrowingDataset({self.dataset.root!r}, {self.cache}, start={self.start}, growth={self.growth})"


class _Indices(Sequence[int]):
    """`GrowingDataset.indices`, computed on demand."""

    def __init__(self, dataset: GrowingDataset) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> list[int]: ...
    def __getitem__(self, place: int | slice) -> int | list[int]:
        if isinstance(place, slice):
            return self._dataset.inner(range(*place.indices(len(self))))
        number = operator.index(place)
        return self._dataset.inner([number + len(self) if number < 0 else number])[0]

    def __iter__(self) -> Iterator[int]:
        return iter(self[:])

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.array(self[:], np.int64 if dtype is None else dtype)


def _with_cache(source: object, cache: Cache | None, seed: int) -> tuple[IndexedDataset, ImageIndex, Cache]:
    """Returns a copy of a dataset that reads through a cache and has a seed; also its index, and the cache."""
    index = source._fastpipe_index if isinstance(source, IndexedDataset) else None
    if not isinstance(source, IndexedDataset) or index is None or index.source is None:
        raise DatasetError(
            f"GrowingDataset takes a dataset of fastpipe whose files are in a store, as "
            f"ImageFolder('s3://bucket/train'), not {source!r:.100}."
        )
    if cache is None and isinstance(index.source, CachedSource):
        cache = index.source.cache
    if not isinstance(cache, Cache):
        raise DatasetError(
            f"cache={cache!r:.80}: give the cache that samples are kept in, as fastpipe.Cache(FOLDER, '500 GB')."
        )
    index = index.read_through(cache.over(index.source))
    other = _of_index(source, index)
    if hasattr(other, "source"):
        other.source = index.source
    if other.seed is None:
        other.seed = seed
    return other, index, cache


def _of_index(source: IndexedDataset, index: ImageIndex) -> IndexedDataset:
    """Returns a copy of a dataset with the index's samples; keeps targets that the user assigned."""
    other = copy.copy(source)
    other._fastpipe_set_samples(index)
    if not isinstance(source.targets, Targets):
        other.targets = source.targets
    return other


def _name(index: ImageIndex, seed: int) -> str:
    """Identifies a growing set in a cache: a hash of the source's files and the order."""
    digest = hashlib.sha256(f"{index.root}\0{len(index)}\0{seed}\0".encode("utf-8", "surrogatepass"))
    digest.update(np.ascontiguousarray(index.table.paths).data)
    return digest.hexdigest()[:24]


def _end(process: BaseProcess, owner: int) -> None:
    if os.getpid() == owner:  # not when a fork deletes its copy of the dataset
        with contextlib.suppress(ValueError):  # already closed
            process.terminate()
            process.join(5)
