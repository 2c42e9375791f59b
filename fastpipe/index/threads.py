"""Threads of this process for listing and opening files."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

_AHEAD = 4  # items for each thread, of which one is under way


def threads_for_files() -> int:
    """Threads for listing and opening files: they mostly wait for the disk."""
    return min(32, 4 * (os.cpu_count() or 1))


def map_in_threads(function: Callable[[Any], Any], items: Iterable[Any], threads: int = 0) -> Iterator[tuple[int, Any]]:
    """Calls a function for each item, and yields the items' numbers and results in order, as `Cluster.map` does.

    Args:
        function: takes an item.
        items: taken a few ahead.
        threads: how many; 0 for none but the caller's.
    """
    if not threads:
        yield from enumerate(map(function, items))
        return
    done = 0
    running: deque[Future[Any]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="fastpipe-index") as pool:
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
