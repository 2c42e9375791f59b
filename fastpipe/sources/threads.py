"""Threads that wait for disks and stores."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_AHEAD = 4  # items queued for each thread, including the running one


def threads_for_files() -> int:
    """The number of threads for listing and opening files, which mostly wait for the disk."""
    return min(32, 4 * (os.cpu_count() or 1))


def map_in_threads(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int = 0
) -> Iterator[tuple[int, Result]]:
    """Calls a function for each item in threads, and yields (number of the item, result) in order.

    Args:
        function: called with an item.
        items: the items, taken a few ahead.
        threads: the number of threads; 0 for the caller's alone.
    """
    if not threads:
        yield from enumerate(map(function, items))
        return
    done = 0
    running: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="fastpipe-files") as pool:
        try:
            for item in items:
                running.append(pool.submit(function, item))
                if len(running) == _AHEAD * threads:
                    yield done, running.popleft().result()
                    done += 1
            while running:
                yield done, running.popleft().result()
                done += 1
        finally:
            for future in running:
                future.cancel()
