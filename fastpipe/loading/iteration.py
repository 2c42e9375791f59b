"""One iteration over a loader: its batches, their epoch, and the progress."""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Iterator

from torch.autograd import _profiler_enabled as profiler_enabled  # type: ignore[attr-defined]
from torch.autograd.profiler import record_function
from torch.utils.data.dataloader import _DatasetKind

from fastpipe.datasets.wrappers import image_datasets
from fastpipe.loading.base import LoaderBase, Progress, TorchIterator
from fastpipe.loading.checks import note_given
from fastpipe.loading.collate import EmptyBatch
from fastpipe.loading.device import DeviceBatches, on_device
from fastpipe.loading.threads import ThreadIterator


class Iteration(Iterator[object]):
    """The batches of torch's iterator, counted as they are handed out.

    Args:
        loader: the `fastpipe.DataLoader`; its progress, meter and epochs become those of this iteration.
        iterator: torch's iterator over the same batches.
    """

    def __init__(self, loader: LoaderBase, iterator: TorchIterator) -> None:
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
    def iterator(self) -> TorchIterator:
        """torch's iterator that the batches come from; None while a newer iteration has it."""
        return self.source.iterator

    def __next__(self) -> object:
        try:
            return self._next_batch()
        except KeyboardInterrupt as error:  # raised again without the traceback through torch's code and this
            raise error.with_traceback(None) from None

    def _next_batch(self) -> object:
        batches = self._batches
        if batches is None:
            raise StopIteration
        # The wait for the first batch counts from the iteration's start, and so includes the start of the workers.
        asked = time.perf_counter() if self.meter.rows else self.meter.began
        ready = getattr(self.iterator, "ready", 0)
        name = f"fastpipe: batch {self.progress.batches}"
        try:
            with record_function(name) if profiler_enabled() else contextlib.nullcontext():
                batch = next(batches)
                while type(batch) is EmptyBatch:
                    self.progress.batches += 1
                    batch = next(batches)
        except StopIteration:
            self._end_epoch(asked)
            self.progress.finished = True  # set here too, as with drop_last some samples never make a batch
            self._touch()
            self._leave_for_good()
            raise
        except Exception:  # raised again
            self._leave_for_good()
            raise
        self.progress.batches += 1
        self._touch()
        now = time.perf_counter()
        self.meter.note(asked, now, batch, self._collated, ready)
        if batches.is_drained:  # loops that take exactly len(loader) batches don't reach StopIteration
            self._end_epoch(now)
        return batch

    def _end_epoch(self, now: float) -> None:
        """Records the end of the epoch, when all batches are handed out."""
        first = self.meter.ended is None
        self.meter.ended = now
        if first:
            note_given(self.loader, self._epochs)
            for inner in image_datasets(self.loader.dataset):
                inner.end_epoch()

    def _leave_for_good(self) -> None:
        running.discard(self)
        self._batches = None  # a newer iteration may use torch's iterator by the time of another call

    def _touch(self) -> None:
        self.progress.touched = time.perf_counter()
        self.loader._progress = self.progress
        self.loader._meter = self.meter

    def __len__(self) -> int:
        return len(self.loader)


class BatchSource(Iterator[object]):
    """The batches of one iteration, from torch's iterator.

    A newer iteration takes over that iterator and its workers. If more batches are requested here afterwards, they come
    from new workers.

    Args:
        loader: the `fastpipe.DataLoader`.
        iterator: torch's iterator.

    Attributes:
        is_asked: a batch is being waited for: by another thread, or by code that a signal handler has interrupted.
    """

    def __init__(self, loader: LoaderBase, iterator: TorchIterator) -> None:
        self.iterator = iterator
        self.is_asked = False
        self._loader = loader
        self._epochs = loader._epochs
        self._rest: tuple[Iterator[object] | None, int] = None, 0

    @property
    def is_drained(self) -> bool:
        """True if all batches are known to be handed out without a request for one more."""
        return bool(getattr(self.iterator, "is_drained", False))

    def __next__(self) -> object:
        self.is_asked = True
        try:
            if self.iterator is None:
                self.iterator = self._loader._iterator_over(*self._rest, self._epochs)
            iterator = self.iterator
            # torch's __next__ opens a profiler range, which takes 0.2 ms even without a profiler.
            if profiler_enabled() or iterator._dataset_kind != _DatasetKind.Map:
                return next(iterator)
            batch = iterator._next_data()
            iterator._num_yielded += 1
            return batch
        finally:
            self.is_asked = False

    def leave(self) -> None:
        """Gives torch's iterator up to a newer iteration, and keeps the rest of the indices."""
        self._rest = self.iterator.rest(), self.iterator._num_yielded
        self.iterator = None


running: weakref.WeakSet[Iteration] = weakref.WeakSet()
"""Iterations that have begun and not ended."""


def take_over(iterator: object) -> bool:
    """Takes torch's iterator from the iterations that use it; returns False if one of them waits for a batch."""
    sources = [one.source for one in running if iterator is not None and one.iterator is iterator]
    if any(source.is_asked for source in sources):
        return False
    for source in sources:
        source.leave()
    return True


def current_progress(loader: LoaderBase) -> Progress:
    """The progress of the user's current loop over a `fastpipe.DataLoader`, or of the loop that ended last.

    A second iteration that was broken off meanwhile, such as ``next(iter(loader))``, doesn't count.
    """
    last = loader._progress
    alive = [iteration.progress for iteration in running if iteration.loader is loader]
    if last.is_loaded or last.finished or last in alive:
        return last
    return max(alive, key=lambda progress: progress.touched, default=last)
