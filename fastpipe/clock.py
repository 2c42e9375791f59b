"""The clock by which images are timed: processor time, in which other programs' work isn't counted."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_worked = time.thread_time if time.get_clock_info("thread_time").resolution < 1e-4 else time.perf_counter


class _Thread(threading.local):
    """A thread's seconds within `uncounted`: processor time, and by the wall clock."""

    worked = 0.0
    wall = 0.0


_uncounted = _Thread()


def clock() -> float:
    """Processor seconds of this thread, wall clock where the system doesn't count finely; none within `uncounted`."""
    return _worked() - _uncounted.worked


@contextmanager
def uncounted() -> Iterator[None]:
    """Stops this thread's `clock`, and its `Stopwatch`, within the block: for work that the plain way wouldn't have."""
    worked, wall = _worked(), time.perf_counter()
    try:
        yield
    finally:
        _uncounted.worked += _worked() - worked
        _uncounted.wall += time.perf_counter() - wall


class Stopwatch:
    """Processor seconds since the object was made, of this thread and of the threads of a pool that works for it.

    Args:
        threads: number of the pool's threads; with none or one, the calling thread does the work.
    """

    def __init__(self, threads: int = 0) -> None:
        self._threads = max(1, threads)
        self._begun = self._now()

    def taken(self) -> tuple[float, float]:
        """The processor seconds, at most what the threads can have worked, and the seconds by the wall clock."""
        wall, worked = (now - begun for now, begun in zip(self._now(), self._begun, strict=True))
        return min(worked, self._threads * wall), wall

    def _now(self) -> tuple[float, float]:
        worked = clock() if self._threads == 1 else time.process_time() - _uncounted.worked
        return time.perf_counter() - _uncounted.wall, worked
