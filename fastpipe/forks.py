"""Processes that are forked: the garbage that they inherit is their parent's to collect."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from multiprocessing import util


class _Fork:
    """The state of the parent's collector, for processes that it forks.

    Attributes:
        collects: the parent's collects garbage by itself.
    """

    def __init__(self) -> None:
        self.collects = gc.isenabled()

    def begin(self) -> None:
        gc.freeze()
        if self.collects:
            gc.enable()


@contextlib.contextmanager
def garbage_left_to_parent() -> Iterator[None]:
    """Has processes that multiprocessing forks within the block never collect what they inherit.

    A destructor that runs in such a process may wait for a thread that the parent alone has, for ever (Dask's client
    does), or complain that the parent's workers aren't this process's (torch's iterator does). It happened to all
    workers that were forked while the parent's collector was about to run. And a collector that looks at inherited
    objects writes to their pages, of which the process then gets a copy.
    """
    fork = _Fork()
    util.register_after_fork(fork, _Fork.begin)  # it knows this one weakly
    try:
        gc.disable()  # from before the fork until the child has frozen what is there
        yield
    finally:
        if fork.collects:
            gc.enable()
