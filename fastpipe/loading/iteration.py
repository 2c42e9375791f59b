"""One iteration over a loader: its batches, the epoch that they are of, and how far it is."""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Iterator
from typing import Any

from torch.autograd import _profiler_enabled as profiler_enabled  # type: ignore[attr-defined]
from torch.autograd.profiler import record_function
from torch.utils.data.dataloader import _DatasetKind

from fastpipe.datasets.wrappers import image_datasets, split_samples
from fastpipe.loading.base import LoaderBase, Progress
from fastpipe.loading.checks import note_given
from fastpipe.loading.collate import EmptyBatch
from fastpipe.loading.device import DeviceBatches, on_device
from fastpipe.loading.threads import ThreadIterator


class Iteration(Iterator[Any]):
    """The batches of torch's iterator, counted as they are handed out.

    Args:
        loader: the `fastpipe.DataLoader` whose iteration it is; its progress, meter and epochs are those of this one.
        iterator: torch's, over the same batches.
    """

    def __init__(self, loader: LoaderBase, iterator: Any) -> None:
        self.loader = loader
        self.datasets = set(image_datasets(loader.dataset))
        self.progress = loader._progress
        self.meter = loader._meter
        self.source = BatchSource(loader, iterator)
        self._collated = loader._auto_collation
        self._epochs = loader._epochs
        running.add(self)
        if isinstance(iterator, ThreadIterator):
            weakref.finalize(self, iterator.stop_epoch, iterator.number).atexit = False
        source = self.source
        self._batches: BatchSource | DeviceBatches | None = source
        if loader.device is not None:
            self._batches = on_device(source, loader.device)

    @property
    def iterator(self) -> Any:
        """torch's iterator that its batches come from; None while a newer iteration has it."""
        return self.source.iterator

    def __next__(self) -> object:
        batches = self._batches
        if batches is None:
            raise StopIteration
        # The first batch is waited for from where the iteration began: workers were started before it was asked for.
        asked = time.perf_counter() if self.meter.rows else self.meter.began
        ready = getattr(self.iterator, "ready", 0)
        name = f"fastpipe: batch {self.progress.batches}"
        try:
            with record_function(name) if profiler_enabled() else contextlib.nullcontext():
                batch = next(batches)
                while isinstance(batch, EmptyBatch):
                    self.progress.batches += 1
                    batch = next(batches)
        except StopIteration:
            self._end_epoch(asked)
            self.progress.finished = True  # with drop_last, some samples are left that don't make a batch
            self._touch()
            self._leave_for_good()
            raise
        except Exception:  # raised again
            self._leave_for_good()
            raise
        except KeyboardInterrupt as error:  # without the way to where torch waits, which is nobody's concern
            raise error.with_traceback(None) from None
        self.progress.batches += 1
        self._touch()
        now = time.perf_counter()
        self.meter.note(asked, now, batch, self._collated, ready)
        if batches.is_drained:  # many loops take as many batches as there are, and don't ask for one more
            self._end_epoch(now)
        return batch

    def _end_epoch(self, now: float) -> None:
        """Notes the end of an epoch: all batches are handed out."""
        first = self.meter.ended is None
        self.meter.ended = now
        if first:
            note_given(self.loader, self._epochs)
            end_epoch(self.loader.dataset)

    def _leave_for_good(self) -> None:
        running.discard(self)
        self._batches = None  # torch's iterator may be a newer iteration's by the time that somebody asks again

    def _touch(self) -> None:
        self.progress.touched = time.perf_counter()
        self.loader._progress = self.progress
        self.loader._meter = self.meter

    def __len__(self) -> int:
        return len(self.loader)


class BatchSource(Iterator[Any]):
    """The batches of one iteration, from torch's iterator: at first the loader's, which a newer iteration takes over.

    If it is asked for more then, it goes on with workers of its own.

    Args:
        loader: the `fastpipe.DataLoader`.
        iterator: torch's.

    Attributes:
        is_asked: somebody waits for a batch: another thread, or what a signal's handler interrupts.
    """

    def __init__(self, loader: LoaderBase, iterator: Any) -> None:
        self.iterator = iterator
        self.is_asked = False
        self._loader = loader
        self._epochs = loader._epochs
        self._rest: tuple[Iterator[object] | None, int] = None, 0

    @property
    def is_drained(self) -> bool:
        """Whether all batches were handed out, as far as that is known before one more is asked for."""
        return bool(getattr(self.iterator, "is_drained", False))

    def __next__(self) -> object:
        self.is_asked = True
        try:
            if self.iterator is None:
                self.iterator = self._loader._iterator_over(*self._rest, self._epochs)
            iterator = self.iterator
            # torch's own __next__ names a range: 0.2 ms though nobody profiles.
            if profiler_enabled() or iterator._dataset_kind != _DatasetKind.Map:
                return next(iterator)
            batch = iterator._next_data()
            iterator._num_yielded += 1
            return batch
        finally:
            self.is_asked = False

    def leave(self) -> None:
        """Leaves torch's iterator to a newer iteration, and keeps what is left of this one."""
        self._rest = self.iterator.rest(), self.iterator._num_yielded
        self.iterator = None


running: weakref.WeakSet[Iteration] = weakref.WeakSet()
"""Iterations that somebody is in the middle of."""


def take_over(iterator: object) -> bool:
    """Takes one of torch's iterators from the iterations in the middle of it; False if a batch is being waited for."""
    sources = [one.source for one in running if iterator is not None and one.iterator is iterator]
    if any(source.is_asked for source in sources):
        return False
    for source in sources:
        source.leave()
    return True


def current_progress(loader: LoaderBase) -> Progress:
    """The progress of the loop that the user of a `fastpipe.DataLoader` is in, or of the one that ended last.

    A second iteration that was broken off meanwhile, as ``next(iter(loader))`` is, isn't it.
    """
    last = loader._progress
    alive = [iteration.progress for iteration in running if iteration.loader is loader]
    if last.is_loaded or last.finished or last in alive:
        return last
    return max(alive, key=lambda progress: progress.touched, default=last)


def begin_epoch(dataset: object, samples: int) -> None:
    """Tells each image dataset of a loader's how many of an epoch's samples it will be asked for."""
    for part, share in split_samples(dataset, samples):
        part.begin_epoch(round(share))


def end_epoch(dataset: object) -> None:
    """Tells each image dataset that the epoch is over."""
    for part in image_datasets(dataset):
        part.end_epoch()
