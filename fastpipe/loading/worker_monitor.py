"""torch's iterator over workers, monitored: names the sample that each has begun when one dies or stalls."""

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
import warnings
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import Process
from typing import Any

import torch
from torch.utils.data import IterableDataset
from torch.utils.data.dataloader import _DatasetKind, _MultiProcessingDataLoaderIter

from fastpipe.datasets.wrappers import image_datasets
from fastpipe.environment import no_descriptors_left
from fastpipe.errors import FastpipeWarning, LoaderError
from fastpipe.executor import SharedEpoch, StageTimes
from fastpipe.forks import garbage_left_to_parent
from fastpipe.loading.base import LoaderBase
from fastpipe.loading.fetcher import BatchFetcher
from fastpipe.loading.worker import Heartbeats, WorkerInit
from fastpipe.memory.shm_pool import close_pieces
from fastpipe.memory.worker_queue import NO_DESCRIPTORS, NO_ROOM, with_direct_queues

PATIENCE_S = 60.0
"""After so long without a batch, a loader without a timeout says what it waits for, once."""

# Parts of torch's messages.
_TIMED_OUT = "timed out"
_DIED = ("exited unexpectedly", "killed by signal")

_POLL_S = 5.0
_KILLED_S = 1.0
_DYING_S = 1.0
_SOON_S = 0.1
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

# What tells workers to end, kept apart from the iterators: where one goes as part of a ring of references (every
# exception that was caught with a name makes one), Python's collector closes the queues in it first, and then torch
# waits five seconds for each worker, which can't hear it.
_channels: dict[int, tuple[object, ...]] = {}


class MonitoredIterator(_MultiProcessingDataLoaderIter):
    """torch's iterator over the batches of workers; it says what it waits for where it waits for long.

    Where a worker dies or stalls, or descriptors run out, all workers end at once, and a `LoaderError` says what
    happened. torch's handler of SIGCHLD raises wherever the main process is when a worker dies: in the middle of an
    optimizer's step, of an ``except`` or of ``__del__``. Here it knows of the workers only while a batch is waited for,
    where it is needed: a worker that dies while it writes to the pipe leaves half a message, which nothing else ends
    the wait for.

    Args:
        loader: the `fastpipe.DataLoader`.
        epochs, times: as of `WorkerInit`.
        stays: its workers stay for iterations to come.
    """

    def __init__(
        self,
        loader: LoaderBase,
        epochs: Mapping[SharedEpoch, int],
        times: StageTimes | None = None,
        stays: bool = False,
    ) -> None:
        self.datasets = tuple(image_datasets(loader.dataset))
        self.heartbeats: Heartbeats | None = None
        self.times = times
        if self.datasets:
            threads = max(part.threads if loader.threads is None else loader.threads for part in self.datasets)
            self.heartbeats = Heartbeats(loader.num_workers, threads)
        self._sent: dict[int, object] = {}  # what the sampler gave for each batch that workers were asked for
        self._waiting_since: float | None = None
        self._warned = False
        self._owner = os.getpid()
        # As torch has it when its own constructor fails at the first step.
        self._shutdown = self._worker_pids_set = False
        self._workers = []
        self._index_queues: list[Any] = []
        self._worker_result_queue: Any = None
        given = copy.copy(loader)
        vars(given)["persistent_workers"] = stays
        if self.datasets and loader._auto_collation and not isinstance(loader.dataset, IterableDataset):
            vars(given)["dataset"] = BatchFetcher(loader.dataset, loader._batch_spec)  # torch wouldn't have it set
        pieces = (loader.prefetch_factor or 2) + 2  # for batches made ahead, and two that the user's loop holds
        given.worker_init_fn = WorkerInit(loader.worker_init_fn, self.heartbeats, pieces, epochs, times)
        given.multiprocessing_context = with_direct_queues(loader.multiprocessing_context)
        try:
            with _interrupts_deferred(), garbage_left_to_parent():
                super().__init__(given)
        except Exception as error:  # raised again, or as what it comes from
            self._worker_pids_set = True  # torch says so a step after it has set them
            self._unregister_workers()
            better = self._explained(error)
            self._kill()
            if better is not None:  # a worker died before all were started
                raise better from error
            raise
        _channels[id(self)] = (self._index_queues, self._worker_result_queue, self._workers, self._workers_done_event)

    @property
    def is_over(self) -> bool:
        """Whether its workers have ended, or one has died: they make no further epoch."""
        return self._shutdown or bool(self._dead_workers())

    @property
    def ready(self) -> int:
        """Batches that are made and wait to be asked for."""
        ready = sum(len(info) == 2 for info in self._task_info.values())
        with contextlib.suppress(NotImplementedError, OSError):  # macOS doesn't tell the size of a process's queue
            ready += self._data_queue.qsize()
        return ready

    @property
    def is_drained(self) -> bool:
        """Whether all batches were handed out; False where the dataset alone knows."""
        return not self._task_info and self._dataset_kind == _DatasetKind.Map

    def rest(self) -> Iterator[object] | None:
        """The sampler's output for the batches that weren't handed out; None where the dataset alone knows."""
        if self._dataset_kind != _DatasetKind.Map:
            return None
        return itertools.chain([self._sent[number] for number in sorted(self._task_info)], self._sampler_iter)

    def _next_index(self) -> object:
        indices = super()._next_index()  # type: ignore[no-untyped-call]
        self._sent = {number: sent for number, sent in self._sent.items() if number in self._task_info}
        self._sent[self._send_idx] = indices
        return indices

    def _reset(self, loader: LoaderBase, first_iter: bool = False) -> None:
        self._unregister_workers()  # the last step of torch's __init__ has set them
        self._index_sampler = loader._index_sampler  # of this iteration
        super()._reset(loader, first_iter)

    def _shutdown_workers(self) -> None:
        if os.getpid() != self._owner:
            self._shutdown = True  # garbage that a fork has inherited; the workers aren't its to end
        elif not self._shutdown and self._dead_workers():
            self._kill()
        try:
            super()._shutdown_workers()
        finally:
            _channels.pop(id(self), None)
            close_pieces(process.name for process in self._workers)

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if is_ending():  # modules are empty, and torch ends no workers then
            return
        with _interrupts_deferred(_interrupt_soon):  # Python ignores what is raised here: the training would go on
            super().__del__()

    def _get_data(self) -> Any:
        try:
            return super()._get_data()  # type: ignore[no-untyped-call]
        except Exception as error:  # none of the user's: those come in place of a batch
            better = self._explained(error)
            if better is None:
                raise
            self._kill()
            raise better from error

    def _try_get_data(self, timeout: float = 5.0) -> Any:
        now = time.monotonic()
        self._waiting_since = now if self._waiting_since is None else self._waiting_since
        if not self._timeout and not self._warned and now - self._waiting_since >= PATIENCE_S:
            self._warned = True
            warn_of_wait(now - self._waiting_since, self._describe_wait())
        # Not longer at once: a signal that came while some object's __del__ was running raises nothing.
        found = self._poll(min(timeout, _POLL_S))
        while not found[0] and (left := now + timeout - time.monotonic()) > 0:
            found = self._poll(min(left, _POLL_S))
        if found[0]:
            self._waiting_since = None
        return found

    def _poll(self, seconds: float) -> Any:
        try:
            self._register_workers()
            if dead := self._dead_workers():  # since the last batch
                raise RuntimeError(f"DataLoader worker (pid {dead[0][1].pid}) {_DIED[0]}")
            return super()._try_get_data(seconds)  # type: ignore[no-untyped-call]
        finally:
            self._unregister_workers()

    def _register_workers(self) -> None:
        """Tells torch's handler of SIGCHLD of the workers."""
        self._unregister_workers()  # an interrupt may have left them there
        self._worker_pids_set = True
        torch._C._set_worker_pids(id(self), tuple(process.pid or 0 for process in self._workers))

    def _unregister_workers(self) -> None:
        """Has torch's handler of SIGCHLD forget the workers."""
        if self._worker_pids_set:
            with contextlib.suppress(ValueError):  # it knew of none yet
                torch._C._remove_worker_pids(id(self))
            self._worker_pids_set = False

    def _dead_workers(self) -> list[tuple[int, Process]]:
        """Numbers and processes of the workers that ended otherwise than they should."""
        workers = enumerate(self._workers)
        return [(number, process) for number, process in workers if process.exitcode not in (None, 0)]

    def _explained(self, error: Exception) -> LoaderError | None:
        """The error to raise in place of one of torch's that is about the workers; None for others."""
        if reason := no_descriptors_left(error):
            return LoaderError(f"{reason}.")
        if isinstance(error, LoaderError) or not isinstance(error, (RuntimeError, EOFError, ConnectionError)):
            return None
        text = str(error)
        if _TIMED_OUT in text:
            return timed_out(self._timeout, self._describe_wait())
        dead = self._dead_workers()
        if not dead and not isinstance(error, RuntimeError):  # the pipe to a worker broke: it may be dying still
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
        """Names the sample that a worker is at: the one begun longest ago, by any of its threads."""
        last = [] if self.heartbeats is None else self.heartbeats.last(worker)
        if not last:
            return ""
        number, seconds = last[0]
        for dataset in self.datasets:
            if number < len(dataset):
                with contextlib.suppress(Exception):  # `sample` may be the user's; a message needs no more
                    return f" began {dataset.sample(number)[0]} (sample {number}) {seconds:.1f} s ago"
                return f" began sample {number} {seconds:.1f} s ago"
            number -= len(dataset)
        return ""

    def _kill(self) -> None:
        """Ends workers of which one is dead or stuck, at once.

        torch's own way waits five seconds for each worker, and for locks that a dead one may hold for ever.
        """
        self._unregister_workers()  # else torch's handler of SIGCHLD takes what follows for an accident
        self._shutdown = True
        _channels.pop(id(self), None)
        if hasattr(self, "_pin_memory_thread_done_event"):
            self._pin_memory_thread_done_event.set()  # it looks every five seconds
        for process in self._workers:
            process.kill()
        for process in self._workers:
            process.join(_KILLED_S)  # one that waits for a disk can't even be killed
        for queue in (*self._index_queues, self._worker_result_queue):
            if queue is not None:
                queue.cancel_join_thread()
                queue.close()


@contextlib.contextmanager
def _interrupts_deferred(interrupt: Callable[[], None] | None = None) -> Iterator[None]:
    """Has Ctrl-C wait until the block is over: one that comes while a process is forked would be lost.

    Python runs its handler at the first instruction after the fork, most often in a function of
    ``os.register_at_fork``, as its own logging has one, and ignores what is raised there: the training goes on. And a
    worker that is forked meanwhile gets as far as where it ignores Ctrl-C.

    Args:
        interrupt: what is called after the block if Ctrl-C came; None for the handler, here and now.
    """
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield  # another thread is never interrupted
        return
    came: list[Any] = []
    signal.signal(signal.SIGINT, lambda *arguments: came.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came and interrupt is not None:
            interrupt()
        elif came:
            handler(*came[-1])


def _interrupt_soon() -> None:
    """Has Ctrl-C come again in a moment, as the main thread is where nothing can be raised."""

    def interrupt() -> None:
        if sys.platform == "win32":
            _thread.interrupt_main()
        else:  # also out of a call of the system
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    timer = threading.Timer(_SOON_S, interrupt)
    timer.daemon = True
    with contextlib.suppress(RuntimeError):  # the interpreter is ending
        timer.start()


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
