"""Makes batches ahead of time in the training process, by one Python thread and the core's threads.

The consumer's thread takes indices from the sampler a few batches ahead, as torch's loader does for its workers; a
thread of `BatchMaker` makes the batches in that order, with its own random streams, and ends when no task is left.

Python code that may draw from the global generators doesn't run in that thread: two threads would take numbers from
each other. Such batches are made in the consumer's thread when it requests them, with the same streams in place of the
generators; see `gil_bound_step`.
"""

from __future__ import annotations

import itertools
import operator
import os
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from torch.utils.data import BatchSampler
from torch.utils.data.dataloader import _BaseDataLoaderIter

from fastpipe.datasets import ImageDataset
from fastpipe.datasets.bad_files import warn_again
from fastpipe.datasets.wrappers import image_datasets, inner_datasets, is_transparent
from fastpipe.environment import usable_cpus
from fastpipe.errors import LoaderError
from fastpipe.executor import SharedEpoch
from fastpipe.loading.base import LoaderBase
from fastpipe.loading.batch_maker import BatchMaker, BatchTask
from fastpipe.loading.collate import DRAW_NOTHING, users_collate
from fastpipe.loading.worker_monitor import PATIENCE_S, path_of, timed_out, warn_of_wait
from fastpipe.rng import Streams

AHEAD = 3
"""The default number of batches made ahead. With two, the core's threads slept for 20% of the time beside a busy Python
thread; with three, for 1%, in the same memory."""

_POLL_S = 1.0

Ahead = tuple[Iterator[object], Mapping[SharedEpoch, int]]
"""The sampler's output for a later epoch, and the datasets' epochs in it."""


def gil_bound_step(dataset: object, collate: object = None) -> str:
    """The step that keeps a loader's batches from being made ahead in a thread; empty if none does.

    Args:
        dataset: the loader's dataset.
        collate: the loader's ``collate_fn``; None for torch's.
    """
    if is_transparent(dataset):
        step = next(filter(None, map(gil_bound_step, inner_datasets(dataset).values())), "")
    elif isinstance(dataset, ImageDataset):
        step = dataset.in_python
    else:
        step = f"the dataset ({type(dataset).__name__})"
    draws = users_collate(collate) not in (None, *DRAW_NOTHING)
    return step or ("the collate_fn" if draws else "")


class ThreadIterator(_BaseDataLoaderIter):
    """A torch iterator for a loader without workers that makes batches ahead of time; reused for later epochs.

    Args:
        loader: the `fastpipe.DataLoader`.
    """

    def __init__(self, loader: LoaderBase) -> None:
        super().__init__(loader)
        streams = self._seeded(loader)
        options = replace(loader._batch_spec, pinned=self._pin_memory)
        self._maker = BatchMaker(self._dataset, self._auto_collation, options, loader.collate_fn, streams)
        weakref.finalize(self, self._maker.close)
        self._ahead: deque[BatchTask] = deque()
        self._tasks: deque[BatchTask] = deque()
        self._settings: list[object] = []
        self.number = 0  # the number of epochs begun
        self._begin(loader)

    @property
    def made_by(self) -> int:
        """Id of the process that made the iterator, the only one in which it works."""
        return self._maker.owner

    @property
    def ready(self) -> int:
        """The number of this epoch's batches that are made and not handed out."""
        return sum(task.done for task in self._tasks)

    @property
    def is_drained(self) -> bool:
        """True if all batches of this epoch were handed out."""
        return not self._tasks

    def rest(self) -> Iterator[object]:
        """The sampler's output for the batches of this epoch that weren't handed out yet."""
        return itertools.chain([task.indices for task in self._tasks], self._sampler_iter)

    def begin_next_epoch(self, loader: LoaderBase) -> None:
        """Begins the next epoch; the rest of this one is dropped."""
        self.stop_epoch(self.number)
        if loader._keeps_streams:  # like a persistent worker's streams
            self._index_sampler = loader._index_sampler
            super()._reset(loader)
        else:
            super().__init__(loader)
            self._maker.use_streams(self._seeded(loader), [*self._ahead])
        self._begin(loader)

    def _seeded(self, loader: LoaderBase) -> Streams:
        """Random streams seeded like torch's worker 0 in this epoch, after the loader's ``worker_init_fn``."""
        streams = Streams(int(self._base_seed))
        if loader.worker_init_fn is not None:
            with streams.in_place():
                loader.worker_init_fn(0)
        return streams

    def _begin(self, loader: LoaderBase) -> None:
        self._maker.collate = loader.collate_fn  # the user may have replaced it
        self._obstacle = _obstacle(loader)
        self._timeout = loader.timeout
        self._prefetch = loader.prefetch_factor or AHEAD
        self.number += 1
        self._more = True  # whether the sampler may give more
        self._epochs = loader._epochs
        self._next_epoch: Callable[[], Ahead | None] = _epoch_ahead(loader)
        before, self._settings = self._settings, _settings_of(loader)
        same = len(before) == len(self._settings) and all(map(operator.is_, before, self._settings))
        if self._obstacle or not same:
            self._drop_ahead()
        self._indices_ahead: Ahead | None = None
        for _ in range(self._prefetch):
            self._add()

    def _drop_ahead(self) -> None:
        self._maker.drop([*self._ahead])
        self._ahead.clear()

    def _add(self) -> None:
        """Queues one more batch: of this epoch, or of the next one if its order is known."""
        if self._more:
            try:
                indices = next(self._sampler_iter)
            except StopIteration:
                self._more = False
                self._drop_ahead()  # the next epoch's batches were queued wrongly: its order ends earlier
                self._indices_ahead = None if self._obstacle else self._next_epoch()
            else:
                self._tasks.append(self._task(indices))
                return
        if self._indices_ahead is not None:
            indices_ahead, epochs = self._indices_ahead
            for indices in indices_ahead:
                task = BatchTask(indices, epochs)
                self._ahead.append(task)
                self._maker.add(task, more=len(self._ahead) < self._prefetch)
                return
        self._maker.end()

    def _task(self, indices: object) -> BatchTask:
        if self._ahead:
            task = self._ahead[0]
            if task.indices == indices and task.epochs == self._epochs:
                return self._ahead.popleft()
            self._drop_ahead()  # the queued epoch isn't the one that began
        task = BatchTask(indices, self._epochs)
        if not self._obstacle:
            self._maker.add(task, more=True)
        return task

    def _next_data(self) -> Any:
        if os.getpid() != self.made_by:
            raise LoaderError(
                "this iteration was begun before this process was forked, and a fork has no threads of its parent. "
                "Begin a new iteration over the loader here."
            )
        if not self._tasks:
            raise StopIteration
        task = self._tasks[0]
        if self._obstacle:
            self._maker.make_here(task)
        elif not task.done:
            self._wait(task)
        self._tasks.popleft()
        error, task.error = task.error, None
        if error is not None:
            self.stop_epoch(self.number)  # no batch follows; a kept error keeps this object alive
            try:
                raise error
            finally:
                del error, task  # break the reference cycle between error and frame
        self._add()
        return task.result

    def _wait(self, task: BatchTask) -> None:
        started = time.monotonic()
        warned = False
        while not self._maker.wait(task, _POLL_S):
            seconds = time.monotonic() - started
            if 0 < self._timeout <= seconds:
                error = timed_out(self._timeout, self._describe(task))
                self.stop_epoch(self.number)
                raise error
            if not self._timeout and not warned and seconds >= PATIENCE_S:
                warned = True
                warn_of_wait(seconds, self._describe(task))

    def _describe(self, task: BatchTask) -> str:
        task = self._maker.at or task
        indices = task.indices if isinstance(task.indices, list) else [task.indices]
        path = path_of(self._dataset, indices[0]) if isinstance(self._dataset, ImageDataset) else None
        named = "" if path is None else f", {path} the first"
        return f"The batch that is being made has the samples {', '.join(map(str, indices[:8]))}…{named}."

    def stop_epoch(self, number: int) -> None:
        """Stops making batches of the epoch with that number."""
        if os.getpid() != self.made_by or number != self.number:
            return
        if self._tasks:  # broken off: the streams go back to where the last batch handed out left them
            self._maker.drop([*self._tasks, *self._ahead])
            self._more = False
            self._tasks.clear()
            self._ahead.clear()
        self._maker.end()


def _obstacle(loader: LoaderBase) -> str:
    """Names the step of a loader that keeps batches from being made ahead, and warns once; empty if none does."""
    obstacle = gil_bound_step(loader.dataset, loader.collate_fn)
    if obstacle and not loader._warned_of_obstacle:
        loader._warned_of_obstacle = True
        warn_again(
            f"threads={loader.threads}: batches are made when they are requested, not ahead of time, since {obstacle} "
            "is Python code: it may draw from this thread's generators, and holds the interpreter's lock. Workers "
            f"are faster for it: num_workers={max(1, usable_cpus() - 1)}."
        )
    return obstacle


def _epoch_ahead(loader: LoaderBase) -> Callable[[], Ahead | None]:
    """Returns a function that gives the next epoch's batches of indices; it returns None if they aren't known yet.

    The function holds no reference to the loader.
    """
    sampler, batches = loader._own_sampler(), loader._index_sampler
    datasets = tuple(image_datasets(loader.dataset))
    counts = [inner._fastpipe.epoch for inner in datasets]
    # Otherwise the streams are seeded only when the epoch begins.
    drawn = None not in counts or loader._keeps_streams
    if any(inner.on_error != "raise" for inner in datasets):  # bad files are counted by epoch
        return lambda: None
    if sampler is None or type(batches) is not BatchSampler or not drawn or loader._epoch is None:
        return lambda: None
    epoch, size, cut = loader._epoch + 1, batches.batch_size, batches.drop_last

    def ahead() -> Ahead | None:
        order = sampler.ahead(epoch)
        if order is None:
            return None
        return iter(BatchSampler(order, size, cut)), {count: epoch for count in counts if count is not None}

    return ahead


def _settings_of(loader: LoaderBase) -> list[object]:
    """The objects that batches depend on besides indices and epochs; if one is replaced, queued batches are dropped."""
    settings: list[object] = [loader.collate_fn, loader.dataset]
    for inner in image_datasets(loader.dataset):
        settings.append(inner.pipeline)
        settings += (value for name, value in vars(inner).items() if name != "_fastpipe")
    return settings
