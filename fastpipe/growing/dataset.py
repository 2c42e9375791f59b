"""`GrowingDataset`: a data set in a store that is larger than the disk, of which each epoch has what has arrived."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import math
import multiprocessing
import operator
import os
import time
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any, cast

import filelock
import numpy as np

from fastpipe.datasets import IMG_EXTENSIONS, ImageDataset, ImageFolder, ImageIndex
from fastpipe.datasets.indexed import IndexedDataset
from fastpipe.datasets.wrappers import EpochSubset
from fastpipe.errors import DatasetError, FastpipeWarning, StoreError
from fastpipe.executor import SharedEpoch
from fastpipe.forks import garbage_left_to_parent
from fastpipe.growing.prefetch_process import run_prefetcher
from fastpipe.growing.state import FetchProgress, GrowingState, Window
from fastpipe.index.lazy_sequences import Targets
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
        epoch: the current one.
        samples: how many it has.
        new: how many of these weren't in the epoch that was decided before it.
        arrived: samples that have arrived since the set was begun, in all runs.
        missing: how many of the source's couldn't be read, among those that the next epoch may have.
        evicted: samples that have left the set, to make room.
        fetched_bytes: read from the store.
        mb_per_s: how fast, in MB a second of fetching.
        still_s: for how long nothing has arrived, though more is wanted; 0 where all is well.
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
    """The part of a data set that has arrived from its store: it grows while a model trains on it.

    An epoch has the samples that have arrived by its beginning; the first one waits for `start` of them. Meanwhile a
    process of its own fetches others into the cache, in an order that the seed decides, up to `growth` times as many as
    the epoch has. Where the cache is full, the ones that arrived first leave: then an epoch has ``1 / growth`` of what
    there is room for, and the next ones arrive in the rest. When all of the source were there, it begins anew.

    The length and the content of an epoch are fixed when it is first asked for, and kept in the cache's folder: all
    ranks and workers on a machine see the same, and so does a run that is resumed. (Ranks on several machines need a
    cache folder that they share.) A loader's state has the content of its epoch, so that a run goes on with it on a
    machine that has none of it. `set_epoch`, the samplers, `fastpipe.DataLoader` and its `state_dict` work as with any
    dataset; random numbers are keyed on (seed, epoch, index in the source).

    The source is listed once, when it is made. `rescan` lists it again, for the files that its store has got since.

    Where the store is slow, or fails, training goes on with what is there; a warning says for how long nothing has
    arrived. What can't be read although the rest can is left out.

    Args:
        source: a dataset whose files are in a store: an `ImageFolder`, `ImageList`, `ArrayList`, ….
        cache: where samples are kept, on a local disk; None for the cache that the source was made with.
        start: samples that the first epoch waits for, or all, where there are fewer.
        growth: more than 1: the next epoch's number of samples over this one's, at most.
        seed: decides the order in which samples arrive; and the random numbers, where the source has no seed.

    Attributes:
        dataset: the source, read through the cache.
        indices: the positions in the source that the current epoch has.

    Raises:
        DatasetError: the source isn't in a store, there is no cache, or a number is out of its range; of ``len``, and
            of an iteration: the cache is too small for `start` samples and those of the next epoch.
        StoreError: of ``len``, and of an iteration: nothing arrives at all to begin with.
    """

    def __init__(
        self,
        source: ImageDataset,
        cache: Cache | None = None,
        start: int = 50_000,
        growth: float = 1.5,
        seed: int = 0,
    ) -> None:
        if start < 1:
            raise DatasetError(f"start={start}: give the number of samples that the first epoch waits for, from 1.")
        if not growth > 1:
            raise DatasetError(
                f"growth={growth}: give a number above 1; with 1.5 each epoch may be half as large again."
            )
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
        """The samples of the current epoch; decides it."""
        return self.length_at(self.dataset.epoch)

    def length_at(self, epoch: int) -> int:
        """The samples of an epoch, which is decided now if it wasn't before."""
        return len(self._window(epoch))

    def set_epoch(self, epoch: int) -> None:
        """Chooses the current epoch; `fastpipe.DataLoader` does so by itself."""
        self.dataset.set_epoch(epoch)

    @property
    def indices(self) -> Sequence[int]:
        """The positions in the source that the current epoch has, worked out as they are asked for."""
        return _Indices(self)

    @indices.setter
    def indices(self, value: object) -> None:
        raise AttributeError("the indices of an epoch can't be set: an epoch has what has arrived by its beginning")

    def inner(self, places: Sequence[int], epoch: int | None = None) -> list[int]:
        """The positions in the source of places in an epoch, None for the current one, 0 ≤ place < its length."""
        window = self._window(self.dataset.epoch if epoch is None else epoch)
        self._state.begin(window)
        asked = np.asarray(places, np.int64)
        if asked.size and not (asked.min() >= 0 and asked.max() < len(window)):
            raise IndexError(f"place {asked.max()} is out of range: the epoch has {len(window)} samples")
        found: list[int] = self._order.at(window.at(asked) % len(self._order)).tolist()
        return found

    def describe_epoch(self, epoch: int) -> dict[str, object]:
        """The content of an epoch, for a state: a part of the order in which samples arrive."""
        window = self._window(epoch)
        return {"epoch": epoch, "first": window.first, "stop": window.stop, "missing": [*window.missing]}

    def adopt_epoch(self, content: Mapping[str, Any]) -> str:
        """Gives an epoch the content that it had where a state was saved, unless it is decided here."""
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
        """Has epochs decided anew, for another run: its first one begins with all that is there now.

        Without it, a second run over the same cache sees what the first one saw, epoch by epoch.
        """
        self._state.forget()

    def rescan(self) -> GrowingDataset:
        """Lists the source's folder again: a growing set that also has the files which its store has got since.

        To be called between epochs, in the main process; the loader is made anew around the result. What is in the
        cache isn't fetched again, so the next epoch begins with as much of it as there is, in another order: the seed
        orders all files. Files that the store has lost are no part of it.

        Returns:
            This set where nothing has changed; else another one, at the same epoch. This one fetches nothing any more.

        Raises:
            DatasetError: the source is no folder, or a class has come or gone: targets are the classes' positions.
            StoreError: the store doesn't answer.
        """
        source = self._source
        if not isinstance(source, ImageFolder) or source.source is None:
            raise DatasetError(
                f"rescan lists an ImageFolder in a store again, and the source is {source!r:.100}: make it anew from "
                "the longer list, and a GrowingDataset of it; what is in the cache isn't fetched again."
            )
        index = ImageIndex.from_folder(source.source, location=None, extensions=source.extensions or IMG_EXTENSIONS)
        if list(index.classes) != source.classes:
            changed = sorted({*index.classes} ^ {*source.classes})
            raise DatasetError(
                f"the classes of {source.root} have changed ({', '.join(changed)}), and targets are their positions: "
                "make the ImageFolder and the GrowingDataset anew; what is in the cache isn't fetched again."
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
        """Ends the process that fetches, until an epoch is asked for that isn't decided yet.

        It also ends with this process, and where nothing refers to the dataset any more.
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
            # The latest may be the next one, which is prepared while this one runs.
            gone = min(latest.first - window.first, len(window))
            if gone > 0:
                self._warned_of_return = True
                warnings.warn(
                    f"epoch {epoch} is one of an earlier run, and {gone} of its samples have left the cache since: "
                    "they are read from the store again. For a new run, call forget() before its first epoch.",
                    FastpipeWarning,
                    stacklevel=3,
                )
        return window

    def _decided(self, epoch: int) -> Window:
        """The content of an epoch, as soon as enough has arrived for it."""
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
                self._warn(still_s, progress.error, f"the first epoch waits for {self._state.start} samples")
            self._wait()
        if still_s > _STALL_S:
            self._warn(still_s, progress.error, f"training goes on with the {len(window)} samples that are there")
        return window

    def _still_s(self, progress: FetchProgress) -> float:
        """Seconds for which nothing has arrived, though more is wanted; 0 if nothing is."""
        return 0.0 if progress.idle else max(0.0, time.time() - max(progress.last_arrival, self._begun))

    def _check_arrivals(self, progress: FetchProgress) -> None:
        """Raises where no sample is there, and none can be expected."""
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
        """Raises a DatasetError where the cache is full before there is room for the first epoch."""
        if self._state.latest().number or not progress.room or progress.capacity != self.cache.capacity:
            return
        start = self._state.start
        possible = max(1, math.floor(progress.room / self.growth))
        if possible >= start:
            return
        each = self.cache.capacity / progress.room
        if progress.files:  # what else is in the cache takes room, too
            each = min(each, progress.bytes / progress.files + 4096)
        wanted = math.ceil(1.05 * each * (math.ceil(start * self.growth) + 1) / 1e6)
        raise DatasetError(
            f"start={start}: {self.cache} is full with {progress.room} samples, and an epoch has 1/{self.growth:g} of "
            f"these, {possible}. Give the cache a capacity of {wanted} MB, which holds {self.growth:g} × {start} "
            f"samples of {each / 1e3:.0f} kB, or start={possible}."
        )

    def _wait(self) -> None:
        """Gives the fetching process time."""
        time.sleep(_POLL_S)
        if not self._fetch():
            raise DatasetError(
                "this process is a daemon, which can't start the one that fetches: ask for the dataset's length in the "
                "main process first."
            )

    def _warn(self, still_s: float, error: str, what: str) -> None:
        why = f" ({error})" if error else ""
        warnings.warn(
            f"nothing has arrived from {self.dataset.root} for {still_s:.0f} s{why}: {what}.",
            FastpipeWarning,
            stacklevel=4,
        )

    def _fetch(self) -> bool:
        """Starts the process that fetches, unless there is one on this machine; False where it can't."""
        if self._process in multiprocessing.active_children():  # a fork's parent may have one, too
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
    """`GrowingDataset.indices`, worked out as they are asked for."""

    def __init__(self, dataset: GrowingDataset) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return self._dataset.inner(range(*place.indices(len(self))))
        number = operator.index(place)
        return self._dataset.inner([number + len(self) if number < 0 else number])[0]

    def __iter__(self) -> Iterator[int]:
        return iter(self[:])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self[:], np.int64 if dtype is None else dtype)


def _with_cache(source: object, cache: Cache | None, seed: int) -> tuple[IndexedDataset, ImageIndex, Cache]:
    """A copy of a dataset that reads through a cache and has a seed; its index, and the cache."""
    index = getattr(source, "_fastpipe_index", None)
    if index is None or index.source is None:
        raise DatasetError(
            f"GrowingDataset takes a dataset of fastpipe whose files are in a store, as "
            f"ImageFolder('s3://bucket/train'), not {source!r:.100}."
        )
    if cache is None and isinstance(index.source, CachedSource):
        cache = index.source.cache
    if cache is None:
        raise DatasetError("give the cache that samples are kept in: cache=fastpipe.Cache(FOLDER, '500 GB').")
    index = index.read_through(cache.over(index.source))
    other = _of_index(cast(IndexedDataset, source), index)
    if hasattr(other, "source"):
        other.source = index.source
    if other.seed is None:
        other.seed, other._fastpipe.epoch = seed, SharedEpoch()
    return other, index, cache


def _of_index(source: IndexedDataset, index: ImageIndex) -> IndexedDataset:
    """A copy of a dataset that has an index's samples, with the targets that somebody assigned."""
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
    if os.getpid() == owner:  # and not a fork, where the dataset is no more needed
        with contextlib.suppress(ValueError):  # it was closed
            process.terminate()
            process.join(5)
