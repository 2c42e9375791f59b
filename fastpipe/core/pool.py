"""Runs jobs: by a context in the calling thread, or by a pool of the library's own threads.

Each thread has its own context, made at its first use and freed with the thread. A context is plain memory, so that a
thread that forks can go on using its copy in the child.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING, overload

from fastpipe.core.addresses import address_of
from fastpipe.core.jobs import Job
from fastpipe.core.library import loaded, native, quick
from fastpipe.core.structs import Isa, RawJob

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Context:
    """Scratch memory for one thread at a time.

    Args:
        isa: an instruction set; None for the one that ``FASTPIPE_CORE`` chose.

    Raises:
        ReaderUnavailableError: the core isn't available.
        MemoryError: out of memory, or the machine lacks the instruction set.
    """

    __slots__ = ("_flip", "_free", "_look_up", "_owner", "_process", "_run", "address", "run_on_image")

    def __init__(self, isa: Isa | None = None) -> None:
        functions = native()
        self._free, self._run = functions.fpc_context_free, functions.fpc_run
        self._look_up, self._flip = functions.fpc_look_up, functions.fpc_flip_rgb
        self.run_on_image = functions.fpc_run_on_image
        """The C function, for `fastpipe.core.image_jobs`."""
        self._process, self._owner = os.getpid, os.getpid()
        self.address: int | None = functions.fpc_context_new(loaded().isa if isa is None else isa)
        if not self.address:
            raise MemoryError("no context for the core: there is no memory, or no such instruction set")

    def run(self, job: Job) -> int:
        """Runs a job and returns its `Status` as a plain int."""
        status: int = self._run(self.address, job.address)
        return status

    def run_series(self, job: Job, count: int, in_step: int, out_step: int) -> int:
        """Runs a job on `count` images in memory: pixels `in_step` bytes apart, results `out_step` bytes apart."""
        status: int = native().fpc_run_series(self.address, job.address, count, in_step, out_step)
        return status

    def look_up(self, image: NDArray[np.uint8], table: bytes, out: NDArray[np.uint8]) -> None:
        """Maps each byte by a table of 256 bytes, without a job; the arrays are contiguous, and may be the same."""
        self._look_up(self.address, address_of(image), image.size, table, address_of(out))

    def flip(self, image: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        """Mirrors left and right, without a job; the arrays are contiguous ``(H, W, 3)``."""
        height, width, _ = image.shape
        self._flip(self.address, address_of(image), height, width, address_of(out))

    def __del__(self) -> None:
        # In a forked child, a context that another thread was using may be in any state: it is leaked.
        # The functions are attributes, because modules are empty when the interpreter ends.
        if getattr(self, "address", None) and self._process() == self._owner:
            self._free(self.address)


class _Local(threading.local):
    """A thread's own context, made at its first use."""

    def __init__(self) -> None:
        self.context = Context()


_local: _Local | None = None


def thread_context() -> Context:
    """Returns this thread's own context.

    Raises:
        ReaderUnavailableError: the core isn't available; see `why_not`.
    """
    global _local
    local = _local
    if local is None:
        local = _local = _Local()
    return local.context


def run(job: Job) -> int:
    """Runs a job with this thread's own context and returns its `Status` as a plain int.

    Raises:
        ReaderUnavailableError: the core isn't available; see `why_not`.
    """
    return thread_context().run(job)


_STATUS_AT: int = RawJob.status.offset
_STATUS = Struct(f"@{_STATUS_AT}xi{ctypes.sizeof(RawJob) - _STATUS_AT - ctypes.sizeof(ctypes.c_int32)}x")


class JobArray(Sequence[Job]):
    """Jobs that are contiguous in memory, as `Pool.run` takes them."""

    def __init__(self, count: int) -> None:
        self.size = count
        self._raws = (RawJob * count)()
        self._jobs = [Job(raw) for raw in self._raws]
        self._bytes = memoryview(self._raws).cast("B")
        self.address = ctypes.addressof(self._raws)

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, index: int) -> Job: ...
    @overload
    def __getitem__(self, index: slice) -> list[Job]: ...
    def __getitem__(self, index: int | slice) -> Job | list[Job]:
        return self._jobs[index]

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs)

    def statuses(self, count: int) -> list[int]:
        """The `Status` of each of the first ``count`` jobs, as plain ints."""
        return [status for (status,) in _STATUS.iter_unpack(self._bytes[: count * _STATUS.size])]


class _Threads:
    """An fpc_pool, which lives as long as an object refers to it, such as a run."""

    __slots__ = ("__weakref__", "_end", "_process", "address", "owner")

    def __init__(self, threads: int) -> None:
        functions = native()
        # Set first, as a signal handler may raise once there is an address. (Modules are empty at interpreter exit.)
        self._process, self._end = os.getpid, (functions.fpc_pool_forget, functions.fpc_pool_free)
        self.owner = os.getpid()
        self.address: int | None = functions.fpc_pool_new(threads, loaded().isa)
        if not self.address:
            raise MemoryError(f"no pool of {threads} threads for the core")

    def __del__(self) -> None:
        if not getattr(self, "address", None):
            return
        # In a forked child, objects of other threads are destroyed before `_forget_pools` is called there.
        self._end[self._process() == self.owner](self.address)


class InFlightRun:
    """Jobs that a pool's threads may be running, with all objects whose memory they read and write.

    The object is in `_in_flight` from before the jobs start until they are done. No other reference is reliable: a
    signal handler may raise between any two instructions of Python's, even in a destructor.
    """

    __slots__ = ("_cell", "_threads", "batch", "keep", "run")

    def __init__(self, run: Run, threads: _Threads, batch: JobArray, keep: object) -> None:
        self.run = weakref.ref(run)
        self.batch, self.keep, self._threads = batch, keep, threads
        self._cell = ctypes.c_void_p()  # set by C to its list of jobs, and cleared when the list is done

    def start(self, count: int) -> None:
        address = self._threads.address
        _in_flight.add(self)
        quick().fpc_pool_start(address, self.batch.address, count, ctypes.addressof(self._cell))
        if not self._cell:
            native().fpc_pool_run(address, self.batch.address, count)

    def end(self) -> None:
        """Waits for the jobs; may be called again if it is interrupted."""
        if os.getpid() == self._threads.owner:
            native().fpc_pool_wait(self._threads.address, ctypes.addressof(self._cell))
        self.keep = None
        _in_flight.discard(self)


_in_flight: set[InFlightRun] = set()
# The interpreter destroys modules while threads may still write: this set lives until the process ends.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_in_flight))


def wait_for_orphans() -> None:
    """Waits for jobs whose `Run` is gone but didn't wait for them, because its destructor was interrupted."""
    for in_flight in [*_in_flight]:
        if in_flight.run() is None:
            in_flight.end()


class Run:
    """Jobs that a pool is running; see `Pool.start`."""

    __slots__ = ("__weakref__", "_count", "_in_flight_run")

    def __init__(self, threads: _Threads, batch: JobArray, count: int, keep: object) -> None:
        self._count = count
        self._in_flight_run = InFlightRun(self, threads, batch, keep)
        self._in_flight_run.start(count)

    def wait(self) -> list[int]:
        """Waits for all jobs and returns the `Status` of each."""
        self._in_flight_run.end()
        return self._in_flight_run.batch.statuses(self._count)

    def __del__(self) -> None:
        in_flight: InFlightRun | None = getattr(self, "_in_flight_run", None)
        if in_flight is not None:
            in_flight.end()


class Pool:
    """Threads of the library, shared by any number of callers; a caller that waits works, too.

    The threads are started at the first run. A forked child doesn't have them: its next run starts new ones.

    Args:
        threads: number of threads, at least 1.

    Raises:
        ReaderUnavailableError: the core isn't available.
    """

    def __init__(self, threads: int) -> None:
        if threads < 1:
            raise ValueError(f"a pool has at least 1 thread, not {threads}")
        self.threads = threads
        self._functions = native()
        self._lock = threading.RLock()  # a signal handler may decode, too
        self._started: _Threads | None = None
        _pools.add(self)

    def run(self, batch: JobArray, count: int | None = None) -> list[int]:
        """Runs the first ``count`` jobs, each once, waits for them, and returns the `Status` of each."""
        number = _checked(batch, count)
        threads = self._started or self._threads()
        self._functions.fpc_pool_run(threads.address, batch.address, number)
        return batch.statuses(number)

    def start(self, batch: JobArray, count: int | None = None, keep: object = None) -> Run:
        """Starts the first ``count`` jobs and returns at once.

        Args:
            batch: the jobs, which may not change until the run is over.
            count: number of jobs; None for all.
            keep: an object that owns the memory that the jobs read and write; referred to until the run is over.
        """
        number = _checked(batch, count)
        wait_for_orphans()
        return Run(self._started or self._threads(), batch, number, keep)

    def read(self, files: int, raws: int, count: int) -> None:
        """Reads files, given by the addresses of an fpc_files and of fpc_file structs; see `Files`."""
        threads = self._started or self._threads()
        self._functions.fpc_pool_read(threads.address, files, raws, count)

    def read_arrays(self, raws: int, count: int) -> None:
        """Reads arrays, given by the address of fpc_array structs; see `fastpipe.core.read_arrays`."""
        threads = self._started or self._threads()
        self._functions.fpc_pool_arrays(threads.address, raws, count)

    def _threads(self) -> _Threads:
        with self._lock:
            if self._started is None:
                self._started = _Threads(self.threads)
            return self._started

    def close(self) -> None:
        """Ends the threads when their runs are done; the next run starts new ones."""
        with self._lock:
            self._started = None

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _forget(self) -> None:
        self._lock = threading.RLock()  # a thread of the parent may hold the old one
        self._started = None


def _checked(batch: JobArray, count: int | None) -> int:
    room = batch.size
    number = room if count is None else count
    if not 0 <= number <= room:
        raise ValueError(f"the batch has {room} jobs, not {number}")
    return number


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _forget_pools() -> None:
    _in_flight.clear()  # the threads don't exist in this process
    for pool in list(_pools):
        pool._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pools)
