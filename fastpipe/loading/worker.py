"""A worker's side of the loader: the set-up of its process, and its notes on the samples that it begins.

Notes are in memory that the main process shares, and cost 0.1 µs a sample. It looks there only when something went
wrong, see `fastpipe.loading.worker_monitor`.
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
from typing import Any

import cv2
import torch
from torch.utils.data import get_worker_info

from fastpipe.datasets import ImageDataset
from fastpipe.datasets.wrappers import image_datasets
from fastpipe.executor import SharedEpoch, StageTimes
from fastpipe.loading.fetcher import BatchFetcher
from fastpipe.memory.shm_pool import begin_worker

_LAST_BATCH_S = 1.0


class Heartbeats:
    """The sample that each thread of each worker began last, and when; in memory that all processes share.

    A worker that is forked inherits it; one that is spawned gets a handle, since torch's process pickler sends tensors
    that way.
    """

    def __init__(self, workers: int, threads: int) -> None:
        zeros = torch.zeros((workers, threads + 1, 2), dtype=torch.int64)
        self._numbers: torch.Tensor = zeros.share_memory_()  # type: ignore[no-untyped-call]

    def listen(self, worker: int, datasets: Iterable[ImageDataset]) -> None:
        """Has the datasets in a worker's process note the samples that they begin."""
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
        for part in datasets:
            part.on_begin = notes(first, len(part))
            first += len(part)

    def last(self, worker: int) -> list[tuple[int, float]]:
        """Samples begun last by the worker's threads, and how many seconds ago; the oldest first."""
        now = time.monotonic_ns()
        rows = self._numbers[worker].tolist()
        return sorted(((number - 1, (now - at) / 1e9) for number, at in rows if number > 0), key=lambda one: -one[1])


@dataclass(frozen=True)
class WorkerInit:
    """Runs first in each worker. torch has seeded itself, Python's random and numpy by then, and uses one thread."""

    user: Callable[[int], None] | None  # the loader's ``worker_init_fn``, which runs after this
    heartbeats: Heartbeats | None  # where the worker notes the samples that it begins
    pieces: int  # of shared memory that batches are made in again, at most
    epochs: Mapping[SharedEpoch, int]  # where a dataset's epoch isn't what the main process sets
    times: StageTimes | None  # what the time of the stages is added to

    def __call__(self, worker: int) -> None:
        _silence_exit()
        # As many threads as cores in each worker would get in each other's way. 0 is one thread, too, but leaves alone
        # the pool that a forked worker inherits without its threads; setNumThreads(1) waits for them forever.
        cv2.setNumThreads(0)
        info: Any = get_worker_info()
        if isinstance(info.dataset, BatchFetcher):
            fetcher = info.dataset
            object.__setattr__(info, "dataset", fetcher.dataset)  # for the user, who knows no other
            begin_worker(self.pieces)
        for count, epoch in self.epochs.items():
            count.stay(epoch)
        datasets = list(image_datasets(info.dataset))
        if self.heartbeats is not None:
            self.heartbeats.listen(worker, datasets)
        if self.times is not None:
            for part in datasets:
                part._fastpipe.measure(self.times.row(worker))
        if self.user is not None:
            self.user(worker)
        parent = multiprocessing.parent_process()
        if parent is not None and not parent.is_alive():
            sys.exit()  # torch looks from now on whether the parent changes, and would wait for this one for ever


def _silence_exit() -> None:
    """Keeps a worker's process from printing to the terminal when it ends.

    Ctrl-C reaches every process of a terminal; the main process has the word, and ends its workers. And a worker that
    was spawned ends while the thread that sends its batches may be at work in torch's C++ code, where the interpreter
    kills it: "terminate called without an active exception". That thread is waited for.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.excepthook = _print_error  # multiprocessing calls it in the thread that hands memory over
    atexit.register(_wait_for_senders)  # not run in forked workers, which end without taking the interpreter down


def _print_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, ConnectionError):  # the main process went away while it was handed something
        sys.__excepthook__(kind, error, trace)


def _wait_for_senders() -> None:
    for thread in threading.enumerate():
        if thread.name == "QueueFeederThread":
            thread.join(_LAST_BATCH_S)  # it may hang in a full pipe that nobody reads any more: harmless
