"""State of a `GrowingDataset`, in files: the samples that have arrived in the cache, and those of each epoch.

    CACHE/growing/ID/epochs.json     the content of each epoch; whoever needs an epoch first decides it, under a lock
    CACHE/growing/ID/begun.json      the content of the epoch that runs: what isn't in it any more may leave
    CACHE/growing/ID/arrived.json    how far the fetching process is; nobody else writes it
    CACHE/growing/ID/*.lock

Samples arrive in one order, which the seed decides: the source's permutation, again from its front when it is through.
So what is there is a window of that order, and so is an epoch's content: two numbers say it, and the few samples in
between that can't be read. All files are written beside and renamed: a kill leaves what was, or what is.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

import filelock
import numpy as np
from numpy.typing import NDArray

from fastpipe.atomic_write import atomic_write

Positions = NDArray[np.int64]


@dataclass(frozen=True)
class Window:
    """A part of the order in which samples arrive: those from `first` to before `stop`, but for `missing` ones.

    Attributes:
        first, stop: positions in the order; behind the source's length it begins anew.
        missing: those in between that can't be read.
        new: how many of it weren't in the window that was decided before.
        number: of the decision, from 1; 0 before the first.
    """

    first: int
    stop: int
    missing: Sequence[int] = ()
    new: int = 0
    number: int = 0

    def __len__(self) -> int:
        return self.stop - self.first - len(self.missing)

    def same_samples(self, other: Window) -> bool:
        """Whether another one has the same samples."""
        return (self.first, self.stop, list(self.missing)) == (other.first, other.stop, list(other.missing))

    def at(self, places: Positions) -> Positions:
        """Positions in the order, of places from 0 to the length."""
        gaps = np.array(self.missing, np.int64) - self.first - np.arange(len(self.missing))
        return self.first + places + np.searchsorted(gaps, places, side="right")


@dataclass
class FetchProgress:
    """Progress of the fetching process.

    Attributes:
        stop: so many positions of the order have arrived, or are missing.
        missing: positions that can't be read; those that left are forgotten.
        room: how many samples there were when the cache was full the last time; None as long as it wasn't.
        files, bytes, seconds: what was read from the store, and how long that took.
        capacity: of the cache then, in bytes.
        moved: when something arrived last, in seconds since 1970.
        noted: when this was written.
        idle: whether there is nothing to fetch before the next epoch.
        error: why nothing arrives; ``""`` where it does.
        failed: how many attempts in a row gave nothing.
    """

    stop: int = 0
    missing: list[int] = field(default_factory=list)
    room: int | None = None
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    capacity: int = -1
    moved: float = field(default_factory=time.time)
    noted: float = 0.0
    idle: bool = False
    error: str = ""
    failed: int = 0


class GrowingState:
    """The files of one growing set.

    Args:
        folder: where they are; made where it is missing.
        count: samples of the source.
        start: samples that the first epoch waits for.
        growth: what one epoch's number grows by until the next, at most.
    """

    def __init__(self, folder: Path, count: int, start: int, growth: float) -> None:
        self.folder = folder
        self.count, self.start, self.growth = count, min(start, count), growth
        folder.mkdir(parents=True, exist_ok=True)
        self._known: dict[str, Any] = {}
        self._stamp: tuple[int, int] = (0, 0)
        self._last_begun = 0

    @property
    def leading(self) -> filelock.BaseFileLock:
        """The lock that the fetching process holds."""
        return filelock.FileLock(self.folder / "fetching.lock", is_singleton=False)

    def arrived(self) -> FetchProgress:
        """The progress of the fetching process."""
        found = _read(self.folder / "arrived.json")
        return FetchProgress(**found) if found else FetchProgress()

    def note(self, arrived: FetchProgress) -> None:
        """Writes the progress; called by the fetching process alone."""
        arrived.noted = time.time()
        _write(self.folder / "arrived.json", asdict(arrived))

    def window(self, epoch: int) -> Window | None:
        """An epoch's content; None where it isn't decided yet."""
        row = self._epochs()["epochs"].get(str(epoch))
        return None if row is None else Window(*row)

    def latest(self) -> Window:
        """The content that was decided last; nothing before the first."""
        row = self._epochs()["latest"]
        return Window(0, 0) if row is None else Window(*row)

    def begun(self) -> Window:
        """The content of the epoch that runs; nothing before the first."""
        row = _read(self.folder / "begun.json").get("latest")
        return Window(0, 0) if row is None else Window(*row)

    def begin(self, window: Window) -> None:
        """The first sample of an epoch is asked for: the one before is as good as over."""
        if window.number > self._last_begun:
            with filelock.FileLock(self.folder / "epochs.lock", is_singleton=False):
                if window.number > self.begun().number:
                    _write(self.folder / "begun.json", {"latest": astuple(window)})
            self._last_begun = window.number

    def target(self, window: Window, arrived: FetchProgress) -> int:
        """The position that fetching goes up to while the epoch of a window runs."""
        wanted = math.ceil(self.growth * max(len(window), self.start)) + len(arrived.missing)
        if arrived.room is not None:  # a little more, so as to see how much room there is now
            wanted += wanted // 16 + 1
        return window.first + min(self.count, wanted)

    def decide(self, epoch: int) -> Window | None:
        """The content of an epoch, decided now if nobody has; None where less than `start` has arrived."""
        with filelock.FileLock(self.folder / "epochs.lock", is_singleton=False):
            known = self.window(epoch)
            if known is not None:
                return known
            epochs = self._epochs()
            before = self.latest()
            arrived = self.arrived()
            room = arrived.room
            there = arrived.stop - len(arrived.missing)
            if not before.number and there < self.start and arrived.stop < self.count and room is None:
                return None
            # What is left of the room is for those that are fetched while it runs.
            most = self.count if room is None else max(1, math.floor(room / self.growth))
            stop = max(arrived.stop, before.stop)
            first = max(before.first, stop - most)
            missing = tuple(sorted(one for one in arrived.missing if first <= one < stop))
            new = [one for one in missing if one >= before.stop]
            window = Window(first, stop, missing, stop - max(first, before.stop) - len(new), before.number + 1)
            if not len(window):
                return None
            row = astuple(window)
            changed = {**epochs["epochs"], str(epoch): row}
            _write(self.folder / "epochs.json", {"latest": row, "epochs": changed})
            return window

    def adopt(self, epoch: int, window: Window) -> Window:
        """The content of an epoch that a run had elsewhere, or the one that it has here already.

        One that was decided here, but of which no sample was asked for yet, gives way. The samples that aren't here are
        fetched, as those that a cache has lost; until then the store is read.
        """
        with filelock.FileLock(self.folder / "epochs.lock", is_singleton=False):
            known, begun, epochs = self.window(epoch), self.begun(), self._epochs()
            if known is not None and (known.same_samples(window) or known.number <= begun.number):
                return known
            # An epoch before the one that runs moves nothing: its samples are read from the store.
            follows = window.first >= begun.first and window.stop >= begun.stop
            if follows:
                new = window.stop - max(window.first, begun.stop)
                window = replace(window, new=new, number=self.latest().number + 1)
            row = astuple(window)
            latest = row if follows else epochs["latest"]
            _write(self.folder / "epochs.json", {"latest": latest, "epochs": {**epochs["epochs"], str(epoch): row}})
            return window

    def forget(self) -> None:
        """Epochs are decided anew; the next one has what is there now."""
        with filelock.FileLock(self.folder / "epochs.lock", is_singleton=False):
            _write(self.folder / "epochs.json", {**self._epochs(), "epochs": {}})

    def _epochs(self) -> dict[str, Any]:
        """The decided epochs, read again if the file has changed."""
        try:
            status = os.stat(self.folder / "epochs.json")
        except FileNotFoundError:
            return {"latest": None, "epochs": {}}
        stamp = (status.st_mtime_ns, status.st_ino)
        if stamp != self._stamp:
            self._known, self._stamp = _read(self.folder / "epochs.json"), stamp
        return self._known


def _read(file: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="ascii"))
    except FileNotFoundError:
        return {}
    return found


def _write(file: Path, content: dict[str, Any]) -> None:
    with atomic_write(file, synced=False) as stream:
        stream.write(json.dumps(content).encode())
