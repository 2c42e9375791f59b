"""The thread that makes batches ahead of time in the training process, with the core's threads."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch.utils.data import Dataset
from torch.utils.data._utils import pin_memory

from fastpipe.datasets import ImageDataset
from fastpipe.datasets.wrappers import is_transparent, unwrap_subsets
from fastpipe.executor import BatchSpec, PendingBatch, SharedEpoch, in_epochs
from fastpipe.loading.collate import Collate
from fastpipe.loading.fetcher import Index, batch_of
from fastpipe.rng import GeneratorStates, Streams

_LAST_BATCH_S = 10.0


@dataclass(slots=True, eq=False)
class BatchTask:
    """One batch to make."""

    indices: Index | list[Index]  # the sampler's output
    epochs: Mapping[SharedEpoch, int]  # of the datasets that have a seed
    state: GeneratorStates | None = None  # the streams' state when the batch was begun; None before
    result: object = None
    error: BaseException | None = None
    done: bool = False
    wanted: bool = True


class BatchMaker:
    """Makes batches in order, in its thread or in the calling one.

    The thread reads and draws the next batch while the core makes the last images of the one before.

    Args:
        dataset: the loader's dataset.
        batches: whether the sampler gives batches of indices, not single indices.
        options: given to the dataset with each batch; says whether batches are put into pinned memory.
        collate: makes a batch of the dataset's samples.
        streams: the random streams to draw from.

    Attributes:
        owner: id of the process that made it, the only one in which it works.
        collate: as given.
        at: the task that is being made.
    """

    def __init__(
        self,
        dataset: Dataset[object],
        batches: bool,
        options: BatchSpec,
        collate: Collate,
        streams: Streams,
    ) -> None:
        self.owner = os.getpid()
        self.at: BatchTask | None = None
        self._dataset = dataset
        self._batches = batches
        self._options = options
        self.collate = collate
        self._streams = streams
        # A new thread uses GPU 0, and pinning would create a context there: hundreds of megabytes of another rank's
        # GPU.
        self._gpu = torch.cuda.current_device() if options.pinned and torch.cuda.is_available() else None
        self._changed = threading.Condition()
        # guarded by the lock:
        self._tasks: deque[BatchTask] = deque()
        self._thread: threading.Thread | None = None
        self._more = False  # whether further tasks will come
        _makers.add(self)

    def add(self, task: BatchTask, more: bool) -> None:
        """Queues a task for the thread; `more` says that others will follow, so that the thread waits for them."""
        with self._changed:
            self._tasks.append(task)
            self._more = more
            if self._thread is None:
                name = f"fastpipe batches {id(self):x}"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                _threads.add(self._thread)
                self._thread.start()
            self._changed.notify_all()

    def end(self) -> None:
        """Lets the thread end after the last task: no further ones come."""
        with self._changed:
            self._more = False
            self._changed.notify_all()

    def drop(self, tasks: list[BatchTask]) -> None:
        """Drops the last tasks, given in order; the next task added gets the random numbers of the first of them."""
        with self._changed:
            for task in tasks:
                task.wanted = False
            self._tasks = deque(task for task in self._tasks if task.wanted)
            state = next((task.state for task in tasks if task.state is not None), None)
            if state is not None:  # a dropped task that is being made keeps the old streams
                self._streams = Streams(state)

    def use_streams(self, streams: Streams, ahead: list[BatchTask]) -> None:
        """Sets the streams for later tasks; clears the state of the tasks `ahead`, which don't draw from streams."""
        with self._changed:
            self._streams = streams
            for task in ahead:
                task.state = None

    def close(self) -> None:
        """Drops all tasks; the thread ends after the batch that it is making."""
        if os.getpid() == self.owner:
            with self._changed:
                for task in self._tasks:
                    task.wanted = False
                self._tasks.clear()
                self._more = False
                self._changed.notify_all()

    def wait(self, task: BatchTask, seconds: float) -> bool:
        """Waits for a task; True if it is done in that time."""
        with self._changed:
            return self._changed.wait_for(lambda: task.done, seconds)

    def make_here(self, task: BatchTask) -> None:
        """Makes a task in the calling thread; its streams replace the global generators meanwhile."""
        if not task.done:
            streams = self._streams
            task.state = streams.save()
            try:
                with streams.in_place(), in_epochs(task.epochs):
                    task.result = self._result(None, task)
            except BaseException as error:  # raised where the batch is asked for
                task.error = error
            task.done = True

    def _run(self) -> None:
        if self._gpu is not None:
            torch.cuda.set_device(self._gpu)
        before: Iterator[None] | None = None  # the task whose last images are being made
        while True:
            with self._changed:
                while not self._tasks and self._more and before is None:
                    self._changed.wait()
                if not self._tasks and before is None:
                    self._thread = None  # the next task starts a new thread
                    return
                now = None
                if self._tasks:
                    task, streams = self._tasks.popleft(), self._streams
                    task.state = streams.save()
                    now = self._made(task, streams)
                    del task, streams  # keep no reference to the finished batch
            for one in (now, before, now):
                if one is not None:
                    next(one, None)
            before, now = now, None

    def _made(self, task: BatchTask, streams: Streams) -> Iterator[None]:
        """Makes a task in three steps: begins it, submits the rest, waits for it; `_run` interleaves two tasks."""
        try:
            with streams.active(), in_epochs(task.epochs):
                pending = self._submitted(task)
            yield
            self.at = task
            with streams.active(), in_epochs(task.epochs):
                if pending is not None and task.wanted:
                    pending.submit_rest()
                if task.wanted and (pending is None or pending.may_draw):
                    task.result = self._result(pending, task)
                    self._notify(task)
            yield
            if task.wanted and not task.done:
                with streams.active(), in_epochs(task.epochs):
                    task.result = self._result(pending, task)
        except BaseException as error:  # raised where the batch is asked for
            task.error = error
        self._notify(task)

    def _submitted(self, task: BatchTask) -> PendingBatch | None:
        """Begins a batch in the core; returns None if the samples aren't those of an image dataset alone."""
        self.at = task
        if not self._batches or not isinstance(task.indices, list):
            return None
        dataset, inner = unwrap_subsets(self._dataset, task.indices, is_transparent)
        return dataset.submit(inner, self._options) if isinstance(dataset, ImageDataset) else None

    def _result(self, pending: PendingBatch | None, task: BatchTask) -> object:
        self.at = task
        if pending is not None:
            samples: object = pending.result()
        elif self._batches:
            samples = batch_of(self._dataset, task.indices, self._options)
        else:
            samples = self._dataset[task.indices]
        batch = self.collate(samples)
        # Pinned memory isn't copied again. torch takes a device argument only up to version 2.7.
        return pin_memory.pin_memory(batch) if self._options.pinned else batch  # type: ignore[no-untyped-call]

    def _notify(self, task: BatchTask) -> None:
        with self._changed:
            task.done = True
            self._changed.notify_all()


_makers: weakref.WeakSet[BatchMaker] = weakref.WeakSet()
_threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
"""Their threads, also those that have made their last batch, and whose maker may be gone, but that haven't ended."""


@atexit.register
def _end_all() -> None:
    """Ends the threads at exit: one that returned from C++ code to an ending interpreter would abort the process."""
    for maker in list(_makers):
        maker.close()
    for thread in list(_threads):
        if thread.is_alive():
            thread.join(_LAST_BATCH_S)
