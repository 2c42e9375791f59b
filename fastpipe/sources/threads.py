"""Threads that wait for disks and stores."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_AHEAD = 4  # items queued for each thread, including the running one
_PATIENCE_S = 0.2


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


def map_patiently(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[tuple[int, Result]]:
    """Does what `map_in_threads` does, for a function that asks a disk, with threads only if the disk is slow.

    From memory or a local disk answers come in microseconds, and threads contend for the GIL (8 threads are half as
    fast on two cores); over a network, threads wait in parallel. So the caller's thread asks until it has waited for
    0.2 seconds, without the time that it took itself.
    """
    left = iter(items)
    done = 0
    start_s = time.perf_counter() - time.thread_time()
    for item in left:
        yield done, function(item)
        done += 1
        if time.perf_counter() - time.thread_time() - start_s > _PATIENCE_S:
            break
    for number, result in map_in_threads(function, left, min(32, 4 * (os.cpu_count() or 1))):
        yield done + number, result
