"""Forked processes never garbage-collect the objects that they inherit from their parent."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from multiprocessing import util


class _Fork:
    """The state of the parent's garbage collector, for the processes that it forks.

    Attributes:
        collects: whether automatic collection was enabled in the parent.
    """

    def __init__(self) -> None:
        self.collects = gc.isenabled()

    def begin(self) -> None:
        gc.freeze()
        if self.collects:
            gc.enable()


@contextlib.contextmanager
def garbage_left_to_parent() -> Iterator[None]:
    """Keeps processes that multiprocessing forks within the block from collecting inherited objects.

    A destructor that runs in such a process may wait for ever for a thread that only the parent has (Dask's client
    does), or complain that the parent's workers aren't this process's (torch's iterator does). That happened in all
    workers that were forked while the parent's collector was about to run. A collector that visits inherited objects
    also writes to their memory pages, which copies each page into the process.
    """
    fork = _Fork()
    util.register_after_fork(fork, _Fork.begin)  # multiprocessing keeps a weak reference to the object
    try:
        gc.disable()  # disabled until the child has frozen the inherited objects
        yield
    finally:
        if fork.collects:
            gc.enable()
