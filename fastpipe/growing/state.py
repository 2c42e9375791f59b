"""State of a `GrowingDataset`, in its cache's manifest: the samples that have arrived, and those of each epoch.

    growing_epochs     the content of each epoch, written by the first process that needs it, and whether it has begun
    growing_progress   the fetching process's progress; only that process writes it

Samples arrive in an order fixed by the seed: a permutation of the source, repeated from its front after its end. So the
samples that are there, and an epoch's content, are windows of that order, each given by two positions and the few
samples in between that can't be read.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import filelock
import numpy as np
from numpy.typing import NDArray

from fastpipe.sources import Cache
from fastpipe.sources.manifest import Manifest

Positions = NDArray[np.int64]


@dataclass(frozen=True)
class Window:
    """A part of the order in which samples arrive: from `first` to before `stop`, without `missing`."""

    # first and stop: positions in the order, which repeats with the source's length
    first: int
    stop: int
    missing: tuple[int, ...] = ()  # positions in between whose samples can't be read
    new: int = 0  # the number of samples that weren't in the window decided before
    number: int = 0  # counts the decided windows from 1; 0 before the first

    def __len__(self) -> int:
        return self.stop - self.first - len(self.missing)

    def same_samples(self, other: Window) -> bool:
        """True if another window has the same samples."""
        return (self.first, self.stop, self.missing) == (other.first, other.stop, other.missing)

    def at(self, places: Positions) -> Positions:
        """Converts places in the window, from 0 to its length, to positions in the order."""
        gaps = np.array(self.missing, np.int64) - self.first - np.arange(len(self.missing))
        return self.first + places + np.searchsorted(gaps, places, side="right")


@dataclass
class FetchProgress:
    """Progress of the fetching process."""

    stop: int = 0  # the samples at all positions before this one have arrived or are missing
    missing: list[int] = field(default_factory=list)  # positions that can't be read; without those removed since
    # the number of samples when the cache was last full; None if it never was
    room: int | None = None
    # files, bytes, seconds: the number and size of files read from the store, and the time it took
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    capacity: int = -1  # the cache's capacity in bytes when `room` was set
    last_arrival: float = field(default_factory=time.time)  # time of the last arrival, in seconds since 1970
    written: float = 0.0  # time at which this was written
    idle: bool = False  # whether there is nothing to fetch before the next epoch
    error: str = ""  # why nothing arrives; ``""`` if samples arrive
    failures: int = 0  # the number of attempts in a row that fetched nothing


class GrowingState:
    """The rows of one growing set in its cache's manifest, by a name that is the same in all runs.

    `count` is the source's number of samples; `start` and `growth` are as in `GrowingDataset`.
    """

    def __init__(self, cache: Cache, name: str, count: int, start: int, growth: float) -> None:
        self._cache, self._name = cache, name
        self.count, self.start, self.growth = count, min(start, count), growth
        self._last_begun = 0

    @property
    def fetching_lock(self) -> filelock.BaseFileLock:
        """The lock that the fetching process holds."""
        folder = Path(self._cache.folder) / "growing" / self._name
        folder.mkdir(parents=True, exist_ok=True)
        return filelock.FileLock(folder / "fetching.lock", is_singleton=False)

    @property
    def _manifest(self) -> Manifest:
        return self._cache._opened().manifest

    def progress(self) -> FetchProgress:
        """The progress of the fetching process."""
        rows = self._manifest.rows("SELECT * FROM growing_progress WHERE dataset = ?", self._name)
        if not rows:
            return FetchProgress()
        _, stop, missing, *others = rows[0]
        return FetchProgress(stop, json.loads(missing), *others)

    def write_progress(self, progress: FetchProgress) -> None:
        """Writes the progress; called only by the fetching process."""
        progress.written = time.time()
        row = {**asdict(progress), "dataset": self._name, "missing": json.dumps(progress.missing)}
        self._manifest.change(
            "INSERT OR REPLACE INTO growing_progress VALUES (:dataset, :stop, :missing, :room, :files, :bytes, "
            ":seconds, :capacity, :last_arrival, :written, :idle, :error, :failures)",
            [row],
        )

    def window(self, epoch: int) -> Window | None:
        """An epoch's content; None if it isn't decided yet."""
        return self._window("epoch = ?", epoch)

    def latest(self) -> Window:
        """The content that was decided last; empty before the first decision."""
        return self._window("TRUE") or Window(0, 0)

    def begun(self) -> Window:
        """The content of the running epoch; empty before the first."""
        return self._window("begun") or Window(0, 0)

    def _window(self, condition: str, *values: object) -> Window | None:
        """The last decided content that meets an SQL condition; None if none does."""
        rows = self._manifest.rows(
            "SELECT first, stop, missing, new, number FROM growing_epochs "
            f"WHERE dataset = ? AND {condition} ORDER BY number DESC LIMIT 1",
            self._name,
            *values,
        )
        if not rows:
            return None
        first, stop, missing, new, number = rows[0]
        return Window(first, stop, tuple(json.loads(missing)), new, number)

    def begin(self, window: Window) -> None:
        """Marks an epoch as begun when its first sample is requested, so that the epoch before counts as ended."""
        if window.number > self._last_begun:
            sql = "UPDATE growing_epochs SET begun = TRUE WHERE dataset = ? AND number = ?"
            self._manifest.change(sql, [(self._name, window.number)])
            self._last_begun = window.number

    def target(self, window: Window, progress: FetchProgress) -> int:
        """The position up to which files are fetched while the epoch of a window runs."""
        wanted = math.ceil(self.growth * max(len(window), self.start)) + len(progress.missing)
        if progress.room is not None:  # a little more, to find out whether there is more room now
            wanted += wanted // 16 + 1
        return window.first + min(self.count, wanted)

    def decide(self, epoch: int) -> Window | None:
        """Returns an epoch's content, decided now if it wasn't before; None if fewer than `start` have arrived."""
        with self._manifest.changing():
            known = self.window(epoch)
            if known is not None:
                return known
            before = self.latest()
            progress = self.progress()
            room = progress.room
            there = progress.stop - len(progress.missing)
            if not before.number and there < self.start and progress.stop < self.count and room is None:
                return None
            # The rest of the room is for samples that are fetched during the epoch.
            most = self.count if room is None else max(1, math.floor(room / self.growth))
            stop = max(progress.stop, before.stop)
            first = max(before.first, stop - most)
            missing = tuple(sorted(one for one in progress.missing if first <= one < stop))
            new = [one for one in missing if one >= before.stop]
            window = Window(first, stop, missing, stop - max(first, before.stop) - len(new), before.number + 1)
            if not len(window):
                return None
            self._add(epoch, window)
            return window

    def adopt(self, epoch: int, window: Window) -> Window:
        """Takes over an epoch's content from another run, unless it is decided here; returns the content that holds.

        Content decided here is replaced if none of its samples was requested yet. Samples that aren't here are fetched
        like those that a cache has lost; until then they are read from the store.
        """
        with self._manifest.changing():
            known, begun = self.window(epoch), self.begun()
            if known is not None and (known.same_samples(window) or known.number <= begun.number):
                return known
            # An epoch before the running one doesn't move the window: its samples are read from the store.
            if window.first >= begun.first and window.stop >= begun.stop:
                new = window.stop - max(window.first, begun.stop)
                window = replace(window, new=new, number=self.latest().number + 1)
            self._add(epoch, window)
            return window

    def forget(self) -> None:
        """Forgets all epochs' content; the next epoch has all samples that are there now."""
        self._manifest.change("UPDATE growing_epochs SET epoch = NULL WHERE dataset = ?", [(self._name,)])

    def _add(self, epoch: int, window: Window) -> None:
        row = (self._name, epoch, window.first, window.stop, json.dumps(window.missing), window.new, window.number)
        self._manifest.change("INSERT OR REPLACE INTO growing_epochs VALUES (?, ?, ?, ?, ?, ?, ?, FALSE)", [row])
