"""Batches made ahead of time in this one process, by a thread that the core's threads work for.

The consumer's thread asks the sampler, a few batches ahead, as torch's loader does for its workers; a thread of
`Maker` makes the batches in that order, with random streams of its own, and ends where nothing is left to be made.
Nobody else sees a batch before it is handed out.

Python code that may draw from the global generators isn't run there: two threads would take numbers from each other.
Such batches are made where they are asked for, with the same streams in the generators' place; see
`gil_bound_part_within`.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch.utils.data._utils import pin_memory
from torch.utils.data.dataloader import _BaseDataLoaderIter

from fastpipe.datasets import ImageDataset
from fastpipe.datasets.wrappers import behind_subsets, image_datasets, inner_datasets, is_transparent
from fastpipe.errors import LoaderError
from fastpipe.executor import BatchSpec, PendingBatch, SharedEpoch
from fastpipe.loading.fetcher import batch_of, in_epochs, sample_of
from fastpipe.loading.mixing import mixed
from fastpipe.loading.worker_monitor import PATIENCE_S, timed_out, warn_of_wait
from fastpipe.rng import GeneratorStates, Streams

AHEAD = 3
"""Batches that are made ahead, where nobody says how many. With two the core's threads run dry: they slept for 20% of
the time beside a busy Python thread, and for 1% with three, in the same memory."""

_POLL_S = 1.0
_LAST_BATCH_S = 10.0

Epochs = Mapping[SharedEpoch, int]
Ahead = tuple[Iterator[Any], Epochs]
"""The sampler's output for an epoch to come, and the datasets' epochs in it."""


def gil_bound_part_within(dataset: Any) -> str:
    """Why a dataset's samples can't be made ahead in a thread; empty if they can."""
    if is_transparent(dataset):
        return next(filter(None, map(gil_bound_part_within, inner_datasets(dataset).values())), "")
    if not isinstance(dataset, ImageDataset):
        return f"the dataset ({type(dataset).__name__})"
    return dataset.in_python


@dataclass(slots=True, eq=False)
class _BatchTask:
    """One batch that is wanted.

    Attributes:
        indices: what the sampler gave.
        options: what is asked of the dataset, the datasets' epochs with it.
        state: the streams when it was begun; None as long as it isn't.
    """

    indices: Any
    options: BatchSpec
    state: GeneratorStates | None = None
    result: Any = None
    error: BaseException | None = None
    done: bool = False
    wanted: bool = True


class _BatchMaker:
    """Makes tasks in their order, in a thread or where it is called; knows nothing of who wants them.

    In the thread a task is begun, read and drawn, while the core makes the last images of the one before.

    Args:
        dataset: the loader's.
        batches: whether the sampler gives batches of indices, not single ones.
        collate: makes a batch of what the dataset gives.
        streams: its random numbers.
        mixes: `collate` draws, from torch alone.
        pin: torch's name of the device that batches are pinned for; None for not at all.
    """

    def __init__(
        self,
        dataset: Any,
        batches: bool,
        collate: Callable[[Any], Any],
        streams: Streams,
        mixes: bool,
        pin: str | None,
    ) -> None:
        self.owner = os.getpid()
        self._dataset = dataset
        self._batches = batches
        self._collate = collate
        self._streams = streams
        self.mixes = mixes
        self._pin = pin
        self.at: _BatchTask | None = None  # what it is at
        self._gpu = torch.cuda.current_device() if pin == "cuda" else None
        self._changed = threading.Condition()
        # under the lock:
        self._tasks: deque[_BatchTask] = deque()
        self._thread: threading.Thread | None = None
        self._more = False  # there will be further tasks
        _makers.add(self)

    def add(self, task: _BatchTask, more: bool) -> None:
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
        """No further tasks: the thread ends behind the last one."""
        with self._changed:
            self._more = False
            self._changed.notify_all()

    def drop(self, tasks: list[_BatchTask]) -> None:
        """Forgets the last tasks, in their order; the next one's random numbers are those of the first of them."""
        with self._changed:
            for task in tasks:
                task.wanted = False
            self._tasks = deque(task for task in self._tasks if task.wanted)
            state = next((task.state for task in tasks if task.state is not None), None)
            if state is not None:  # the one that is being made goes on with what is nobody's any more
                self._streams = Streams(state)

    def go_on_with(self, streams: Streams, ahead: list[_BatchTask]) -> None:
        """Random numbers of the tasks to come; those `ahead` draw none of these, and leave none behind."""
        with self._changed:
            self._streams = streams
            for task in ahead:
                task.state = None

    def close(self) -> None:
        """Forgets everything; the thread ends behind the batch that it is at."""
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

    def wait(self, task: _BatchTask, seconds: float) -> bool:
        """Whether a task is done, in that time."""
        with self._changed:
            return self._changed.wait_for(lambda: task.done, seconds)

    def make_here(self, task: _BatchTask) -> None:
        """Makes a task in the calling thread, with the streams in the global generators' place."""
        if not task.done:
            streams = self._streams
            task.state = streams.save()
            try:
                with streams.in_place(), in_epochs(task.options.epochs):
                    task.result = self._result(None, task)
            except BaseException as error:
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

    def _made(self, task: _BatchTask, streams: Streams) -> Iterator[None]:
        """Makes a task: so far that others can be finished; then all of it but what the core is still at; the rest."""
        try:
            with streams.active():
                pending = self._submitted(task)
            yield
            self.at = task
            with streams.active():
                if pending is not None and task.wanted:
                    pending.submit_rest()
                if task.wanted and (pending is None or self.mixes or pending.may_draw):
                    task.result = self._result(pending, task)
                    self._notify(task)
            yield
            if task.wanted and not task.done:
                with streams.active():
                    task.result = self._result(pending, task)
        except BaseException as error:
            task.error = error
        self._notify(task)

    def _submitted(self, task: _BatchTask) -> PendingBatch | None:
        """A batch that the core is making; None for what an image dataset alone doesn't say."""
        self.at = task
        if not self._batches or not isinstance(task.indices, list):
            return None
        dataset, inner = behind_subsets(self._dataset, task.indices, task.options.epochs, is_transparent)
        return dataset.submit(inner, task.options) if isinstance(dataset, ImageDataset) else None

    def _result(self, pending: PendingBatch | None, task: _BatchTask) -> Any:
        self.at = task
        if pending is None:
            asked = batch_of if self._batches else sample_of
            made = asked(self._dataset, task.indices, task.options)
        else:
            made = pending.result()
        batch = mixed(self._collate, made) if self.mixes else self._collate(made)
        pin = cast(Any, pin_memory.pin_memory)
        return batch if self._pin is None else pin(batch, self._pin)  # what is pinned stays where it is

    def _notify(self, task: _BatchTask) -> None:
        with self._changed:
            task.done = True
            self._changed.notify_all()


class ThreadIterator(_BaseDataLoaderIter):
    """torch's iterator of a loader without workers, whose batches are made ahead of time. Serves epoch after epoch.

    Args:
        loader: the `fastpipe.DataLoader`.
        obstacle: what keeps batches from being made ahead; empty where nothing does.
        mixes: making a batch of samples draws, too; see `mixes_alone`.
    """

    def __init__(self, loader: Any, obstacle: str, mixes: bool) -> None:
        super().__init__(loader)
        pin = self._pin_memory_device if self._pin_memory else None
        streams = self._seeded(loader)
        self._maker = _BatchMaker(self._dataset, self._auto_collation, self._collate_fn, streams, mixes, pin)
        weakref.finalize(self, self._maker.close)
        self._ahead: deque[_BatchTask] = deque()
        self._tasks: deque[_BatchTask] = deque()
        self._snapshot: Any = None
        self.number = 0  # of epochs that were begun
        self._begin(loader, obstacle)

    @property
    def made_by(self) -> int:
        """The process that it is good for."""
        return self._maker.owner

    @property
    def ready(self) -> int:
        """Batches of this epoch that are made."""
        return sum(task.done for task in self._tasks)

    def again(self, loader: Any, obstacle: str, mixes: bool) -> None:
        """Begins the next epoch; what is left of this one isn't made any more."""
        self.stop_epoch(self.number)
        self._maker.mixes = mixes
        if loader._keeps_streams:  # as a worker's that stays
            self._index_sampler = loader._index_sampler
            super()._reset(loader)
        else:
            super().__init__(loader)
            self._maker.go_on_with(self._seeded(loader), [*self._ahead])
        self._begin(loader, obstacle)

    def _seeded(self, loader: Any) -> Streams:
        """Random numbers as those of torch's worker 0 in this epoch, behind the loader's ``worker_init_fn``."""
        streams = Streams(int(self._base_seed))
        if loader.worker_init_fn is not None:
            with streams.in_place():
                loader.worker_init_fn(0)
        return streams

    def _begin(self, loader: Any, obstacle: str) -> None:
        self._obstacle = obstacle
        self._timeout = loader.timeout
        self._prefetch = loader.prefetch_factor or AHEAD
        self.number += 1
        self._more = True  # the sampler may give more
        self._options = replace(loader._requested or BatchSpec(), pinned=self._pin_memory, epochs=loader._epochs)
        self._next_epoch: Callable[[], Ahead | None] = loader._epoch_ahead()
        before, self._snapshot = self._snapshot, _settings_of(loader)
        if self._ahead and (obstacle or not _same(before, self._snapshot)):
            self._drop_ahead()
        self._indices_ahead: Ahead | None = None
        for _ in range(self._prefetch):
            self._add()

    def _drop_ahead(self) -> None:
        self._maker.drop([*self._ahead])
        self._ahead.clear()

    def _add(self) -> None:
        """Has one more batch made: of this epoch, or of the next where it is known."""
        if self._more:
            try:
                indices = next(self._sampler_iter)
            except StopIteration:
                self._more = False
                if self._ahead:  # the epoch that was begun is shorter than was thought
                    self._drop_ahead()
                self._indices_ahead = None if self._obstacle else self._next_epoch()
            else:
                self._tasks.append(self._task(indices))
                return
        if self._indices_ahead is not None:
            indices_ahead, epochs = self._indices_ahead
            for indices in indices_ahead:
                task = _BatchTask(indices, replace(self._options, epochs=epochs))
                self._ahead.append(task)
                self._maker.add(task, more=len(self._ahead) < self._prefetch)
                return
        self._maker.end()

    def _task(self, indices: Any) -> _BatchTask:
        if self._ahead:
            task = self._ahead[0]
            if task.indices == indices and task.options == self._options:
                return self._ahead.popleft()
            self._drop_ahead()  # another epoch than was thought
        task = _BatchTask(indices, self._options)
        if not self._obstacle:
            self._maker.add(task, more=True)
        return task

    def _next_data(self) -> Any:
        if os.getpid() != self.made_by:
            raise LoaderError(
                "this iteration was begun in another process, of which this one is a fork: threads don't come along. "
                "Iterate over the loader anew here."
            )
        if not self._tasks:
            raise StopIteration
        task = self._tasks[0]
        if self._obstacle:
            self._maker.make_here(task)
        elif not task.done:
            self._wait(task)
        self._tasks.popleft()
        self._add()
        error, task.error = task.error, None
        if error is not None:
            try:
                raise error
            finally:
                del error, task  # frames that hold each other are there until Python's collector finds them
        return task.result

    def _wait(self, task: _BatchTask) -> None:
        started = time.monotonic()
        warned = False
        while not self._maker.wait(task, _POLL_S):
            seconds = time.monotonic() - started
            if 0 < self._timeout <= seconds:
                raise timed_out(self._timeout, self._describe(task))
            if not self._timeout and not warned and seconds >= PATIENCE_S:
                warned = True
                warn_of_wait(seconds, self._describe(task))

    def _describe(self, task: _BatchTask) -> str:
        task = self._maker.at or task
        indices = task.indices if isinstance(task.indices, list) else [task.indices]
        named = ""
        with contextlib.suppress(Exception):
            dataset: Any = self._dataset
            named = f", {dataset.sample(indices[0])[0]} the first"
        return f"The batch that is being made has the samples {', '.join(map(str, indices[:8]))}…{named}."

    def stop_epoch(self, number: int) -> None:
        """Stops making batches of that epoch."""
        if os.getpid() != self.made_by or number != self.number:
            return
        if self._tasks:  # broken off: random numbers go on behind the last batch that was handed out
            self._maker.drop([*self._tasks, *self._ahead])
            self._more = False
            self._tasks.clear()
            self._ahead.clear()
        self._maker.end()


_OF_NO_ACCOUNT = frozenset({"_fastpipe", "on_begin"})
"""Attributes of a dataset that come and go."""


def _settings_of(loader: Any) -> list[Any]:
    """The objects that batches depend on besides indices and epochs; batches are made anew if one is replaced."""
    found: list[Any] = [loader.collate_fn, loader._requested, loader.dataset]
    for part in image_datasets(loader.dataset):
        found.append(part.pipeline)
        found += (value for name, value in vars(part).items() if name not in _OF_NO_ACCOUNT)
    return found


def _same(one: Any, other: Any) -> bool:
    """Whether two lists hold the same objects."""
    return one is not None and len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


_makers: weakref.WeakSet[_BatchMaker] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """The interpreter kills threads that want it back while it ends, also those within C++ code, which aborts then."""
    makers = list(_makers)
    for maker in makers:
        maker.close()
    for maker in makers:
        maker.join(_LAST_BATCH_S)
