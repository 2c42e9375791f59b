"""Workers: what they are started with, and the set-up of their processes."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import cv2
from torch.utils.data import get_worker_info

from fastpipe.datasets import ImageDataset
from fastpipe.datasets.wrappers import image_datasets
from fastpipe.executor import BatchSpec, Slots, StageTimes
from fastpipe.loading.fetcher import BatchFetcher
from fastpipe.loading.hand_over import context_of_queues
from fastpipe.loading.worker_monitor import Heartbeats, MonitoredIterator, silence_exit


@dataclass(frozen=True)
class WorkerInit:
    """Runs first in each worker. torch has seeded itself, Python's random and numpy by then, and uses one thread.

    Attributes:
        user: the loader's ``worker_init_fn``, which runs behind this.
        heartbeats: where the worker notes the samples that it begins.
        slots: memory that batches are made in.
        epochs: of each image dataset with a seed, None for one without; None for what the main process sets.
        times: what the time of the stages is added to.
    """

    user: Callable[[int], None] | None
    heartbeats: Heartbeats | None
    slots: Slots | None
    epochs: tuple[int | None, ...] | None
    times: StageTimes | None = None

    def __call__(self, worker: int) -> None:
        silence_exit()
        # As many threads as cores in each worker would get in each other's way. 0 is one thread, too, but leaves alone
        # the pool that a forked worker inherits without its threads; setNumThreads(1) waits for them forever.
        cv2.setNumThreads(0)
        info = get_worker_info()
        if info is not None and isinstance(info.dataset, BatchFetcher):
            asking = info.dataset
            object.__setattr__(info, "dataset", asking.dataset)  # for the user, who knows no other
            if self.slots is not None:
                asking.options = replace(asking.options, slots=self.slots.of_worker(worker))
        if self.epochs is not None and info is not None:
            for part, epoch in zip(image_datasets(info.dataset), self.epochs, strict=True):
                if part._fastpipe.epoch is not None and epoch is not None:
                    part._fastpipe.epoch.stay(epoch)
        if self.heartbeats is not None and info is not None:
            self._note(self.heartbeats, worker, info.dataset)
        if self.times is not None and info is not None:
            for part in image_datasets(info.dataset):
                part._fastpipe.measure(self.times.row(worker))
        if self.user is not None:
            self.user(worker)
        parent = multiprocessing.parent_process()
        if parent is not None and not parent.is_alive():
            sys.exit()  # torch looks from now on whether the parent changes, and would wait for this one for ever

    def _note(self, heartbeats: Heartbeats, worker: int, dataset: Any) -> None:
        for_dataset = heartbeats.of_worker(worker)
        first = 0
        for part in image_datasets(dataset):
            part.on_begin = for_dataset(first, len(part))
            first += len(part)


def start_workers(
    loader: Any,
    datasets: tuple[ImageDataset, ...],
    requested: BatchSpec | None,
    epochs: tuple[int | None, ...] | None,
    times: StageTimes | None,
) -> MonitoredIterator:
    """torch's iterator over the batches of a loader's workers.

    Args:
        loader: the `fastpipe.DataLoader`.
        datasets: the image datasets in its dataset.
        requested: what is asked of them; None where torch's fetcher asks.
        epochs, times: as of `WorkerInit`.
    """
    heartbeats = slots = None
    if datasets:
        threads = max(part.threads if loader.threads is None else loader.threads for part in datasets)
        heartbeats = Heartbeats(loader.num_workers, threads)
        # Those that are made ahead, and two that the user's loop holds.
        count = (loader.prefetch_factor or 2) + 2
        slots = Slots(loader.num_workers, count) if sys.platform == "linux" else None
    user, context = loader.worker_init_fn, loader.multiprocessing_context
    loader.worker_init_fn = WorkerInit(user, heartbeats, slots, epochs, times)
    loader.multiprocessing_context = context_of_queues(context)
    try:
        iterator = MonitoredIterator(loader, requested)
    finally:
        loader.worker_init_fn, loader.multiprocessing_context = user, context
    iterator.heartbeats, iterator.datasets, iterator.slots, iterator.times = heartbeats, datasets, slots, times
    return iterator
