"""Sets a worker's process up, and records the samples that it begins.

The records are in shared memory, and take 0.1 µs a sample. The main process reads them only when something went wrong,
see `fastpipe.loading.worker_monitor`.
"""

from __future__ import annotations

import atexit
import itertools
import multiprocessing
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType

import torch
from torch.utils.data import get_worker_info

from fastpipe.datasets import ImageDataset
from fastpipe.datasets.wrappers import image_datasets
from fastpipe.environment import opencv
from fastpipe.executor import SharedEpoch, StageTimes
from fastpipe.loading.fetcher import BatchFetcher
from fastpipe.memory.shm_pool import begin_worker, shared

_LAST_BATCH_S = 1.0


class Heartbeats:
    """The sample that each thread of each worker began last, and the time, in shared memory.

    Forked workers inherit the memory; spawned workers get a handle to it from torch's pickler.
    """

    def __init__(self, workers: int, threads: int) -> None:
        self._numbers = shared(torch.zeros((workers, threads + 1, 2), dtype=torch.int64))

    def listen(self, worker: int, datasets: Iterable[ImageDataset]) -> None:
        """Makes the datasets in a worker's process record each sample that they begin."""
        rows = itertools.cycle([memoryview(row) for row in self._numbers[worker].numpy()])
        mine = threading.local()

        def notes(first: int, length: int) -> Callable[[int], None]:
            def note(index: int, now: Callable[[], int] = time.monotonic_ns) -> None:
                try:
                    row = mine.row
                except AttributeError:
                    row = mine.row = next(rows)
                row[0] = first + (index if index >= 0 else index + length) + 1
                row[1] = now()

            return note

        first = 0
        for inner in datasets:
            inner._fastpipe.on_begin = notes(first, len(inner))
            first += len(inner)

    def last(self, worker: int) -> list[tuple[int, float]]:
        """The last sample of each of the worker's threads, and how many seconds ago it was begun; the oldest first."""
        now = time.monotonic_ns()
        rows = self._numbers[worker].tolist()
        return sorted(((number - 1, (now - at) / 1e9) for number, at in rows if number > 0), key=lambda one: -one[1])


@dataclass(frozen=True)
class WorkerInit:
    """Runs first in each worker, after torch has seeded torch, random and numpy and set itself to one thread."""

    user: Callable[[int], None] | None  # the loader's ``worker_init_fn``, which runs after this
    heartbeats: Heartbeats | None  # where the worker records the samples that it begins
    pieces: int  # the most pieces of shared memory that are reused for batches
    epochs: Mapping[SharedEpoch, int]  # the datasets' epochs, if this worker doesn't follow the main process's
    times: StageTimes | None  # the row of times that the stages add to

    def __call__(self, worker: int) -> None:
        _silence_exit()
        # One thread, so that workers don't compete for cores. By 0 and not 1: a forked worker inherits cv2's pool
        # without its threads, and setNumThreads(1) waits for these forever; 0 doesn't touch the pool.
        if (cv2 := opencv()) is not None:
            cv2.setNumThreads(0)
        info = get_worker_info()
        assert info is not None
        if isinstance(info.dataset, BatchFetcher):
            fetcher = info.dataset
            object.__setattr__(info, "dataset", fetcher.dataset)  # get_worker_info().dataset shall be the user's
            begin_worker(self.pieces)
        for count, epoch in self.epochs.items():
            count.stay(epoch)
        datasets = list(image_datasets(info.dataset))
        if self.heartbeats is not None:
            self.heartbeats.listen(worker, datasets)
        if self.times is not None:
            for inner in datasets:
                inner._fastpipe.measure(self.times.row(worker))
        if self.user is not None:
            self.user(worker)
        parent = multiprocessing.parent_process()
        if parent is not None and not parent.is_alive():
            sys.exit()  # the parent died before torch's watch for it began: torch would never notice


def _silence_exit() -> None:
    """Keeps a worker's process from printing errors to the terminal when it ends.

    Ctrl-C reaches every process of a terminal; workers ignore it, as the main process ends them. A spawned worker waits
    at its end for the thread that sends its batches: in torch's C++ code, the ending interpreter would kill that
    thread, with the message "terminate called without an active exception".
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.excepthook = _print_error  # called by multiprocessing in the thread that sends shared memory
    atexit.register(_wait_for_senders)  # not run in forked workers, which end by os._exit


def _print_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, (ConnectionError, EOFError)):  # else the main process ended during a transfer
        sys.__excepthook__(kind, error, trace)


def _wait_for_senders() -> None:
    for thread in threading.enumerate():
        if thread.name == "QueueFeederThread":
            thread.join(_LAST_BATCH_S)  # bounded, as the thread may hang in a full pipe without a reader
