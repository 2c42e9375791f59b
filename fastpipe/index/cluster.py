"""Listing and examining files on a Dask cluster: what ``--scheduler`` of the commands stands for.

Its workers see the files under the same paths, and have the same versions of what reads them.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import pickle
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from typing import Any, TypeVar

import PIL

from fastpipe.errors import DatasetError, FastpipeError
from fastpipe.index.format import cache_folder
from fastpipe.index.journal import Journal
from fastpipe.types import ArchiveMember

__all__ = ["Cluster", "cluster_at", "shared_paths"]

Item = TypeVar("Item")
Result = TypeVar("Result")

_START_S = 60.0  # for a scheduler that doesn't answer, and for a cluster without a worker
_SAY_S = 1.0  # after which it is said what is waited for
_LOOK_S = 2.0  # between looks at whether there still is a worker
_AGAIN = "Run the same command again: index and pack go on where they were."
_AHEAD = 4  # tasks for each thread of the workers, of which one runs


class Cluster:
    """The workers of a Dask scheduler, connected within a ``with``; they do what this process would do alone.

    Args:
        address: of the scheduler, as ``tcp://host:8786``.
        about: what is done, as values that have a repr: where the same was interrupted before, `map` goes on there.
            None: it begins anew.
        quiet: don't say on standard error what is waited for.

    Raises:
        FastpipeError: Dask isn't installed, nobody answers at the address, or there is no worker.
    """

    def __init__(self, address: str, about: object = None, *, quiet: bool = False) -> None:
        self._address = address
        self._about = about
        self._quiet = quiet
        self._client: Any = None
        self._journal: Journal | None = None

    def __enter__(self) -> Cluster:
        try:
            import distributed
        except ImportError as error:
            raise FastpipeError("a scheduler takes dask.distributed: pip install distributed") from error
        begun = time.monotonic()
        try:
            self._client = self._connect(distributed)
            if not self._client.nthreads():
                self._say(f"the scheduler has no worker yet; waiting for one, for {_START_S:.0f} s at most")
                self._client.wait_for_workers(1, timeout=max(1.0, _START_S - (time.monotonic() - begun)))
        except (OSError, TimeoutError, ValueError) as error:
            missing = "no scheduler answers there" if self._client is None else "its scheduler has no worker"
            self._close()
            raise FastpipeError(
                f"--scheduler {self._address}: {missing} ({error}). Start a scheduler with `dask scheduler`, and "
                "workers with `dask worker ADDRESS`."
            ) from error
        if self._about is not None:
            self._journal = Journal("cluster", repr((self._about, _versions())))
        return self

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[tuple[int, Result]]:
        """Calls a function of a module for each item, and yields items' numbers and results as they become known.

        Items are picklable, and taken a few ahead; JSON can hold the results. What a worker that dies was at is done by
        another one.
        """
        import distributed

        dask: Any = distributed
        journal = self._journal
        waiting = enumerate(items)
        running: dict[Any, tuple[int, bytes]] = {}
        done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        limit = _AHEAD * max(1, sum(self._client.nthreads().values()))
        try:
            while True:
                while len(running) < limit and (asked := next(waiting, None)):
                    number, item = asked
                    key = b"" if journal is None else _key(function, item)
                    known = None if journal is None else journal.get(key)
                    if known is not None:
                        yield number, known
                        continue
                    future = self._client.submit(_done, function, item, _versions(), pure=False)
                    running[future] = number, key
                    future.add_done_callback(done.put)
                if not running:
                    return
                future = self._patiently(lambda seconds: done.get(timeout=seconds))
                number, key = running.pop(future)
                try:
                    # It is done, but where it lies may be gone by now, and then another worker does it again.
                    result = self._patiently(future.result, future)
                except dask.KilledWorker as error:
                    raise FastpipeError(
                        f"the cluster gave up on a task that several workers died over: {error}"
                    ) from error
                except futures.CancelledError as error:
                    raise FastpipeError(
                        f"--scheduler {self._address}: the scheduler is gone, and its tasks with it. {_AGAIN}"
                    ) from error
                if journal is not None:
                    journal.put(key, result)
                yield number, result
        finally:
            if running:
                self._client.cancel(list(running), force=True)

    def _connect(self, dask: Any) -> object:
        """The client, made in a thread: one whose address takes a connection and never answers isn't made for ever."""
        made: futures.Future[Any] = futures.Future()

        def make() -> None:
            try:
                made.set_result(dask.Client(self._address, timeout=_START_S, set_as_default=False))
            except Exception as error:  # raised by the thread that waits
                made.set_exception(error)

        threading.Thread(target=make, daemon=True).start()
        if not futures.wait([made], _SAY_S).done:
            self._say(f"waiting for an answer, for {_START_S:.0f} s at most")
            if not futures.wait([made], _START_S).done:
                raise TimeoutError("it took the connection and said nothing")
        return made.result()

    def _patiently(self, wait: Callable[[float], Result], future: Any = None) -> Result:
        """Calls `wait(seconds)` until it returns, and returns that; gives up if there is no worker for too long.

        It raises `queue.Empty` or a timeout while there is nothing yet; a timeout that a `future` ended with is raised.
        """
        lonely_since: float | None = None
        while True:
            try:
                return wait(_LOOK_S)
            except (queue.Empty, TimeoutError, asyncio.TimeoutError):
                if future is not None and future.status == "error":
                    raise
            try:
                workers = self._client.nthreads()
            except (OSError, TimeoutError):  # the scheduler doesn't answer either
                workers = {}
            if workers:
                lonely_since = None
            elif lonely_since is None:
                lonely_since = time.monotonic()
                self._say(f"the cluster has no worker any more; waiting for one, for {_START_S:.0f} s at most")
            elif time.monotonic() - lonely_since > _START_S:
                raise FastpipeError(
                    f"--scheduler {self._address}: the cluster lost its last worker, and none came for "
                    f"{_START_S:.0f} s. Start one with `dask worker {self._address}`. {_AGAIN}"
                )

    def _say(self, text: str) -> None:
        if not self._quiet:
            print(f"fastpipe: --scheduler {self._address}: {text}", file=sys.stderr, flush=True)

    def __exit__(self, *problem: object) -> None:
        if self._journal is not None:
            self._journal.__exit__(*problem)
        self._close()

    def _close(self) -> None:
        if self._client is not None:
            with contextlib.suppress(Exception):  # Dask raises errors of many classes where the scheduler is gone
                self._client.close()
        self._client = self._journal = None


def cluster_at(
    address: str | None, about: object = None, *, quiet: bool = False
) -> contextlib.AbstractContextManager[Cluster | None]:
    """The cluster of a scheduler, for a ``with``; None without an address."""
    return contextlib.nullcontext() if address is None else Cluster(address, about, quiet=quiet)


def shared_paths(paths: Iterable[str]) -> list[str]:
    """Paths that other machines with the same disks understand; ``""`` stays.

    Raises:
        DatasetError: one lies in what this machine unpacked for itself.
    """
    own = os.fspath(cache_folder()) + os.sep
    shared: list[str] = []
    for path in paths:
        if type(path) is ArchiveMember:
            path = ArchiveMember(str(path), os.path.abspath(path.container), path.offset, path.length)
            if path.container.startswith(own):
                raise DatasetError(
                    f"{path} was unpacked into this machine's cache folder, where a cluster's workers don't see it: "
                    "leave the scheduler out."
                )
        elif path and not isinstance(path, ArchiveMember):  # one of a store is the same everywhere
            path = os.path.abspath(path)
        shared.append(path)
    return shared


def _versions() -> dict[str, str]:
    return {"fastpipe": sys.modules["fastpipe"].__version__, "pillow": PIL.__version__}


def _done(function: Callable[[Item], Result], item: Item, versions: dict[str, str]) -> Result:
    """Runs in a worker."""
    if versions != _versions():
        raise FastpipeError(
            f"a worker of the cluster has {_versions()}, and this process {versions}: results would differ. Install "
            "the same versions on all."
        )
    return function(item)


def _key(function: Callable[[Item], object], item: Item) -> bytes:
    text = f"{function.__module__}.{function.__qualname__}".encode()
    return hashlib.blake2b(text + pickle.dumps(item, protocol=4), digest_size=16).digest()
