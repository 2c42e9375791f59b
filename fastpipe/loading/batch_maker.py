"""The thread that makes batches ahead of time in this one process; the core's threads work for it."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch.utils.data._utils import pin_memory

from fastpipe.datasets import ImageDataset
from fastpipe.datasets.wrappers import is_transparent, unwrap_subsets
from fastpipe.executor import BatchSpec, PendingBatch
from fastpipe.loading.fetcher import batch_of, in_epochs, sample_of
from fastpipe.rng import GeneratorStates, Streams

_LAST_BATCH_S = 10.0


@dataclass(slots=True, eq=False)
class BatchTask:
    """One batch that is wanted."""

    indices: Any  # what the sampler gave
    options: BatchSpec  # what is asked of the dataset, the datasets' epochs with it
    state: GeneratorStates | None = None  # the streams when it was begun; None as long as it isn't
    result: Any = None
    error: BaseException | None = None
    done: bool = False
    wanted: bool = True


class BatchMaker:
    """Makes tasks in their order, in a thread or where it is called; knows nothing of who wants them.

    In the thread a task is begun, read and drawn, while the core makes the last images of the one before.

    Args:
        dataset: the loader's.
        batches: whether the sampler gives batches of indices, not single ones.
        collate: makes a batch of what the dataset gives.
        streams: its random numbers.
        pin: whether batches go to pinned memory.

    Attributes:
        owner: the process that it is good for.
        at: the task that it is at.
    """

    def __init__(
        self,
        dataset: object,
        batches: bool,
        collate: Callable[[Any], object],
        streams: Streams,
        pin: bool,
    ) -> None:
        self.owner = os.getpid()
        self.at: BatchTask | None = None
        self._dataset = dataset
        self._batches = batches
        self._collate = collate
        self._streams = streams
        self._pin = pin
        # A thread begins at GPU 0, and pinning makes a context there: hundreds of megabytes of another rank's.
        self._gpu = torch.cuda.current_device() if pin and torch.cuda.is_available() else None
        self._changed = threading.Condition()
        # under the lock:
        self._tasks: deque[BatchTask] = deque()
        self._thread: threading.Thread | None = None
        self._more = False  # there will be further tasks
        _makers.add(self)

    def add(self, task: BatchTask, more: bool) -> None:
        """Has a task made in the thread; `more`: others will follow, so that it's worth to wait for them."""
        with self._changed:
            self._tasks.append(task)
            self._more = more
            if self._thread is None:
                name = f"fastpipe batches {id(self):x}"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def end(self) -> None:
        """No further tasks: the thread ends after the last one."""
        with self._changed:
            self._more = False
            self._changed.notify_all()

    def drop(self, tasks: list[BatchTask]) -> None:
        """Forgets the last tasks, in their order; the next one's random numbers are those of the first of them."""
        with self._changed:
            for task in tasks:
                task.wanted = False
            self._tasks = deque(task for task in self._tasks if task.wanted)
            state = next((task.state for task in tasks if task.state is not None), None)
            if state is not None:  # the one that is being made goes on with what is nobody's any more
                self._streams = Streams(state)

    def go_on_with(self, streams: Streams, ahead: list[BatchTask]) -> None:
        """Sets the random numbers of the tasks to come; those `ahead` draw none of these, and keep no state of them."""
        with self._changed:
            self._streams = streams
            for task in ahead:
                task.state = None

    def close(self) -> None:
        """Forgets everything; the thread ends after the batch that it is at."""
        if os.getpid() == self.owner:
            with self._changed:
                for task in self._tasks:
                    task.wanted = False
                self._tasks.clear()
                self._more = False
                self._changed.notify_all()

    def join(self, seconds: float) -> None:
        thread = self._thread
        if thread is not None and os.getpid() == self.owner and thread is not threading.current_thread():
            thread.join(seconds)

    def wait(self, task: BatchTask, seconds: float) -> bool:
        """Waits for a task; True if it is done in that time."""
        with self._changed:
            return self._changed.wait_for(lambda: task.done, seconds)

    def make_here(self, task: BatchTask) -> None:
        """Makes a task in the calling thread, with the streams in the global generators' place."""
        if not task.done:
            streams = self._streams
            task.state = streams.save()
            try:
                with streams.in_place(), in_epochs(task.options.epochs):
                    task.result = self._result(None, task)
            except BaseException as error:  # raised where the batch is asked for
                task.error = error
            task.done = True

    def _run(self) -> None:
        if self._gpu is not None:
            torch.cuda.set_device(self._gpu)
        before: Iterator[None] | None = None  # a task whose last images are being made
        while True:
            with self._changed:
                while not self._tasks and self._more and before is None:
                    self._changed.wait()
                if not self._tasks and before is None:
                    self._thread = None  # the next task gets another one
                    return
                now = None
                if self._tasks:
                    task, streams = self._tasks.popleft(), self._streams
                    task.state = streams.save()
                    now = self._made(task, streams)
                    del task, streams  # a batch lives only as long as somebody wants it
            for one in (now, before, now):
                if one is not None:
                    next(one, None)
            before, now = now, None

    def _made(self, task: BatchTask, streams: Streams) -> Iterator[None]:
        """Makes a task: so far that others can be finished; then all of it but what the core is still at; the rest."""
        try:
            with streams.active():
                pending = self._submitted(task)
            yield
            self.at = task
            with streams.active():
                if pending is not None and task.wanted:
                    pending.submit_rest()
                if task.wanted and (pending is None or pending.may_draw):
                    task.result = self._result(pending, task)
                    self._notify(task)
            yield
            if task.wanted and not task.done:
                with streams.active():
                    task.result = self._result(pending, task)
        except BaseException as error:  # raised where the batch is asked for
            task.error = error
        self._notify(task)

    def _submitted(self, task: BatchTask) -> PendingBatch | None:
        """A batch that the core is making; None for what an image dataset alone doesn't say."""
        self.at = task
        if not self._batches or not isinstance(task.indices, list):
            return None
        dataset, inner = unwrap_subsets(self._dataset, task.indices, task.options.epochs, is_transparent)
        return dataset.submit(inner, task.options) if isinstance(dataset, ImageDataset) else None

    def _result(self, pending: PendingBatch | None, task: BatchTask) -> object:
        self.at = task
        if pending is None:
            asked = batch_of if self._batches else sample_of
            made = asked(self._dataset, task.indices, task.options)
        else:
            made = pending.result()
        batch = self._collate(made)
        # What is pinned stays where it is. No device is named: torch took one up to 2.7, and has only one since.
        return cast(Any, pin_memory.pin_memory)(batch) if self._pin else batch

    def _notify(self, task: BatchTask) -> None:
        with self._changed:
            task.done = True
            self._changed.notify_all()


_makers: weakref.WeakSet[BatchMaker] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """The interpreter kills threads that want it back while it ends, also those within C++ code, which aborts then."""
    makers = list(_makers)
    for maker in makers:
        maker.close()
    for maker in makers:
        maker.join(_LAST_BATCH_S)
