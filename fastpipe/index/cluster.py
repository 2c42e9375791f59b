"""Lists and examines files on a Dask cluster, for the commands' option ``--scheduler``.

The cluster's workers must see the files under the same paths, and have the same versions of fastpipe and Pillow.
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
from typing import Any, TypeAlias, TypeVar

import PIL

from fastpipe.errors import DatasetError, FastpipeError
from fastpipe.index.format import cache_folder
from fastpipe.index.journal import Journal
from fastpipe.standard_error import print_error
from fastpipe.types import ArchiveMember

__all__ = ["Cluster", "cluster_at", "shared_paths"]

Item = TypeVar("Item")
Result = TypeVar("Result")

_START_S = 60.0  # wait at most so long for the scheduler's answer, and for a worker
_SAY_S = 1.0  # wait so long before a message says so
_LOOK_S = 2.0  # time between checks that there still is a worker
_AGAIN = "Run the same command again: index and pack continue where they stopped."
_AHEAD = 4  # tasks submitted for each thread of the workers, including the running one

DaskFuture: TypeAlias = Any
"""A future of Dask's, which has no types."""


class Cluster:
    """The workers of a Dask scheduler, connected within a ``with``; `map` runs a function there.

    Args:
        address: the scheduler's address, as ``tcp://host:8786``.
        about: values whose repr identifies the work: if the same work was interrupted before, `map` continues it. None
            starts from the beginning.
        quiet: don't report on standard error what it waits for.

    Raises:
        FastpipeError: the address is no text, Dask isn't installed, the scheduler doesn't answer, or it has no worker.
    """

    def __init__(self, address: str, about: object = None, *, quiet: bool = False) -> None:
        if not isinstance(address, str):
            raise DatasetError(f"scheduler={address!r:.80}: give the address of a Dask scheduler, as tcp://host:8786.")
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
        """Calls a function for each item on the workers, and yields (number of the item, result) as results come in.

        The function must be a module's; items must be picklable, and results representable in JSON. Items are taken a
        few ahead. If a worker dies, another worker repeats its tasks.
        """
        import distributed

        dask: Any = distributed
        journal = self._journal
        waiting = enumerate(items)
        running: dict[DaskFuture, tuple[int, bytes]] = {}
        done: queue.SimpleQueue[DaskFuture] = queue.SimpleQueue()
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
                    # The task is done, but if the worker that holds the result is gone, another one repeats it.
                    result = self._patiently(future.result, future)
                except dask.KilledWorker as error:
                    raise FastpipeError(
                        f"the cluster gave a task up after several workers died during it: {error}"
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
        """Makes the client in a thread, as its constructor hangs if the address takes connections and never answers."""
        connection: futures.Future[object] = futures.Future()

        def make() -> None:
            try:
                connection.set_result(dask.Client(self._address, timeout=_START_S, set_as_default=False))
            except Exception as error:  # raised by the thread that waits
                connection.set_exception(error)

        threading.Thread(target=make, daemon=True).start()
        if not futures.wait([connection], _SAY_S).done:
            self._say(f"waiting for an answer, for {_START_S:.0f} s at most")
            if not futures.wait([connection], _START_S).done:
                raise TimeoutError("it accepted the connection and didn't answer")
        return connection.result()

    def _patiently(self, wait: Callable[[float], Result], future: DaskFuture = None) -> Result:
        """Calls `wait(seconds)` until it returns, and returns the result; raises if there is no worker for too long.

        `wait` raises `queue.Empty` or a timeout while there is no result. A timeout that is the error of a finished
        `future` is raised.
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
            print_error(f"fastpipe: --scheduler {self._address}: {text}")

    def __exit__(self, *problem: object) -> None:
        if self._journal is not None:
            self._journal.__exit__(*problem)
        self._close()

    def _close(self) -> None:
        if self._client is not None:
            with contextlib.suppress(Exception):  # Dask raises errors of many classes if the scheduler is gone
                self._client.close()
        self._client = self._journal = None


def cluster_at(
    address: str | None, about: object = None, *, quiet: bool = False
) -> contextlib.AbstractContextManager[Cluster | None]:
    """A context manager that gives the `Cluster` at an address; None without an address."""
    return contextlib.nullcontext() if address is None else Cluster(address, about, quiet=quiet)


def shared_paths(paths: Iterable[str]) -> list[str]:
    """Makes paths absolute, for other machines with the same disks; ``""`` stays.

    Raises:
        DatasetError: a path lies in a copy that this machine unpacked for itself.
    """
    try:
        own = os.path.join(cache_folder(), "")
    except FileNotFoundError:  # no home folder, so nothing was unpacked
        own = None
    shared: list[str] = []
    for path in paths:
        if type(path) is ArchiveMember:
            path = ArchiveMember(str(path), os.path.abspath(path.container), path.offset, path.length)
            if own is not None and path.container.startswith(own):
                raise DatasetError(
                    f"{path} was unpacked into this machine's cache folder, where a cluster's workers don't see it: "
                    "leave the scheduler out."
                )
        elif path and not isinstance(path, ArchiveMember):  # a store's path is the same everywhere
            path = os.path.abspath(path)
        shared.append(path)
    return shared


def _versions() -> dict[str, str]:
    return {"fastpipe": sys.modules["fastpipe"].__version__, "pillow": PIL.__version__}


def _done(function: Callable[[Item], Result], item: Item, versions: dict[str, str]) -> Result:
    """Calls the function; runs in a worker of the cluster. Raises if versions differ."""
    if versions != _versions():
        raise FastpipeError(
            f"a worker of the cluster has {_versions()}, and this process {versions}: results would differ. Install "
            "the same versions on all."
        )
    return function(item)


def _key(function: Callable[[Item], object], item: Item) -> bytes:
    text = f"{function.__module__}.{function.__qualname__}".encode()
    return hashlib.blake2b(text + pickle.dumps(item, protocol=4), digest_size=16).digest()
