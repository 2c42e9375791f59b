"""Runs jobs: by a context in the calling thread, or by a pool of the library's own threads.

Each thread has its own context. A context is plain memory, so that a thread that forks can go on using its copy in the
child.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from operator import methodcaller
from struct import Struct
from typing import TYPE_CHECKING, overload

from fastpipe.core.addresses import address_of
from fastpipe.core.jobs import Job
from fastpipe.core.library import loaded, native, quick
from fastpipe.core.native_object import FREED_BY_C, NativeObject, PerThread, forget_in_children
from fastpipe.core.structs import Isa, RawJob

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Context(NativeObject):
    """Scratch memory for one thread at a time.

    Args:
        isa: an instruction set; None for the one that ``FASTPIPE_CORE`` chose.

    Raises:
        ReaderUnavailableError: the core isn't available.
        MemoryError: out of memory, or the machine lacks the instruction set.
    """

    __slots__ = ("_flip", "_look_up", "_run", "run_on_image")

    def __init__(self, isa: Isa | None = None) -> None:
        functions = native()
        self._run, self._look_up, self._flip = functions.fpc_run, functions.fpc_look_up, functions.fpc_flip_rgb
        self.run_on_image = functions.fpc_run_on_image
        """The C function, for `fastpipe.core.image_jobs`."""
        address = functions.fpc_context_new(loaded().isa if isa is None else isa)
        super().__init__(address, functions.fpc_context_free, "a context of the core, or no such instruction set")

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


_contexts = PerThread(Context)


def thread_context() -> Context:
    """Returns this thread's own context.

    Raises:
        ReaderUnavailableError: the core isn't available; see `why_not`.
    """
    return _contexts.value


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


_in_flight: dict[int, tuple[object, ...]] = {}
# The interpreter destroys modules while threads may still write: this dict lives until the process ends.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_in_flight))

_call = methodcaller("__call__")
_consume = deque[object](maxlen=0).extend


class Run:
    """Jobs that a pool is running; see `Pool.start`. If nobody waits for them, the destructor does.

    All objects whose memory the threads read and write are in `_in_flight`, from before the jobs start until they are
    done. No other reference is reliable: a signal handler may raise between any two instructions of Python's.
    """

    __slots__ = ("__weakref__", "_batch", "_cell", "_count", "_free", "_let_go", "_wait")

    def __init__(self, threads: NativeObject, batch: JobArray, count: int, keep: object) -> None:
        self._batch, self._count = batch, count
        self._cell = ctypes.c_void_p()  # set by C to its list of jobs, and cleared when the list is done
        address = ctypes.addressof(self._cell)
        self._wait = partial(native().fpc_pool_wait, threads.address, address)
        self._let_go = partial(_in_flight.pop, address, None)
        self._free = partial(_consume, map(_call, (self._wait, self._let_go)))
        _in_flight[address] = threads, batch, keep, self._cell
        quick().fpc_pool_start(threads.address, batch.address, count, address)
        if not self._cell:
            native().fpc_pool_run(threads.address, batch.address, count)

    def wait(self) -> list[int]:
        """Waits for all jobs and returns the `Status` of each; may be called again if it is interrupted."""
        self._wait()
        self._let_go()
        return self._batch.statuses(self._count)

    __del__ = FREED_BY_C


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
        self._started: NativeObject | None = None
        forget_in_children(self)

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
        return Run(self._started or self._threads(), batch, number, keep)

    def read(self, files: int, raws: int, count: int) -> None:
        """Reads files, given by the addresses of an fpc_files and of fpc_file structs; see `Files`."""
        threads = self._started or self._threads()
        self._functions.fpc_pool_read(threads.address, files, raws, count)

    def read_arrays(self, raws: int, count: int) -> None:
        """Reads arrays, given by the address of fpc_array structs; see `fastpipe.core.read_arrays`."""
        threads = self._started or self._threads()
        self._functions.fpc_pool_arrays(threads.address, raws, count)

    def _threads(self) -> NativeObject:
        with self._lock:
            if self._started is None:
                address = self._functions.fpc_pool_new(self.threads, loaded().isa)
                what = f"a pool of {self.threads} threads for the core"
                self._started = NativeObject(address, self._functions.fpc_pool_free, what)
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


if hasattr(os, "register_at_fork"):  # the threads don't exist in a child
    os.register_at_fork(after_in_child=_in_flight.clear)
