"""torch's `DataLoader` with defaults and short cuts for images."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import torch
from torch.utils.data import (
    BatchSampler,
    Dataset,
    IterableDataset,
    Sampler,
    default_collate,
    default_convert,
)

from fastpipe.datasets import BadFileCounts, ImageDataset
from fastpipe.datasets.wrappers import image_datasets
from fastpipe.errors import DatasetError, FastpipeWarning
from fastpipe.executor import BatchSpec, SharedEpoch
from fastpipe.loading.accelerate import prepare_loader, warn_lost
from fastpipe.loading.base import LoaderBase, Progress
from fastpipe.loading.checks import (
    check_output,
    check_shared_memory,
    check_state,
    warn_of_repetition,
    warn_of_whole_epochs,
    workers_and_threads,
)
from fastpipe.loading.collate import BatchCollate, CollateGood
from fastpipe.loading.dataset_state import check_dataset, describe_dataset
from fastpipe.loading.fetcher import BatchFetcher, gives_batches
from fastpipe.loading.iteration import Iteration, begin_epoch, current_progress, running, take_over
from fastpipe.loading.samplers import RandomSampler, SequentialSampler, ShuffledSampler
from fastpipe.loading.statistics import LoaderMeter, LoaderStatistics, gathered
from fastpipe.loading.threads import ThreadIterator
from fastpipe.loading.worker_monitor import MonitoredIterator

__all__ = ["DataLoader"]

_ENDLESS = 1 << 62


class DataLoader(LoaderBase):
    """A ``torch.utils.data.DataLoader`` for image datasets: the same batches, with less copying and better defaults.

    What differs from torch's:

    - A worker decodes each image of a `fastpipe` dataset straight into its slot of the batch, in shared memory. On
      Linux that memory serves for another batch when nothing of this one is left in the main process.
    - A worker uses one thread for cv2 as for torch.
    - With ``num_workers=1, threads=N`` one process makes the batches on N threads, and the training process has nothing
      to do but to take them: nothing is unpickled or copied there but targets, and no thread of the loader's runs, but
      torch's where `pin_memory` is asked for.
    - With ``num_workers=0, threads=N`` batches are made ahead of time in this process, by N threads without the GIL:
      no processes, no shared memory, no pickling. The batches are those of one worker, whatever N is: without a
      ``seed``, random numbers come from generators of the loader's own, seeded for each epoch as torch seeds worker 0,
      `worker_init_fn` included, which is called in this process. The last batches of an epoch of a dataset with a
      ``seed`` are consumed while the first of the next are made, unless bad files are left out.
    - ``shuffle=True`` gives torch's order from torch's generator, without a Python list of all indices; for a dataset
      with a ``seed``, the order of `ShuffledSampler` with that seed.
    - Batches never hold a sample that a dataset's ``on_error`` left out: they are smaller by it, and a batch of which
      nothing is left isn't handed out. `bad_files` counts, and a warning at the end of an epoch tells.
    - Each new iteration is the next epoch of a dataset with a ``seed`` and of `fastpipe.samplers`; `set_epoch` chooses
      another (a loader made anew for each epoch needs it, and warns). `state_dict` resumes exactly within an epoch.
      Iterations that run at once, such as ``next(iter(loader))`` within a loop, take nothing from each other: the
      newest has the workers that stay, and an older one gets workers of its own if it is asked for more.
    - Where a worker dies or stalls, the error names it, the file that it was at and the likely causes; the next
      iteration starts new workers. Where shared memory is too small, that is said before the first batch.

    Args:
        dataset, batch_size, shuffle, sampler, batch_sampler, collate_fn, drop_last: as torch's.
        num_workers: as torch's; None for 0, or with ``threads="auto"`` for one worker where it pays: an epoch of 10,000
            images or more, several CPUs, processes that are forked or a `multiprocessing_context`, and 1 GB of free
            shared memory.
        timeout, worker_init_fn, multiprocessing_context, generator, prefetch_factor: as torch's.
        pin_memory: None for yes where `device` is a CUDA device.
        persistent_workers: workers stay alive between epochs; then an epoch begins at once, but from the second on a
            dataset without a ``seed`` draws other numbers than new workers would, in torch's loader as here. Likewise
            for `threads`: random numbers go on from epoch to epoch, and after the last batch that was handed out.
        device: where the batches are handed out. Images travel there as uint8, a quarter of the bytes, and the
            trailing ``ToTensor`` and ``Normalize`` run there, once a batch; to a CUDA device they are copied one
            batch ahead on a stream of their own. None leaves batches in the CPU's memory, finished by the workers.
        dtype: floating dtype of the images, such as ``torch.bfloat16``; None for what the transform gives. Images
            that the transform leaves as integers stay so.
        memory_format: ``torch.contiguous_format`` or ``torch.channels_last``, of batches of images.
        threads: threads in each process that decode a batch; None for the dataset's own ``threads``, "auto" for as
            many as there are CPUs for each process, less one for the training where there is one worker. With
            ``num_workers=0`` and a number from 1, batches are made ahead of time, ``prefetch_factor`` (3) of them.
        others: further keyword arguments of torch's loader (``in_order``, …).

    Attributes:
        device, dtype, memory_format, num_workers, threads: as given; numbers where those were left open.

    Raises:
        DatasetError: a dtype that isn't floating, another memory format, a negative number of threads, or a CUDA device
            where torch has none.
        LoaderError: in an iteration: a worker died, no batch came for `timeout` seconds, or shared memory has no room.
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool | None = None,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: torch.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        memory_format: torch.memory_format = torch.contiguous_format,
        threads: int | Literal["auto"] | None = None,
        **others: Any,
    ) -> None:
        num_workers, count = workers_and_threads(num_workers, threads, dataset, multiprocessing_context)
        check_output(device, dtype, memory_format)
        # Plain attributes under the arguments' names, as torch's: tools that rebuild a loader read them back.
        self.device = None if device is None else torch.device(device)
        self.dtype = dtype
        self.memory_format = memory_format
        self.threads = count
        self._batch_spec = BatchSpec(
            defer=device is not None,
            dtype=dtype,
            channels_last=memory_format == torch.channels_last,
            threads=count,
            # The user's own collate_fn gets the list of samples that it expects, and so does a wrapper.
            as_list=collate_fn is not None or not gives_batches(dataset),
        )
        self._given_collate = collate_fn
        collates = batch_size is not None or batch_sampler is not None
        if collates and (collate_fn is None or dtype is not None or self._batch_spec.channels_last):
            collate_fn = BatchCollate(self._batch_spec, collate_fn or default_collate)
        if any(part.on_error != "raise" for part in image_datasets(dataset)):
            collate_fn = CollateGood(collate_fn or default_convert)
        self._by_threads = num_workers == 0 and bool(count) and not isinstance(dataset, IterableDataset)
        self._keeps_streams = persistent_workers and self._by_threads
        self._warned_of_obstacle = self._warned_of_ranks = self._warned_of_loss = False
        self._shuffles = bool(shuffle) and sampler is None and batch_sampler is None
        self._thread_iterator: ThreadIterator | None = None
        self._epoch: int | None = None  # of the last iteration
        self._epochs: dict[SharedEpoch, int] = {}  # the same, of each dataset that has a seed
        self._order: Any = None  # while an iteration begins, what gives its indices
        if sampler is None and batch_sampler is None and not isinstance(dataset, IterableDataset):
            sampler = _shuffled(dataset, generator) if shuffle else SequentialSampler(dataset)  # type: ignore[arg-type]
            shuffle = None
        super().__init__(
            dataset,
            batch_size,
            shuffle,
            sampler,
            batch_sampler,
            num_workers,
            collate_fn,
            self.device is not None and self.device.type == "cuda" if pin_memory is None else pin_memory,
            drop_last,
            timeout,
            worker_init_fn,
            multiprocessing_context,
            generator,
            prefetch_factor=None if self._by_threads else prefetch_factor,
            persistent_workers=persistent_workers and not self._by_threads,
            **others,
        )
        if self._by_threads:  # torch has neither without workers; tools that rebuild the loader read them back
            vars(self).update(prefetch_factor=prefetch_factor, persistent_workers=persistent_workers)
        self._progress = Progress(self._sampler(), is_loaded=True)
        self._meter = LoaderMeter()

    def __iter__(self) -> Any:
        """The batches of the next epoch, or after `load_state_dict` of the rest of the one that was saved."""
        if isinstance(self._iterator, MonitoredIterator) and self._iterator.is_over:
            self._iterator = None
        if self._shuffles and not self._warned_of_ranks:
            self._warned_of_ranks = warn_of_whole_epochs()
        # Workers that stay make the batches of one iteration at a time: the newest.
        busy = not take_over(self._iterator)
        self._epochs = self._go_on(busy)
        indices = self._sampler()
        begin_epoch(self.dataset, len(indices) if hasattr(indices, "__len__") else _ENDLESS)
        self._order, sampler = self._order_of_its_own()
        self._progress = Progress(sampler)
        self._meter = LoaderMeter(self._epoch, tuple(image_datasets(self.dataset)))
        self._meter.listen(self.num_workers, None if busy else self._iterator)
        try:
            iterator = self._get_iterator() if busy else super().__iter__()
        finally:
            self._order = None
        return Iteration(self, iterator)

    def stats(self, gather: bool = False) -> LoaderStatistics:
        """Statistics of this epoch so far, and of its last minute: rates, waits, where the time of an image goes.

        Args:
            gather: also those of all ranks of ``torch.distributed``, and which is the slowest. All ranks have to ask.
        """
        threads = 0 if self.threads is None else self.threads
        own = self._meter.statistics(self.num_workers, threads, self.bad_files)
        return gathered(own) if gather else own

    @property
    def _index_sampler(self) -> Any:
        """The source of batches of indices, or of single ones; torch's iterators take it from here."""
        return super()._index_sampler if self._order is None else self._order

    def _order_of_its_own(self) -> tuple[Any, Any]:
        """A copy of what gives an iteration's indices, and the sampler in it: no other iteration moves these."""
        sampler: Any = self._sampler()
        batches: Any = self.batch_sampler
        if not hasattr(sampler, "for_one_iteration") or type(batches) not in (BatchSampler, type(None)):
            return self._index_sampler, sampler
        own = sampler.for_one_iteration()
        return own if batches is None else BatchSampler(own, batches.batch_size, batches.drop_last), own

    def _get_iterator(self) -> Any:
        if self._by_threads:
            last = self._thread_iterator
            free = last is not None and last.made_by == os.getpid() and (last.is_drained or self._keeps_streams)
            if last is not None and free and take_over(last):
                last.again(self)
            else:
                self._thread_iterator = ThreadIterator(self)
            return self._thread_iterator
        if self.num_workers == 0:
            here: Any = super()._get_iterator()
            if not isinstance(self.dataset, IterableDataset) and (self._auto_collation or self._epochs):
                options = replace(self._batch_spec, epochs=self._epochs)
                here._dataset_fetcher.dataset = BatchFetcher(self.dataset, options)
            return here
        self.check_worker_number_rationality()
        if self.batch_size is not None and not self._batch_spec.as_list:
            ahead = self.num_workers * (self.prefetch_factor or 2)
            check_shared_memory(image_datasets(self.dataset), self.batch_size, ahead, self._batch_spec)
        # Workers that stay are told of each epoch in shared memory.
        stay = self.persistent_workers and self._iterator is None
        return MonitoredIterator(self, {} if stay else self._epochs, self._meter.times, stay)

    def _iterator_over(self, rest: Iterator[object] | None, given: int, epochs: dict[SharedEpoch, int]) -> Any:
        """torch's iterator, with workers of its own, over the rest of an iteration that a newer one took them from.

        Args:
            rest: what the sampler gives for it; None for an `IterableDataset`, which begins anew.
            given: batches that were handed out.
            epochs: of each dataset that has a seed.
        """
        if rest is not None:
            rest = itertools.chain([next(rest)], rest)  # no worker is started where nothing is left
        now = self._order, self._epochs
        self._order, self._epochs = rest, epochs
        try:
            if self._by_threads:
                return ThreadIterator(self)
            iterator = MonitoredIterator(self, epochs)
        finally:
            self._order, self._epochs = now
        if rest is None:
            for _ in range(given):
                next(iterator)
        return iterator

    def _go_on(self, busy: bool) -> dict[SharedEpoch, int]:
        """Begins the epoch that was chosen since the last iteration; else the one after that iteration's.

        Args:
            busy: workers that stay are in the middle of another one, and go on to read its number.

        Returns:
            The epoch of each dataset that has a seed.
        """
        sampler = self._sampler()
        counts_too = hasattr(sampler, "next_epoch")
        seeded = _seeded(image_datasets(self.dataset))
        following = [count.get() for count in seeded.values()]
        chosen = [count.get() for count in seeded.values() if count.is_chosen]
        epochs = {count: count.get() for count in seeded.values()}
        if any(dataset in other.datasets for other in running if other.loader is not self for dataset in seeded):
            seeded = {}  # another loader is in the middle of their epoch
        else:
            if counts_too:
                following.append(sampler.next_epoch)
                chosen += [sampler.next_epoch] * sampler.is_chosen
            if self._epoch is not None:
                following = chosen or [self._epoch + 1, *following]
            elif not chosen:
                warn_of_repetition(self, seeded.values(), sampler)
        self._epoch = epoch = max(following, default=0)
        for count in seeded.values():
            epochs[count] = epoch
            if not busy:
                count.set(epoch, counted=True)
        if counts_too:
            sampler.begin(epoch)
        return epochs

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next iteration, for the sampler and for every dataset with a seed.

        Without it, each iteration is of the epoch after the last one's.
        """
        self._set_datasets(epoch)
        samplers: tuple[Any, ...] = (self.batch_sampler, self._sampler())
        for sampler in samplers:
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(epoch)

    def _set_datasets(self, epoch: int) -> None:
        for dataset in image_datasets(self.dataset):
            dataset.set_epoch(epoch)

    @property
    def bad_files(self) -> BadFileCounts:
        """Counts of samples skipped and replaced in this epoch so far, workers' work ahead included, and in all."""
        return sum((part.bad_files for part in image_datasets(self.dataset)), BadFileCounts(0, 0, 0))

    def state_dict(self) -> dict[str, Any]:
        """State for `load_state_dict` to go on after the last batch that was handed out.

        The samples that come, and their order, are exact. With a ``seed``, so are their random numbers; without one,
        those come from generators that are the caller's to save.

        Raises:
            DatasetError: the sampler is none of `fastpipe.samplers`.
        """
        self._resumable_or_refuse()
        now = current_progress(self)
        length = now.sampler.epoch_length
        done = length if now.finished else min(now.start + now.batches * self._samples_a_step(), length)
        state = now.sampler.state_dict(done, now.finished)
        new = now.finished and not now.is_loaded and self._iterator is None and not self._keeps_streams
        if new and self.generator is not None and state.get("generator") is not None:
            # An iteration that starts workers draws their seeds before the order.
            following = torch.Generator()
            following.set_state(state["generator"])
            torch.empty((), dtype=torch.int64).random_(generator=following)
            state["generator"] = following.get_state()
        return {"sampler": state, "dataset": describe_dataset(self.dataset, now.sampler.epoch)}

    def load_state_dict(self, state: Mapping[str, Any], *, allow_changes: bool = False) -> None:
        """Goes on where the state was taken: the next iteration gives the remaining batches of its epoch.

        The number of ranks, the batch size, workers and threads may be others. Other ranks divide what is left of the
        epoch's order among them, so give each the same state: any rank's, or where they may have been saved at
        different moments, what `samplers.merge_states` makes of all.

        Args:
            state: what `state_dict` returned.
            allow_changes: go on also where the dataset isn't the one that the state was saved with, with a warning:
                samples may then come twice in this epoch, or not at all.

        Raises:
            DatasetError: the sampler is none of `fastpipe.samplers`, the dataset has changed, or the state is of
                another run, of a loader with another ``shuffle``, or of something else.
        """
        sampler = self._resumable_or_refuse()
        check_state(state)
        changed = check_dataset(state.get("dataset"), self.dataset, allow_changes)
        with warnings.catch_warnings():
            if changed:  # it was told, in better words
                warnings.simplefilter("ignore", FastpipeWarning)
            sampler.load_state_dict(state["sampler"], allow_changes=allow_changes)
        self._set_datasets(sampler.next_epoch)
        self._epoch = None
        self._progress = Progress(sampler, is_loaded=True, finished=state["sampler"].get("finished", False))

    def prepare(self, accelerator: object) -> Any:
        """Does what ``accelerator.prepare(loader)`` does, but with this class making the batches, `threads` included.

        ``accelerator.prepare`` itself puts torch's loader in this one's place; what was prepared here it leaves alone.

        Args:
            accelerator: an ``accelerate.Accelerator``.
        """
        return prepare_loader(self, accelerator)

    @property
    def _is_accelerate_prepared(self) -> bool:
        """Accelerate asks for this before it puts torch's loader in this one's place."""
        if self._by_threads:
            vars(self).update(prefetch_factor=None, persistent_workers=False)  # torch's loader refuses them, too
            if not self._warned_of_loss:
                self._warned_of_loss = True
                warn_lost(
                    self, "accelerator.prepare puts torch's DataLoader in the place of this one, and that has none"
                )
        return False

    def _resumable_or_refuse(self) -> Any:
        sampler = self._resumable()
        if sampler is None:
            raise DatasetError(
                f"a {type(self._sampler()).__name__} can't be resumed: use a sampler of fastpipe.samplers, or give the "
                "loader none, but shuffle=True or False."
            )
        return sampler

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_thread_iterator": None}  # threads can't be sent

    def _sampler(self) -> Any:
        return self.sampler if self.batch_size is not None else getattr(self._all_batches(), "sampler", self.sampler)

    def _all_batches(self) -> Any:
        """The source of all ranks' batches: Accelerate's batch sampler takes this rank's from it."""
        batches = self.batch_sampler
        return getattr(batches, "batch_sampler", batches)

    def _samples_a_step(self) -> int:
        """Indices that the sampler gives for one batch of this loader's, and of the other ranks' that share it."""
        batches = self.batch_sampler
        if batches is None:
            return 1
        ranks = 1 if getattr(batches, "split_batches", False) else getattr(batches, "num_processes", 1)
        step: int = self._all_batches().batch_size * ranks
        return step

    def _resumable(self) -> Any:
        sampler = self._sampler()
        batches = self._all_batches()
        ordinary = batches is None or isinstance(batches, BatchSampler)
        return sampler if ordinary and hasattr(sampler, "next_start") else None


def _shuffled(dataset: Any, generator: torch.Generator | None) -> Sampler[int]:
    seed = next((part.seed for part in image_datasets(dataset) if part.seed is not None), None)
    return RandomSampler(dataset, generator) if seed is None else ShuffledSampler(dataset, seed)


def _seeded(datasets: Iterable[ImageDataset]) -> dict[ImageDataset, SharedEpoch]:
    """The datasets that have a seed, and the epoch of each."""
    return {one: epoch for one in datasets if (epoch := one._fastpipe.epoch) is not None}
