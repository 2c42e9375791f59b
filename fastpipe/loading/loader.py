"""`DataLoader`: torch's, with better defaults and less copying for images."""

from __future__ import annotations

import itertools
import operator
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, Literal, TypedDict

import torch
from torch.utils.data import (
    BatchSampler,
    Dataset,
    IterableDataset,
    Sampler,
    default_collate,
    default_convert,
)

from fastpipe.arguments import MOST_AHEAD, whole_number
from fastpipe.datasets import BadFileCounts, ImageDataset
from fastpipe.datasets.options import Unpack
from fastpipe.datasets.wrappers import image_datasets, split_samples
from fastpipe.errors import DatasetError, FastpipeWarning
from fastpipe.executor import BatchSpec, SharedEpoch
from fastpipe.loading.accelerate import prepare_loader, warn_lost
from fastpipe.loading.base import ItemT, LoaderBase, Progress, TorchIterator
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
from fastpipe.loading.iteration import Iteration, current_progress, running, take_over
from fastpipe.loading.resumable import ResumableSampler, SavedState, State
from fastpipe.loading.samplers import RandomSampler, SequentialSampler, ShuffledSampler
from fastpipe.loading.statistics import LoaderMeter, LoaderStatistics, gathered
from fastpipe.loading.threads import ThreadIterator
from fastpipe.loading.worker_monitor import MonitoredIterator

__all__ = ["DataLoader"]

_ENDLESS = 1 << 62


class TorchOptions(TypedDict, total=False):
    """Further keyword arguments of torch's loader, as far as the installed torch has them."""

    pin_memory_device: str
    in_order: bool


class DataLoader(LoaderBase[ItemT]):
    """A ``torch.utils.data.DataLoader`` for image datasets: the same batches, with less copying and better defaults.

    What differs from torch's:

    - A worker decodes each image of a `fastpipe` dataset straight into its slot of the batch, in shared memory. On
      Linux that memory is used for another batch once the main process holds no reference to this one.
    - A worker uses one thread for cv2 as for torch.
    - With ``num_workers=1, threads=N`` one process makes the batches on N threads. In the training process, only
      targets are unpickled or copied, and no thread of the loader runs, except torch's for `pin_memory`.
    - With ``num_workers=0, threads=N`` batches are made ahead of time in this process, by N threads without the GIL:
      no processes, no shared memory, no pickling. The batches are those of one worker, whatever N is: without a
      ``seed``, random numbers come from generators of the loader's own, seeded for each epoch as torch seeds worker 0;
      `worker_init_fn` is called in this process. For a dataset with a ``seed``, the first batches of the next epoch
      are made while the last of this one are consumed, unless bad files are left out.
    - ``shuffle=True`` gives torch's order from torch's generator, without a Python list of all indices; for a dataset
      with a ``seed``, the order of `ShuffledSampler` with that seed.
    - A sample that a dataset's ``on_error`` left out makes its batch smaller; an empty batch isn't handed out.
      `bad_files` counts them, and a warning at the end of the epoch reports them.
    - Each new iteration is the next epoch of a dataset with a ``seed`` and of `fastpipe.samplers`; `set_epoch` chooses
      another (needed if a new loader is made for each epoch, which causes a warning). `state_dict` resumes exactly
      within an epoch. Iterations that run at once, such as ``next(iter(loader))`` within a loop, don't take batches
      from each other: the newest uses the persistent workers, an older one that is continued gets new workers.
    - If a worker dies or stalls, the error names it, the file that it was reading and the likely causes; the next
      iteration starts new workers. If shared memory is too small, a warning or error says so before the first batch.

    Args:
        dataset, batch_size, shuffle, sampler, batch_sampler, collate_fn, drop_last: as in torch.
        num_workers: as in torch; None for 0, or with ``threads="auto"`` for one worker if it pays: an epoch of 10,000
            images or more, several CPUs, processes that are forked or a `multiprocessing_context`, and 1 GB of free
            shared memory.
        timeout, worker_init_fn, multiprocessing_context, generator, prefetch_factor: as in torch.
        pin_memory: as in torch; None for True if `device` is a CUDA device.
        persistent_workers: workers stay alive between epochs, so an epoch begins at once. From the second epoch on, a
            dataset without a ``seed`` then draws other numbers than with new workers, as in torch's loader. Likewise
            for `threads`: random numbers continue from epoch to epoch, after the last batch that was handed out.
        device: the device of the batches. Images are copied to it as uint8, a quarter of the bytes, and the trailing
            ``ToTensor`` and ``Normalize`` run on it, once for each batch; to a CUDA device, batches are copied one
            ahead, on a separate stream. None leaves batches in the CPU's memory, finished by the workers.
        dtype: floating dtype of the images, such as ``torch.bfloat16``; None for the transform's. Integer images keep
            their dtype.
        memory_format: ``torch.contiguous_format`` or ``torch.channels_last``, for batches of images.
        threads: the number of threads that decode a batch in each process; None for the dataset's own ``threads``,
            "auto" for the CPUs divided by the processes, less one for the training if there is one worker. With
            ``num_workers=0`` and 1 thread or more, ``prefetch_factor`` (3) batches are made ahead of time.
        others: further keyword arguments of torch's loader (``in_order``, …).

    Attributes:
        device, dtype, memory_format, num_workers, threads: as given; chosen numbers in place of None and "auto".

    Raises:
        DatasetError: the dtype isn't floating, the memory format is another one, the number of threads is negative,
            torch doesn't support the device, or the dataset has no length and no sampler is given.
        LoaderError: in an iteration: a worker died, no batch came for `timeout` seconds, or shared memory has no room.
    """

    def __init__(
        self,
        dataset: Dataset[ItemT],
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
        **others: Unpack[TorchOptions],
    ) -> None:
        num_workers, count = workers_and_threads(num_workers, threads, dataset, multiprocessing_context)
        if prefetch_factor is not None:
            takes = "the number of batches that each worker makes ahead"
            whole_number("prefetch_factor", prefetch_factor, takes, least=1, most=MOST_AHEAD, error=DatasetError)
        check_output(device, dtype, memory_format)
        # Plain attributes with the arguments' names, as in torch: tools that rebuild a loader read them.
        self.device = None if device is None else torch.device(device)
        self.dtype = dtype
        self.memory_format = memory_format
        self.threads = count
        self._batch_spec = BatchSpec(
            defer=device is not None,
            dtype=dtype,
            channels_last=memory_format == torch.channels_last,
            threads=count,
            # The user's own collate_fn, and a wrapper of the dataset, need a list of samples.
            as_list=collate_fn is not None or not gives_batches(dataset),
        )
        collates = batch_size is not None or batch_sampler is not None
        if collates and (collate_fn is None or dtype is not None or self._batch_spec.channels_last):
            collate_fn = BatchCollate(self._batch_spec, collate_fn or default_collate)
        if any(inner.on_error != "raise" for inner in image_datasets(dataset)):
            collate_fn = CollateGood(collate_fn or default_convert)
        self._by_threads = num_workers == 0 and bool(count) and not isinstance(dataset, IterableDataset)
        self._keeps_streams = persistent_workers and self._by_threads
        self._warned_of_obstacle = self._warned_of_ranks = self._warned_of_loss = False
        self._shuffles = bool(shuffle) and sampler is None and batch_sampler is None
        self._thread_iterator: ThreadIterator | None = None
        self._epoch: int | None = None  # the last iteration's epoch
        self._epochs: dict[SharedEpoch, int] = {}  # the last iteration's epoch of each dataset that has a seed
        self._order: Iterable[object] | None = None  # the source of an iteration's indices, set only while it begins
        if sampler is None and batch_sampler is None and not isinstance(dataset, IterableDataset):
            if not isinstance(dataset, Sized):
                raise DatasetError(f"dataset={dataset!r:.80} has no length: give one that has, or a sampler.")
            sampler = _shuffled(dataset, generator) if shuffle else SequentialSampler(dataset)
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
        if self._by_threads:  # torch's loader drops both without workers; tools that rebuild the loader read them
            vars(self).update(prefetch_factor=prefetch_factor, persistent_workers=persistent_workers)
        self._progress = Progress(self._own_sampler(), is_loaded=True)
        self._meter = LoaderMeter(workers=self.num_workers)

    def __iter__(self) -> Any:
        """The batches of the next epoch; after `load_state_dict`, the remaining batches of the saved epoch."""
        if isinstance(self._iterator, MonitoredIterator) and self._iterator.is_over:
            self._iterator = None
        if self._shuffles and not self._warned_of_ranks:
            self._warned_of_ranks = warn_of_whole_epochs()
        # Persistent workers serve one iteration at a time: the newest.
        busy = not take_over(self._iterator)
        self._epochs = self._choose_epochs(busy)
        indices = self._sampler()
        for inner, samples in split_samples(self.dataset, operator.length_hint(indices, _ENDLESS)):
            inner.begin_epoch(round(samples))
        self._order, sampler = self._copy_order()
        self._progress = Progress(sampler)
        kept = self._iterator
        times = kept.times if isinstance(kept, MonitoredIterator) and not busy else None
        self._meter = LoaderMeter(self._epoch, tuple(image_datasets(self.dataset)), self.num_workers, times)
        try:
            iterator = self._get_iterator() if busy else super().__iter__()
        finally:
            self._order = None
        return Iteration(self, iterator)

    def stats(self, gather: bool = False) -> LoaderStatistics:
        """Statistics of this epoch so far, and of its last minute: rates, waits, and an image's time by stage.

        Args:
            gather: add the statistics of all ranks of ``torch.distributed``, and name the slowest rank. All ranks must
                call this.
        """
        threads = 0 if self.threads is None else self.threads
        own = self._meter.statistics(threads, self.bad_files)
        return gathered(own) if gather else own

    @property
    def _index_sampler(self) -> Any:
        """The source of batches of indices, or of single indices, for torch's iterators."""
        return super()._index_sampler if self._order is None else self._order

    def _copy_order(self) -> tuple[Iterable[object], ResumableSampler | None]:
        """Copies the source of indices, and the sampler in it, so that other iterations don't advance them."""
        sampler, batches = self._own_sampler(), self.batch_sampler
        if sampler is not None and batches is None:
            own = sampler.for_one_iteration()
            return own, own
        if sampler is not None and type(batches) is BatchSampler:
            own = sampler.for_one_iteration()
            return BatchSampler(own, batches.batch_size, batches.drop_last), own
        return self._index_sampler, sampler

    def _get_iterator(self) -> TorchIterator:
        if self._by_threads:
            last = self._thread_iterator
            free = last is not None and last.made_by == os.getpid() and (last.is_drained or self._keeps_streams)
            if last is not None and free and take_over(last):
                last.begin_next_epoch(self)
            else:
                self._thread_iterator = ThreadIterator(self)
            return self._thread_iterator
        if self.num_workers == 0:
            here: TorchIterator = super()._get_iterator()
            if not isinstance(self.dataset, IterableDataset) and (self._auto_collation or self._epochs):
                here._dataset_fetcher.dataset = BatchFetcher(self.dataset, self._batch_spec, self._epochs)
            return here
        self.check_worker_number_rationality()
        if self.batch_size is not None and not self._batch_spec.as_list:
            ahead = self.num_workers * (self.prefetch_factor or 2)
            check_shared_memory(image_datasets(self.dataset), self.batch_size, ahead, self._batch_spec)
        is_persistent = self.persistent_workers and self._iterator is None
        return MonitoredIterator(self, self._meter.times, is_persistent=is_persistent)

    def _iterator_over(
        self, rest: Iterator[object] | None, given: int, epochs: dict[SharedEpoch, int]
    ) -> TorchIterator:
        """torch's iterator, with new workers, over the rest of an iteration whose workers a newer one took over.

        Args:
            rest: the sampler's remaining output; None for an `IterableDataset`, which starts from its beginning.
            given: the number of batches that were handed out.
            epochs: the epoch of each dataset that has a seed.
        """
        if rest is not None:
            rest = itertools.chain([next(rest)], rest)  # raises before a worker is started if nothing is left
        now = self._order, self._epochs
        self._order, self._epochs = rest, epochs
        try:
            if self._by_threads:
                return ThreadIterator(self)
            iterator = MonitoredIterator(self)
        finally:
            self._order, self._epochs = now
        if rest is None:
            for _ in range(given):
                next(iterator)
        return iterator

    def _choose_epochs(self, busy: bool) -> dict[SharedEpoch, int]:
        """Begins the epoch that was chosen since the last iteration; if none was, the one after the last iteration's.

        Args:
            busy: persistent workers still serve another iteration, and read that one's epoch from shared memory.

        Returns:
            The epoch of each dataset that has a seed.
        """
        sampler = self._own_sampler()
        seeded = _seeded(image_datasets(self.dataset))
        following = [count.get() for count in seeded.values()]
        chosen = [count.get() for count in seeded.values() if count.is_chosen]
        epochs = {count: count.get() for count in seeded.values()}
        if any(dataset in other.datasets for other in running if other.loader is not self for dataset in seeded):
            seeded = {}  # another loader is iterating over their epoch
        else:
            if sampler is not None:
                following.append(sampler.next_epoch)
                chosen += [sampler.next_epoch] * sampler.is_chosen
            if self._epoch is not None:
                following = chosen or [self._epoch + 1, *following]
            elif not chosen:
                warn_of_repetition(self, seeded.values(), self._sampler())
        self._epoch = epoch = max(following, default=0)
        for count in seeded.values():
            epochs[count] = epoch
            if not busy:
                count.set(epoch, counted=True)
        if sampler is not None:
            sampler.begin(epoch)
        return epochs

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next iteration, for the sampler and for every dataset with a seed.

        Without it, each iteration increases the epoch by one.
        """
        self._set_datasets(epoch)
        for sampler in (self.batch_sampler, self._sampler()):
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(epoch)

    def _set_datasets(self, epoch: int) -> None:
        for dataset in image_datasets(self.dataset):
            dataset.set_epoch(epoch)

    @property
    def bad_files(self) -> BadFileCounts:
        """Counts of samples skipped and replaced, in this epoch so far and in total; includes prefetched batches."""
        return sum((inner.bad_files for inner in image_datasets(self.dataset)), BadFileCounts(0, 0, 0))

    def state_dict(self) -> State:
        """The state that `load_state_dict` resumes from: after the last batch that was handed out.

        The remaining samples and their order are exact. With a ``seed``, so are their random numbers; without one, save
        the state of the random generators yourself.

        Raises:
            DatasetError: the sampler isn't one of `fastpipe.samplers`.
        """
        self._resumable_or_refuse()
        now = current_progress(self)
        assert now.sampler is not None
        length = now.sampler.epoch_length
        done = length if now.finished else min(now.start + now.batches * self._samples_per_step(), length)
        state = now.sampler.state_dict(done, now.finished)
        new = now.finished and not now.is_loaded and self._iterator is None and not self._keeps_streams
        if new and self.generator is not None and state.get("generator") is not None:
            # An iteration that starts workers draws their seeds before the order.
            following = torch.Generator()
            following.set_state(state["generator"])
            torch.empty((), dtype=torch.int64).random_(generator=following)
            state["generator"] = following.get_state()
        return {"sampler": state, "dataset": describe_dataset(self.dataset, now.sampler.epoch)}

    def load_state_dict(self, state: SavedState, *, allow_changes: bool = False) -> None:
        """Resumes where the state was saved: the next iteration gives the remaining batches of its epoch.

        The number of ranks, the batch size, workers and threads may differ. A different number of ranks divides the
        rest of the epoch's order among them, so give each rank the same state: any rank's, or, if the ranks may have
        saved at different moments, the result of `samplers.merge_states`.

        Args:
            state: what `state_dict` returned.
            allow_changes: warn instead of raising if the dataset isn't the one that the state was saved with; samples
                may then come twice in this epoch, or not at all.

        Raises:
            DatasetError: the sampler isn't one of `fastpipe.samplers`, the dataset has changed, or the state is invalid
                or was saved by another run, or by a loader with another ``shuffle``.
        """
        sampler = self._resumable_or_refuse()
        check_state(state)
        changed = check_dataset(state.get("dataset"), self.dataset, allow_changes)
        with warnings.catch_warnings():
            if changed:  # check_dataset has warned already
                warnings.simplefilter("ignore", FastpipeWarning)
            sampler.load_state_dict(state["sampler"], allow_changes=allow_changes)
        self._set_datasets(sampler.next_epoch)
        self._epoch = None
        self._progress = Progress(sampler, is_loaded=True, finished=state["sampler"].get("finished", False))

    def prepare(self, accelerator: object) -> Any:
        """Prepares the loader for Accelerate, as ``accelerator.prepare(loader)``, but keeps this class and `threads`.

        ``accelerator.prepare`` itself replaces this loader by torch's; it leaves the result of this method unchanged.

        Args:
            accelerator: an ``accelerate.Accelerator``.
        """
        return prepare_loader(self, accelerator)

    @property
    def _is_accelerate_prepared(self) -> bool:
        """False; Accelerate reads this before it replaces the loader, so it is the place to warn about lost threads."""
        if self._by_threads:
            vars(self).update(prefetch_factor=None, persistent_workers=False)  # which torch's loader would refuse
            if not self._warned_of_loss:
                self._warned_of_loss = True
                warn_lost(self, "accelerator.prepare replaces this loader by torch's DataLoader, which has no threads")
        return False

    def _resumable_or_refuse(self) -> ResumableSampler:
        sampler = self._resumable()
        if sampler is None:
            raise DatasetError(
                f"a {type(self._sampler()).__name__} can't be resumed: use a sampler of fastpipe.samplers, or give the "
                "loader none, but shuffle=True or False."
            )
        return sampler

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_thread_iterator": None}  # threads can't be sent


def _shuffled(dataset: Any, generator: torch.Generator | None) -> Sampler[int]:
    seed = next((inner.seed for inner in image_datasets(dataset) if inner.seed is not None), None)
    return RandomSampler(dataset, generator) if seed is None else ShuffledSampler(dataset, seed)


def _seeded(datasets: Iterable[ImageDataset]) -> dict[ImageDataset, SharedEpoch]:
    """The datasets that have a seed, and the epoch of each."""
    return {one: epoch for one in datasets if (epoch := one._fastpipe.epoch) is not None}
