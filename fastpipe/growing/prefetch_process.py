"""Fetches the samples of a growing set in a separate process, as parsing a store's responses needs the GIL."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Sequence

import filelock
import numpy as np

from fastpipe.datasets import ImageIndex
from fastpipe.growing.state import GrowingState, Positions, Window
from fastpipe.loading.permutation import Permutation
from fastpipe.sources import CachedSource, Pin
from fastpipe.types import ArchiveMember, RemoteFile

_AT_ONCE = 64  # the most samples fetched between two records of the progress
_TRIES = 5  # attempts for a sample that can't be read while others can
_POLL_S = 0.1
_LONGEST_PAUSE = 300  # the longest pause, in polls, while the store gives only errors


class Prefetcher:
    """Fetches the next samples into the cache, as far as it has room; only one process at a time does so.

    It reads from the state which samples are due, and writes there which have arrived.
    """

    def __init__(self, index: ImageIndex, order: Permutation, state: GrowingState) -> None:
        self._index, self._order, self._state = index, order, state
        source = index.source
        assert isinstance(source, CachedSource)
        self._cache = source.cache
        self._at_once = min(_AT_ONCE, 2 * source.concurrency)
        self._progress = progress = state.progress()
        progress.last_arrival, progress.idle, progress.error, progress.failures = time.time(), False, "", 0
        if progress.capacity != self._cache.capacity or not progress.room:
            progress.capacity, progress.room = self._cache.capacity, None
        state.write_progress(progress)
        self._window: Window | None = None
        self._pin: Pin | None = None
        self._full = False
        self._done = 0  # all positions before this one are fetched or given up, as far as this process has checked
        self._tries: Counter[int] = Counter()

    @property
    def failures(self) -> int:
        """The number of steps in a row with errors only."""
        return self._progress.failures

    def step(self) -> bool:
        """Fetches some samples; returns False if there is nothing to do, or it isn't possible."""
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
        if mending:  # samples that can't be fetched now are read from the store on request
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
        """Begins a new epoch's window: removes samples before it from the cache to make room."""
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
        """The files at positions in the order."""
        return self._index.paths(self._order.at(positions % len(self._order)))  # type: ignore[return-value]

    def _fetched(self, files: Sequence[RemoteFile]) -> list[ArchiveMember | Exception | None]:
        """Fetches files into the cache; gives each one's place there, None if there is no room, or the error raised."""
        found: list[ArchiveMember | Exception | None] = [self._cache.find(file) for file in files]
        absent = [number for number, place in enumerate(found) if place is None]
        for number, one in zip(absent, self._cache.fetch_missing([files[number] for number in absent]), strict=True):
            if isinstance(one, ArchiveMember):
                self._progress.files += 1
                self._progress.bytes += one.length
            if isinstance(one, (ArchiveMember, Exception)):
                found[number] = one
        return found

    def _settle(self, window: Window, there: Sequence[ArchiveMember | Exception | None]) -> int:
        """Returns the position before which all samples have arrived or are given up, after some were fetched."""
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
    """The process's main function: fetches until its parent has ended; returns at once if another process fetches."""
    above = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends this process
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
    """True if this process's parent lives, and the parent's parent, as the parent may be a fork server.

    A pipe tells of the parent's end; but other forks of the parent may hold the pipe open.
    """
    parent = multiprocessing.parent_process()
    return os.getppid() == above and parent is not None and parent.is_alive()
