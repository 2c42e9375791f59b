"""Threads of this process that wait for disks and stores: for the items of one call, or kept from call to call."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_AHEAD = 4  # items for each thread, of which one is under way


def threads_for_files() -> int:
    """Threads for listing and opening files: they mostly wait for the disk."""
    return min(32, 4 * (os.cpu_count() or 1))


def map_in_threads(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int = 0
) -> Iterator[tuple[int, Result]]:
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


class Threads(NamedTuple):
    """Threads, the process that they are of, and how many they are."""

    process: int
    number: int
    executor: ThreadPoolExecutor


def kept_threads(kept: Threads | None, number: int, name: str) -> Threads:
    """The threads at hand if they are that many and this process's own, else new ones: a fork inherits no threads."""
    if kept is not None and (kept.process, kept.number) == (os.getpid(), number):
        return kept
    return Threads(os.getpid(), number, ThreadPoolExecutor(number, name))
