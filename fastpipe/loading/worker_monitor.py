"""torch's iterator over workers; when a worker dies or stalls, it names the sample that each worker has begun."""

from __future__ import annotations

import _thread
import contextlib
import copy
import errno
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import Process
from types import FrameType
from typing import Any, TypeAlias

import torch
from torch.utils.data import IterableDataset
from torch.utils.data.dataloader import _DatasetKind, _MultiProcessingDataLoaderIter

from fastpipe.datasets import ImageDataset
from fastpipe.datasets.bad_files import warn_again
from fastpipe.datasets.wrappers import image_datasets
from fastpipe.environment import no_descriptors_left, opencv
from fastpipe.errors import LoaderError
from fastpipe.executor import StageTimes
from fastpipe.foreign_code import outcome_of
from fastpipe.forks import garbage_left_to_parent
from fastpipe.loading.base import LoaderBase
from fastpipe.loading.fetcher import BatchFetcher
from fastpipe.loading.worker import Heartbeats, WorkerInit
from fastpipe.memory.shm_pool import close_pieces
from fastpipe.memory.worker_queue import NO_DESCRIPTORS, NO_ROOM, with_direct_queues

PATIENCE_S = 60.0
"""Seconds without a batch after which a loader without a timeout warns once, and says what it waits for."""

# Parts of torch's messages, to recognise them.
_TIMED_OUT = "timed out"
_DIED = ("exited unexpectedly", "killed by signal")

_POLL_S = 5.0
_KILLED_S = 1.0
_DYING_S = 1.0
_SOON_S = 0.1
_NAMED_WORKERS = 4  # at most so many workers are named in a message
_CAUSES = {
    "SIGKILL": "Something outside killed it, most often the system or the container for using too much memory: look "
    "into `dmesg` or the container's events. Use fewer workers or threads, a smaller prefetch_factor or batch_size, or "
    "more memory",
    "SIGBUS": "Mapped memory isn't there: shared memory is too small for the batches (`df -h /dev/shm` shows its size, "
    "docker run --shm-size=8g enlarges it), or a file shrank while it was mapped",
    "SIGSEGV": "A library crashed, perhaps on the file named here: `fastpipe check` on it shows which reader does, and "
    'reader="pil" avoids the others',
    "SIGABRT": "A library aborted, as C++ code does on an uncaught exception: its message is above this one",
    "SIGTERM": "Something asked it to stop: a job scheduler at its time limit, or another process of yours",
}
_NO_ROOM_CAUSE = (
    "Shared memory is too small for what it had to send: enlarge it (`df -h /dev/shm` shows it; docker run "
    "--shm-size=8g), or use a smaller batch_size, prefetch_factor or num_workers, and keep no batches of earlier steps"
)
_OTHER_CAUSE = "Its own message, if it left one, is above this one"

# The queues and events that tell workers to end, referenced here so that they outlive the iterator: if it is part of a
# reference cycle (each caught and named exception makes one), the garbage collector would close the queues first, and
# torch would then wait five seconds for each worker, which gets no message.
_channels: dict[int, tuple[object, ...]] = {}

Received: TypeAlias = tuple[bool, object]
"""Whether a message came from a worker, and the message."""


class MonitoredIterator(_MultiProcessingDataLoaderIter):
    """torch's iterator over the batches of workers, which says what it waits for if a batch takes long.

    If a worker dies or stalls, or descriptors run out, all workers are ended at once, and a `LoaderError` says what
    happened. When a worker dies, torch's handler of SIGCHLD raises wherever the main process is: in the middle of an
    optimizer's step, of an ``except`` or of ``__del__``. Here it is given the workers' ids only during the wait for a
    batch. It is needed there: a worker that dies while it writes to the pipe leaves half a message, and nothing else
    would end the wait for the other half.

    Args:
        loader: the `fastpipe.DataLoader`; its epochs are fixed in the workers, unless these are persistent.
        times: the rows of times that the workers' stages add to; None to measure nothing.
        is_persistent: the workers stay for later epochs.
    """

    def __init__(self, loader: LoaderBase, times: StageTimes | None = None, *, is_persistent: bool = False) -> None:
        self.datasets = tuple(image_datasets(loader.dataset))
        self.heartbeats: Heartbeats | None = None
        self.times = times
        if self.datasets:
            threads = max(inner.threads if loader.threads is None else loader.threads for inner in self.datasets)
            self.heartbeats = Heartbeats(loader.num_workers, threads)
        self._sent: dict[int, object] = {}  # the sampler's output for each batch requested from workers
        self._waiting_since: float | None = None
        self._warned = False
        self._owner = os.getpid()
        # The attributes that torch's methods need if its constructor fails early.
        self._shutdown = self._worker_pids_set = False
        self._workers = []
        self._index_queues = []
        self._worker_result_queue: Any = None
        given = copy.copy(loader)
        vars(given)["persistent_workers"] = is_persistent
        if self.datasets and loader._auto_collation and not isinstance(loader.dataset, IterableDataset):
            # By vars(): torch's loader refuses to have the attribute set.
            vars(given)["dataset"] = BatchFetcher(loader.dataset, loader._batch_spec)
        pieces = (loader.prefetch_factor or 2) + 2  # for batches made ahead, and two that the user's loop holds
        fixed = {} if is_persistent else loader._epochs
        given.worker_init_fn = WorkerInit(loader.worker_init_fn, self.heartbeats, pieces, fixed, times)
        given.multiprocessing_context = with_direct_queues(loader.multiprocessing_context)
        opencv()  # imported before workers are forked, each of which sets its threads
        try:
            with _interrupts_deferred(), garbage_left_to_parent():
                super().__init__(given)
        except Exception as error:  # raised again, or as a LoaderError
            self._worker_pids_set = True  # torch may have set the ids without this flag
            self._unregister_workers()
            better = self._explained(error)
            self._kill()
            if better is not None:  # a worker died before all were started
                raise better from error
            raise
        _channels[id(self)] = (self._index_queues, self._worker_result_queue, self._workers, self._workers_done_event)

    @property
    def is_over(self) -> bool:
        """True if the workers have ended, or one has died, so that they can't make another epoch."""
        return self._shutdown or bool(self._dead_workers())

    @property
    def ready(self) -> int:
        """The number of batches that are made and not requested yet."""
        ready = sum(len(info) == 2 for info in self._task_info.values())
        with contextlib.suppress(NotImplementedError, OSError):  # macOS can't tell a queue's size
            ready += self._data_queue.qsize()
        return ready

    @property
    def is_drained(self) -> bool:
        """True if all batches were handed out; False for an iterable dataset, whose length isn't known."""
        return not self._task_info and self._dataset_kind == _DatasetKind.Map

    def rest(self) -> Iterator[object] | None:
        """The sampler's output for the batches that weren't handed out; None for an iterable dataset."""
        if self._dataset_kind != _DatasetKind.Map:
            return None
        return itertools.chain([self._sent[number] for number in sorted(self._task_info)], self._sampler_iter)

    def _next_index(self) -> object:
        indices = super()._next_index()  # type: ignore[no-untyped-call]
        self._sent = {number: sent for number, sent in self._sent.items() if number in self._task_info}
        self._sent[self._send_idx] = indices
        return indices

    def _reset(self, loader: LoaderBase, first_iter: bool = False) -> None:
        self._unregister_workers()  # torch's __init__ registered them just before
        self._index_sampler = loader._index_sampler  # this iteration's
        super()._reset(loader, first_iter)

    def _shutdown_workers(self) -> None:
        if os.getpid() != self._owner:
            self._shutdown = True  # a copy inherited by a fork, which must not end its parent's workers
        elif not self._shutdown and self._dead_workers():
            self._kill()
        try:
            super()._shutdown_workers()
        finally:
            _channels.pop(id(self), None)
            close_pieces(process.name for process in self._workers)

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if is_ending():  # modules are already cleared, and torch doesn't end workers then
            return
        with _interrupts_deferred(_interrupt_soon):  # a KeyboardInterrupt raised in __del__ would be lost
            super().__del__()

    def _get_data(self) -> object:
        try:
            return super()._get_data()  # type: ignore[no-untyped-call]
        except Exception as error:  # not the user's: torch passes their errors in place of a batch
            better = self._explained(error)
            if better is None:
                raise
            self._kill()
            raise better from error

    def _try_get_data(self, timeout: float = 5.0) -> Received:
        now = time.monotonic()
        self._waiting_since = now if self._waiting_since is None else self._waiting_since
        if not self._timeout and not self._warned and now - self._waiting_since >= PATIENCE_S:
            self._warned = True
            warn_of_wait(now - self._waiting_since, self._describe_wait())
        # Wait in short steps: a SIGCHLD that arrives while some __del__ runs raises nothing, and is found by polling.
        received = self._poll(min(timeout, _POLL_S))
        while not received[0] and (left := now + timeout - time.monotonic()) > 0:
            received = self._poll(min(left, _POLL_S))
        if received[0]:
            self._waiting_since = None
        return received

    def _poll(self, seconds: float) -> Received:
        try:
            self._register_workers()
            if dead := self._dead_workers():  # died since the last batch
                raise RuntimeError(f"DataLoader worker (pid {dead[0][1].pid}) {_DIED[0]}")
            received: Received = super()._try_get_data(seconds)  # type: ignore[no-untyped-call]
            return received
        finally:
            self._unregister_workers()

    def _register_workers(self) -> None:
        """Registers the workers with torch's handler of SIGCHLD."""
        self._unregister_workers()  # after an interrupt they may still be registered
        self._worker_pids_set = True
        torch._C._set_worker_pids(id(self), tuple(process.pid or 0 for process in self._workers))

    def _unregister_workers(self) -> None:
        """Removes the workers from torch's handler of SIGCHLD."""
        if self._worker_pids_set:
            with contextlib.suppress(ValueError):  # they weren't registered yet
                torch._C._remove_worker_pids(id(self))
            self._worker_pids_set = False

    def _dead_workers(self) -> list[tuple[int, Process]]:
        """Numbers and processes of the workers that ended with an error."""
        workers = enumerate(self._workers)
        return [(number, process) for number, process in workers if process.exitcode not in (None, 0)]

    def _explained(self, error: Exception) -> LoaderError | None:
        """Returns the error to raise in place of torch's error about the workers; None for other errors."""
        if reason := no_descriptors_left(error):
            return LoaderError(f"{reason}.")
        if isinstance(error, LoaderError) or not isinstance(error, (RuntimeError, EOFError, ConnectionError)):
            return None
        text = str(error)
        if _TIMED_OUT in text:
            return timed_out(self._timeout, self._describe_wait())
        dead = self._dead_workers()
        if not dead and not isinstance(error, RuntimeError):  # a worker's pipe broke: it may be about to die
            deadline = time.monotonic() + _DYING_S
            while not (dead := self._dead_workers()) and time.monotonic() < deadline:
                time.sleep(0.01)
        if dead:
            return LoaderError(" ".join(self._describe_exit(number, process) for number, process in dead))
        return LoaderError(text.strip().rstrip(".") + ".") if any(died in text for died in _DIED) else None

    def _describe_exit(self, number: int, process: Process) -> str:
        name, status = "", process.exitcode or 0
        if status < 0:
            with contextlib.suppress(ValueError):
                name = signal.Signals(-status).name
        how = f"ended with exit status {status}" if status > 0 else f"was killed by {name or f'signal {-status}'}"
        last = self._last_sample(number)
        place = f"; it{last}" if last else ""
        cause = _CAUSES.get(name, _OTHER_CAUSE)
        if status == NO_ROOM:
            cause = _NO_ROOM_CAUSE
        elif status == NO_DESCRIPTORS:
            cause = no_descriptors_left(OSError(errno.EMFILE, ""))
        return f"DataLoader worker {number} (pid {process.pid}) {how}{place}. {cause}."

    def _describe_wait(self) -> str:
        """Names the worker that makes the next batch, and the sample that each worker began last."""
        # Tasks without a result are (worker,); with one, they have a second part.
        task = self._task_info.get(self._rcvd_idx, ())
        awaited = task[0] if len(task) == 1 else None
        order = sorted(range(len(self._workers)), key=lambda number: number != awaited)
        lines = [
            f"Worker {number} (pid {self._workers[number].pid}){', whose batch is next,' if number == awaited else ''}"
            f"{self._last_sample(number) or ' has begun no sample that is known'}."
            for number in order[:_NAMED_WORKERS]
        ]
        more = len(order) - len(lines)
        return " ".join(lines) + (f" There are {more} more workers." if more else "")

    def _last_sample(self, worker: int) -> str:
        """Names the sample that a worker is at: of its threads' current samples, the one begun longest ago."""
        last = [] if self.heartbeats is None else self.heartbeats.last(worker)
        if not last:
            return ""
        number, seconds = last[0]
        for dataset in self.datasets:
            if number < len(dataset):
                path = path_of(dataset, number)
                sample = f"sample {number}" if path is None else f"{path} (sample {number})"
                return f" began {sample} {seconds:.1f} s ago"
            number -= len(dataset)
        return ""

    def _kill(self) -> None:
        """Kills all workers at once, after one died or stalled.

        torch's own shutdown waits five seconds for each worker, and for locks that a dead worker may hold for ever.
        """
        self._unregister_workers()  # else torch's handler of SIGCHLD raises for the workers killed here
        self._shutdown = True
        _channels.pop(id(self), None)
        if hasattr(self, "_pin_memory_thread_done_event"):
            self._pin_memory_thread_done_event.set()  # the thread polls it every five seconds
        for process in self._workers:
            process.kill()
        for process in self._workers:
            process.join(_KILLED_S)  # bounded, as a process that waits for a disk can't be killed
        for queue in (*self._index_queues, self._worker_result_queue):
            if queue is not None:
                queue.cancel_join_thread()
                queue.close()


@contextlib.contextmanager
def _interrupts_deferred(interrupt: Callable[[], None] | None = None) -> Iterator[None]:
    """Defers Ctrl-C until the end of the block: during a fork it would be lost.

    Python runs its handler at the first instruction after the fork. That is usually in a function registered with
    ``os.register_at_fork`` (`logging` has one), where exceptions are ignored, so the training would go on. The deferral
    also covers a forked worker until it ignores Ctrl-C itself.

    Args:
        interrupt: called after the block if Ctrl-C came; None calls the handler at once.
    """
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield  # Python runs signal handlers in the main thread only
        return
    came: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came and interrupt is not None:
            interrupt()
        elif came:
            handler(*came[-1])


def _interrupt_soon() -> None:
    """Sends Ctrl-C again after ``_SOON_S`` seconds, as the main thread can't raise where it is now."""

    def interrupt() -> None:
        if sys.platform == "win32":
            _thread.interrupt_main()
        else:  # this also interrupts a system call
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    timer = threading.Timer(_SOON_S, interrupt)
    timer.daemon = True
    with contextlib.suppress(RuntimeError):  # the interpreter is ending
        timer.start()


def path_of(dataset: ImageDataset, index: int) -> str | None:
    """A sample's path, for a message; None if the dataset can't say it."""
    sample = outcome_of(lambda: dataset.sample(index))  # the method may be the user's
    return None if isinstance(sample, Exception) else sample[0]


def timed_out(timeout_s: float, who: str) -> LoaderError:
    """The error for a timeout; `who` is a sentence on the worker or thread that makes the batch."""
    return LoaderError(
        f"no batch for {timeout_s:g} s (timeout={timeout_s:g}). {who} If the file can be read in another program, "
        "raise timeout; else its disk, or the network file system under it, doesn't answer."
    )


def warn_of_wait(seconds: float, who: str) -> None:
    """Warns that no batch comes, for a loader without a timeout; `who` as in `timed_out`."""
    warn_again(f"no batch for {seconds:.0f} s. {who} Give the DataLoader timeout=SECONDS to make this an error.")
