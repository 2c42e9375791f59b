"""The clock by which images are timed: processor time, in which other programs' work isn't counted."""

from __future__ import annotations

import time
from collections.abc import Callable

clock: Callable[[], float] = (
    time.thread_time if time.get_clock_info("thread_time").resolution < 1e-4 else time.perf_counter
)
"""Processor seconds of this thread; seconds by the wall clock where the system doesn't count them finely."""


class Stopwatch:
    """Processor seconds since the object was made, of this thread and of the threads of a pool that works for it.

    Args:
        threads: number of the pool's threads; with none or one, the calling thread does the work.
    """

    def __init__(self, threads: int = 0) -> None:
        self._threads = max(1, threads)
        self._clock = clock if threads <= 1 else time.process_time
        self._begun = time.perf_counter(), self._clock()

    def taken(self) -> tuple[float, float]:
        """The processor seconds, at most what the threads can have worked, and the seconds by the wall clock."""
        wall, worked = self._begun
        wall = time.perf_counter() - wall
        return min(self._clock() - worked, self._threads * wall), wall
