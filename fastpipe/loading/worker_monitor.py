"""Monitors workers: names the sample that each has begun when one dies, stalls or finds no shared memory.

Workers note the sample that they begin in shared memory, which costs 0.1 µs a sample. The main process looks there only
when something went wrong.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import gc
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from fastpipe.datasets import ImageDataset
from fastpipe.environment import no_descriptors_left
from fastpipe.errors import FastpipeWarning, LoaderError
from fastpipe.executor import BatchSpec, Slots, StageTimes
from fastpipe.loading.fetcher import BatchFetcher
from fastpipe.loading.hand_over import NO_DESCRIPTORS, NO_ROOM

PATIENCE_S = 60.0
"""After so long without a batch, a loader without a timeout says what it waits for, once."""

# Parts of torch's messages.
_TIMED_OUT = "timed out"
_FROM_A_WORKER = "in DataLoader worker process"

_POLL_S = 5.0
_LAST_BATCH_S = 1.0
_DYING_S = 1.0
_NAMED_WORKERS = 4  # workers in a message
_CAUSES = {
    "SIGKILL": "Something outside killed it, most often the system or the container for using too much memory: `dmesg` "
    "or the container's events tell. Use fewer workers or threads, a smaller prefetch_factor or batch_size, or more "
    "memory",
    "SIGBUS": "Memory that was promised isn't there: shared memory is too small for the batches (`df -h /dev/shm`; "
    "docker run --shm-size=8g enlarges it), or a file shrank while it was mapped",
    "SIGSEGV": "A library crashed, perhaps on the file named here: `fastpipe check` on it shows which reader does, and "
    'reader="pil" goes around the others',
    "SIGABRT": "A library gave up, as C++ code does on an error that nobody catches: its message is above this one",
    "SIGTERM": "Something asked it to stop: a job scheduler at the end of its time, or another process of yours",
}
_NO_ROOM_CAUSE = (
    "Shared memory is too small for what it had to send: enlarge it (`df -h /dev/shm` shows it; docker run "
    "--shm-size=8g), or use a smaller batch_size, prefetch_factor or num_workers, and keep no batches of earlier steps"
)
_OTHER_CAUSE = "Its own message, if it left one, is above this one"


class Heartbeats:
    """The sample that each thread of each worker began last, and when; in memory that all processes share.

    A worker that is forked inherits it; one that is spawned gets a handle, since torch's process pickler sends tensors
    that way.
    """

    def __init__(self, workers: int, threads: int) -> None:
        zeros = torch.zeros((workers, threads + 1, 2), dtype=torch.int64)
        self._numbers: torch.Tensor = zeros.share_memory_()  # type: ignore[no-untyped-call]

    def of_worker(self, worker: int) -> Callable[[int, int], Callable[[int], None]]:
        """Makes, in a worker's process, a function that makes the function that notes a dataset's samples."""
        numbers = self._numbers[worker].numpy()
        count = len(numbers)
        rows = [memoryview(row) for row in numbers]
        taken = iter(range(1 << 62))
        mine = threading.local()

        def for_dataset(first: int, length: int) -> Callable[[int], None]:
            def note(index: int, now: Callable[[], int] = time.monotonic_ns) -> None:
                try:
                    row = mine.row
                except AttributeError:
                    row = mine.row = rows[next(taken) % count]
                row[0] = first + (index if index >= 0 else index + length) + 1
                row[1] = now()

            return note

        return for_dataset

    def last(self, worker: int) -> list[tuple[int, float]]:
        """Samples begun last by the worker's threads, and how many seconds ago; the oldest first."""
        now = time.monotonic_ns()
        rows = self._numbers[worker].tolist()
        return sorted(((number - 1, (now - at) / 1e9) for number, at in rows if number > 0), key=lambda one: -one[1])


# What tells workers to end, kept apart from the iterators: where one goes as part of a ring of references (every
# exception that was caught with a name makes one), Python's collector closes the queues in it first, and then torch
# waits five seconds for each worker, which can't hear it.
_channels: dict[int, tuple[Any, ...]] = {}


class MonitoredIterator(_MultiProcessingDataLoaderIter):
    """torch's iterator; it says what it waits for where it waits for long, and ends its workers at once.

    torch's handler of SIGCHLD raises wherever the main process is when a worker dies: in the middle of an optimizer's
    step, of an ``except`` or of ``__del__``. Here it knows of the workers only while a batch is waited for, where it is
    needed: a worker that dies while it writes to the pipe leaves half a message, which nothing else ends the wait for.
    """

    heartbeats: Heartbeats | None = None
    datasets: tuple[ImageDataset, ...] = ()
    slots: Slots | None = None
    times: StageTimes | None = None
    _waiting_since: float | None = None
    _warned = False

    def __init__(self, loader: Any, options: BatchSpec | None = None) -> None:
        self._options = options
        self._owner = os.getpid()
        self._shutdown = False
        try:
            super().__init__(loader)
        except Exception as error:
            self._worker_pids_set = True  # torch says so a step after it has set them
            _unregister_workers(self)
            better = worker_error(self, error, loader.timeout)
            close(self)
            if better is not None:  # a worker died before all were started
                raise better from error
            raise
        _channels[id(self)] = (self._index_queues, self._worker_result_queue, self._workers, self._workers_done_event)

    @property
    def _dataset(self) -> Any:  # what workers get
        return self._given if self._options is None else BatchFetcher(self._given, self._options)

    @_dataset.setter
    def _dataset(self, dataset: Any) -> None:
        self._given = dataset

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        _unregister_workers(self)  # the last step of torch's __init__ has set them
        self._index_sampler = loader._index_sampler  # of this iteration
        super()._reset(loader, first_iter)

    def _shutdown_workers(self) -> None:
        if os.getpid() != self._owner:
            self._shutdown = True  # garbage that a fork has inherited; the workers aren't its to end
        elif not self._shutdown and dead_workers(self):
            close(self)
        try:
            super()._shutdown_workers()
        finally:
            _channels.pop(id(self), None)

    def _try_get_data(self, timeout: float = 5.0) -> Any:
        now = time.monotonic()
        self._waiting_since = now if self._waiting_since is None else self._waiting_since
        if not self._timeout and not self._warned and now - self._waiting_since >= PATIENCE_S:
            self._warned = True
            warn_of_wait(now - self._waiting_since, describe_wait(self))
        # Not longer at once: a signal that came while some object's __del__ was running raises nothing.
        found = self._poll(min(timeout, _POLL_S))
        while not found[0] and (left := now + timeout - time.monotonic()) > 0:
            found = self._poll(min(left, _POLL_S))
        if found[0]:
            self._waiting_since = None
        return found

    def _poll(self, seconds: float) -> Any:
        try:
            _register_workers(self)
            if dead := dead_workers(self):  # since the last batch
                raise RuntimeError(f"DataLoader worker (pid {dead[0][1].pid}) exited unexpectedly")
            return super()._try_get_data(seconds)  # type: ignore[no-untyped-call]
        finally:
            _unregister_workers(self)


def _register_workers(iterator: Any) -> None:
    """Tells torch's handler of SIGCHLD of the iterator's workers."""
    _unregister_workers(iterator)  # an interrupt may have left them there
    iterator._worker_pids_set = True
    torch._C._set_worker_pids(id(iterator), tuple(process.pid for process in iterator._workers))


def _unregister_workers(iterator: Any) -> None:
    """Has torch's handler of SIGCHLD forget the iterator's workers."""
    if getattr(iterator, "_worker_pids_set", False):
        with contextlib.suppress(ValueError):  # it knew of none yet
            torch._C._remove_worker_pids(id(iterator))
        iterator._worker_pids_set = False


def dead_workers(iterator: Any) -> list[tuple[int, Any]]:
    """Numbers and processes of the workers that ended otherwise than they should."""
    workers = enumerate(getattr(iterator, "_workers", ()))
    return [(number, process) for number, process in workers if process.exitcode not in (None, 0)]


def worker_error(iterator: Any, error: Exception, timeout_s: float) -> LoaderError | None:
    """The error to raise in place of one of torch's iterator, if that is about its workers; else None."""
    text = str(error)
    reason = no_descriptors_left(error)
    if reason and getattr(error, "filename", None) is None and not isinstance(error, LoaderError):
        return None if _FROM_A_WORKER in text else LoaderError(f"{reason}.")
    if not isinstance(error, (RuntimeError, EOFError, ConnectionError)) or _FROM_A_WORKER in text:
        return None
    if isinstance(error, LoaderError):  # says it already
        return None
    if _TIMED_OUT in text:
        return timed_out(timeout_s, describe_wait(iterator))
    dead = dead_workers(iterator)
    if not dead and not isinstance(error, RuntimeError):  # the pipe to a worker broke: it may be dying still
        deadline = time.monotonic() + _DYING_S
        while not (dead := dead_workers(iterator)) and time.monotonic() < deadline:
            time.sleep(0.01)
    if not dead and "exited unexpectedly" not in text and "killed by signal" not in text:
        return None
    lines = [describe_exit(iterator, number, process) for number, process in dead] or [text.strip().rstrip(".") + "."]
    return LoaderError(" ".join(lines))


def timed_out(timeout_s: float, who: str) -> LoaderError:
    """The error where no batch has come in time; `who` makes it, and what with."""
    return LoaderError(
        f"no batch for {timeout_s:g} s (timeout={timeout_s:g}). {who} If the file can be read in another program, "
        "raise timeout; else its disk, or the network file system under it, doesn't answer."
    )


def warn_of_wait(seconds: float, who: str) -> None:
    """Warns that no batch comes, where there is no timeout."""
    warnings.warn(
        f"no batch for {seconds:.0f} s. {who} Give the DataLoader timeout=SECONDS to make this an error.",
        FastpipeWarning,
        stacklevel=3,
    )


def describe_exit(iterator: Any, number: int, process: Any) -> str:
    name = ""
    if process.exitcode < 0:
        with contextlib.suppress(ValueError):
            name = signal.Signals(-process.exitcode).name
    how = f"was killed by {name or f'signal {-process.exitcode}'}"
    if process.exitcode > 0:
        how = f"ended with exit status {process.exitcode}"
    last = _last_sample(iterator, number)
    place = f"; it{last}" if last else ""
    cause = _CAUSES.get(name, _OTHER_CAUSE)
    if process.exitcode == NO_ROOM:
        cause = _NO_ROOM_CAUSE
    elif process.exitcode == NO_DESCRIPTORS:
        cause = no_descriptors_left(OSError(errno.EMFILE, ""))
    return f"DataLoader worker {number} (pid {process.pid}) {how}{place}. {cause}."


def describe_wait(iterator: Any) -> str:
    """Names the worker that makes the next batch, and the sample that each worker began last."""
    workers = getattr(iterator, "_workers", ())
    # Tasks without a result are (worker,); with one, they have a second part.
    task = getattr(iterator, "_task_info", {}).get(getattr(iterator, "_rcvd_idx", -1), ())
    awaited = task[0] if len(task) == 1 else None
    order = sorted(range(len(workers)), key=lambda number: number != awaited)
    lines = [
        f"Worker {number} (pid {workers[number].pid}){', whose batch is next,' if number == awaited else ''}"
        f"{_last_sample(iterator, number) or ' has begun no sample that is known'}."
        for number in order[:_NAMED_WORKERS]
    ]
    more = len(order) - len(lines)
    return " ".join(lines) + (f" There are {more} more workers." if more else "")


def _last_sample(iterator: Any, worker: int) -> str:
    """Names the sample that a worker is at: the one begun longest ago, by any of its threads."""
    heartbeats: Heartbeats | None = getattr(iterator, "heartbeats", None)
    last = [] if heartbeats is None else heartbeats.last(worker)
    if not last:
        return ""
    number, seconds = last[0]
    for dataset in iterator.datasets:
        if number < len(dataset):
            with contextlib.suppress(Exception):
                return f" began {dataset.sample(number)[0]} (sample {number}) {seconds:.1f} s ago"
            return f" began sample {number} {seconds:.1f} s ago"
        number -= len(dataset)
    return ""


def close(iterator: Any) -> None:
    """Ends an iterator whose workers are dead or stuck, at once.

    torch's own way waits five seconds for each worker, and for locks that a dead one may hold for ever.
    """
    _unregister_workers(iterator)  # else torch's handler of SIGCHLD takes what follows for an accident
    iterator._shutdown = True
    _channels.pop(id(iterator), None)
    if hasattr(iterator, "_pin_memory_thread_done_event"):
        iterator._pin_memory_thread_done_event.set()  # it looks every five seconds
    workers = getattr(iterator, "_workers", ())
    for process in workers:
        process.kill()
    for process in workers:
        process.join(_LAST_BATCH_S)  # one that waits for a disk can't even be killed
    for queue in (*getattr(iterator, "_index_queues", ()), getattr(iterator, "_worker_result_queue", None)):
        if queue is not None:
            queue.cancel_join_thread()
            queue.close()


def silence_exit() -> None:
    """Keeps a worker's process from printing to the terminal when it ends.

    Ctrl-C reaches every process of a terminal; the main process has the word, and ends its workers. And a worker that
    was spawned ends while the thread that sends its batches may be at work in torch's C++ code, where the interpreter
    kills it: "terminate called without an active exception". That thread is waited for. And garbage that a fork
    inherits stays where it is: an iterator of torch's among it would complain that its workers aren't this process's.
    """
    gc.freeze()
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
