"""Threads that are kept from call to call, in each process its own."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple


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
