"""One iteration over a loader: its batches, the epoch that they are of, and how far it is."""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from torch.autograd import _profiler_enabled as profiler_enabled  # type: ignore[attr-defined]
from torch.autograd.profiler import record_function
from torch.utils.data.dataloader import _DatasetKind

from fastpipe.datasets.wrappers import image_datasets, split_samples
from fastpipe.executor import SharedEpoch
from fastpipe.loading.checks import note_given
from fastpipe.loading.collate import EmptyBatch
from fastpipe.loading.device import on_device
from fastpipe.loading.statistics import LoaderMeter
from fastpipe.loading.threads import ThreadIterator


class Progress:
    """Progress of an iteration, for `state_dict`.

    Attributes:
        sampler: the iteration's own, or the loader's before the first one.
        start: samples of the epoch that came before it, in the run that it resumes.
        batches: how many it has handed out, or left out because nothing was left of them.
        finished: whether its loop has ended.
        is_loaded: there is no iteration yet: the next one begins here.
        touched: when it last handed out a batch.
    """

    def __init__(self, sampler: Any, *, is_loaded: bool = False, finished: bool = False) -> None:
        self.sampler = sampler
        self.start: int = getattr(sampler, "next_start", 0)
        self.batches = 0
        self.finished = finished
        self.is_loaded = is_loaded
        self.touched = time.perf_counter()


class Iteration(Iterator[Any]):
    """The batches of torch's iterator, counted as they are handed out.

    Args:
        loader: the `fastpipe.DataLoader` whose iteration it is; its progress, meter and epochs are those of this one.
        iterator: torch's, over the same batches.
    """

    def __init__(self, loader: Any, iterator: Any) -> None:
        self.loader = loader
        self.datasets = set(image_datasets(loader.dataset))
        self.iterator = iterator
        self.progress: Progress = loader._progress
        self.meter: LoaderMeter = loader._meter
        self._collated = loader._auto_collation
        self._epochs: Mapping[SharedEpoch, int] = loader._epochs
        running.add(self)
        if isinstance(iterator, ThreadIterator):
            weakref.finalize(self, iterator.stop_epoch, iterator.number).atexit = False
        made = _batches_of(iterator)
        self._batches = made if loader.device is None else on_device(made, loader.device)

    def __next__(self) -> Any:
        # The first batch is waited for from where the iteration began: workers were started before it was asked for.
        asked = time.perf_counter() if self.meter.rows else self.meter.began
        ready = getattr(self.iterator, "ready", 0)
        name = f"fastpipe: batch {self.progress.batches}"
        try:
            with record_function(name) if profiler_enabled() else contextlib.nullcontext():
                batch = next(self._batches)
                while isinstance(batch, EmptyBatch):
                    self.progress.batches += 1
                    batch = next(self._batches)
        except StopIteration:
            self.meter.ended = asked
            self.progress.finished = True  # with drop_last, some samples are left that don't make a batch
            self._touch()
            running.discard(self)
            note_given(self.loader, self._epochs)
            end_epoch(self.loader.dataset)
            raise
        except Exception:
            running.discard(self)
            raise
        except KeyboardInterrupt as error:  # without the way to where torch waits, which is nobody's concern
            raise error.with_traceback(None) from None
        self.progress.batches += 1
        self._touch()
        self.meter.note(asked, time.perf_counter(), batch, self._collated, ready)
        return batch

    def _touch(self) -> None:
        self.progress.touched = time.perf_counter()
        self.loader._progress = self.progress
        self.loader._meter = self.meter

    def __len__(self) -> int:
        return len(self.loader)


running: weakref.WeakSet[Iteration] = weakref.WeakSet()
"""Iterations that somebody is in the middle of."""


def is_running(iterator: Any) -> bool:
    """Whether somebody is in the middle of the batches of one of torch's iterators."""
    return any(iteration.iterator is iterator for iteration in running)


def current_progress(loader: Any) -> Progress:
    """The progress of the loop that the user of a `fastpipe.DataLoader` is in, or of the one that ended last.

    A second iteration that was broken off meanwhile, as ``next(iter(loader))`` is, isn't it.
    """
    last: Progress = loader._progress
    alive = [iteration.progress for iteration in running if iteration.loader is loader]
    if last.is_loaded or last.finished or last in alive:
        return last
    return max(alive, key=lambda progress: progress.touched, default=last)


def begin_epoch(dataset: Any, samples: int) -> None:
    """Tells each image dataset of a loader's how many of an epoch's samples it will be asked for."""
    for part, share in split_samples(dataset, samples):
        part.begin_epoch(round(share))


def end_epoch(dataset: Any) -> None:
    """Tells each image dataset that the epoch is over."""
    for part in image_datasets(dataset):
        part.end_epoch()


def _batches_of(iterator: Any) -> Iterator[Any]:
    """The batches of torch's iterator, whose own ``__next__`` names a range: 0.2 ms though nobody profiles."""
    while True:
        try:
            if profiler_enabled() or iterator._dataset_kind != _DatasetKind.Map:
                batch = next(iterator)
            else:
                batch = iterator._next_data()
                iterator._num_yielded += 1
        except StopIteration:
            return
        yield batch
        del batch
