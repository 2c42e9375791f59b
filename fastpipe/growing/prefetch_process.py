"""Fetching the samples of a growing set, in a process of its own: parsing what a store sends needs the GIL."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import filelock
import numpy as np

from fastpipe.datasets import ImageIndex
from fastpipe.growing.state import GrowingState, Positions, Window
from fastpipe.loading.permutation import Permutation
from fastpipe.sources import Cache, Pin
from fastpipe.types import ArchiveMember, RemoteFile

_AT_ONCE = 64  # samples between two notes of how far it is, at most
_TRIES = 5  # for a sample that can't be read while others can
_POLL_S = 0.1
_LONGEST_PAUSE = 300  # in polls, while the store gives nothing but errors


class Prefetcher:
    """Brings the next samples into the cache, as far as there is room for them; one at a time does so.

    The state says what is wanted, and is told what has arrived.
    """

    def __init__(self, index: ImageIndex, order: Permutation, state: GrowingState) -> None:
        self._index, self._order, self._state = index, order, state
        source: Any = index.source
        self._cache: Cache = source.cache
        self._at_once = min(_AT_ONCE, 2 * source.concurrency)
        self._progress = progress = state.progress()
        progress.last_arrival, progress.idle, progress.error, progress.failures = time.time(), False, "", 0
        if progress.capacity != self._cache.capacity or not progress.room:
            progress.capacity, progress.room = self._cache.capacity, None
        state.write_progress(progress)
        self._window: Window | None = None
        self._pin: Pin | None = None
        self._full = False
        self._done = 0  # up to here, all is there or given up: at first, what should be there is looked for
        self._tries: Counter[int] = Counter()

    @property
    def failures(self) -> int:
        """The number of steps in a row that gave nothing but errors."""
        return self._progress.failures

    def step(self) -> bool:
        """Fetches some samples; False where there is nothing to do, or no way to."""
        window = self._state.begun()
        if self._window is None or window.number != self._window.number:
            self._begin(window)
        progress, start = self._progress, self._done
        mending = start < progress.stop
        stop = min(start + self._at_once, progress.stop if mending else self._state.target(window, progress))
        if start >= stop or (self._full and not mending):
            if not progress.idle:
                progress.idle, progress.error, progress.failures = True, "", 0
                self._state.write_progress(progress)
            return False
        begun = time.perf_counter()
        there = self._fetched(self._files(np.arange(start, stop)))
        progress.seconds += time.perf_counter() - begun
        if mending:  # what can't be brought is read from the store when it is asked for
            self._done = stop
            return True
        done = self._settle(window, there)
        progress.idle = False
        if done > start:
            progress.stop = self._done = done
            progress.last_arrival, progress.error, progress.failures = time.time(), "", 0
        elif not self._full:
            errors = [one for one in there if isinstance(one, Exception)]
            progress.error, progress.failures = f"{type(errors[0]).__name__}: {errors[0]}", progress.failures + 1
        self._state.write_progress(progress)
        return done > start or self._full

    def _begin(self, window: Window) -> None:
        """Another epoch has begun: what is no more in it makes room for others."""
        progress = self._progress
        if self._window is None:
            self._done = window.first
        self._window, self._full = window, False
        progress.stop = max(progress.stop, window.stop)
        progress.missing = [one for one in progress.missing if one >= window.first]
        before = self._pin
        stop = max(self._state.target(window, progress), progress.stop)
        self._pin = self._cache.pin(self._files(np.arange(window.first, stop)))
        if before is not None:
            before.release()

    def _files(self, positions: Positions) -> list[RemoteFile]:
        """The files at positions of the order."""
        return self._index.paths(self._order.at(positions % len(self._order)))  # type: ignore[return-value]

    def _fetched(self, files: Sequence[RemoteFile]) -> list[ArchiveMember | Exception | None]:
        """The place of each file in the cache; None if there is no room for it, or the error that reading it raised."""
        found: list[Any] = [self._cache.find(file) for file in files]
        absent = [number for number, place in enumerate(found) if place is None]
        for number, one in zip(absent, self._cache.fetch_missing([files[number] for number in absent]), strict=True):
            found[number] = None if isinstance(one, bytes) else one
            if isinstance(one, ArchiveMember):
                self._progress.files += 1
                self._progress.bytes += one.length
        return found

    def _settle(self, window: Window, there: Sequence[ArchiveMember | Exception | None]) -> int:
        """The position up to which all have arrived, or are given up, once some were fetched."""
        some = any(isinstance(one, ArchiveMember) for one in there)
        for position, one in enumerate(there, self._done):
            if one is None:
                self._full, self._progress.room = True, position - window.first
                return position
            if isinstance(one, Exception):
                self._tries[position] += some
                if not isinstance(one, FileNotFoundError) and self._tries[position] < _TRIES:
                    return position
                self._progress.missing.append(position)
            self._tries.pop(position, None)
        return self._done + len(there)


def run_prefetcher(index: ImageIndex, order: Permutation, state: GrowingState) -> None:
    """The process: fetches until its parent is gone. Where another one does already, it ends at once."""
    above = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
    lock = state.fetching_lock
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        return
    fetcher = Prefetcher(index, order, state)
    while _has_parent(above):
        if not fetcher.step():
            for _ in range(min(_LONGEST_PAUSE, 2**fetcher.failures)):
                if not _has_parent(above):
                    break
                time.sleep(_POLL_S)


def _has_parent(above: int) -> bool:
    """Whether the process that started this one lives, and the one above, which may be a server that forks for it.

    The first is told by a pipe, which other forks of that process may hold open.
    """
    parent = multiprocessing.parent_process()
    return os.getppid() == above and parent is not None and parent.is_alive()
