"""torch's `DataLoader` with defaults and short cuts for images."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import cv2
import torch
from torch.utils.data import (
    BatchSampler,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    default_collate,
    default_convert,
    get_worker_info,
)
from torch.utils.data import DataLoader as TorchDataLoader

from fastpipe.datasets import BadFileCounts
from fastpipe.errors import DatasetError
from fastpipe.loading.bad_files import (
    CollateGood,
    EmptyBatch,
    bad_files_of,
    begin_epoch,
    end_epoch,
    image_datasets,
)
from fastpipe.loading.collate import BatchCollate
from fastpipe.loading.device import on_device
from fastpipe.loading.room import check_shared_memory
from fastpipe.loading.samplers import ShuffledSampler
from fastpipe.loading.watch import (
    Notes,
    WatchedIterator,
    close,
    dead_workers,
    end_with_what_cannot_be_sent,
    explained,
    leave_quietly,
)
from fastpipe.pipeline import BatchOptions, Slots, request_batches

__all__ = ["DataLoader", "image_datasets"]

_Batch = TypeVar("_Batch")
_BLOCK = 4096
_ENDLESS = 1 << 62


class DataLoader(TorchDataLoader[Any]):
    """A ``torch.utils.data.DataLoader`` for image datasets: the same batches, with less copying and better defaults.

    What differs from torch's:

    - A worker decodes each image of a `fastpipe` dataset straight into its slot of the batch, in shared memory. On
      Linux that memory serves for another batch when nothing of this one is left in the main process.
    - Workers stay alive between epochs, and use one thread for cv2 as for torch.
    - ``shuffle=True`` gives torch's order from torch's generator, without a Python list of all indices; for a dataset
      with a ``seed``, the order of `ShuffledSampler` with that seed.
    - Batches never hold a sample that a dataset's ``on_error`` left out: they are smaller by it, and a batch of which
      nothing is left isn't handed out. `bad_files` counts, and a warning at the end of an epoch tells.
    - `set_epoch` reaches the dataset and the sampler; `state_dict` resumes exactly in the middle of an epoch.
    - Where a worker dies or stalls, the error names it, the file that it was at and the likely causes; the next
      iteration starts new workers. Where shared memory is too small, that is said before the first batch.

    Args:
        dataset, batch_size, shuffle, sampler, batch_sampler, num_workers, collate_fn, drop_last: as torch's.
        timeout, worker_init_fn, multiprocessing_context, generator, prefetch_factor: as torch's.
        pin_memory: None for yes where `device` is a CUDA device.
        persistent_workers: None for yes where there are workers.
        device: where the batches are handed out. Images travel there as uint8, a quarter of the bytes, and the
            trailing ``ToTensor`` and ``Normalize`` run there, once a batch; to a CUDA device they are copied one
            batch ahead on a stream of their own. None leaves batches in the CPU's memory, finished by the workers.
        dtype: floating dtype of the images, such as ``torch.bfloat16``; None for what the transform gives. Images
            that the transform leaves as integers stay so.
        memory_format: ``torch.contiguous_format`` or ``torch.channels_last``, of batches of images.
        threads: threads in each process that decode a batch; None for the dataset's own ``threads``.
        others: further keyword arguments of torch's loader (``in_order``, …).

    Attributes:
        device, dtype, memory_format, threads: as given.

    Raises:
        DatasetError: a dtype that isn't floating, another memory format, or a negative number of threads.
        LoaderError: in an iteration: a worker died, no batch came for `timeout` seconds, or shared memory has no room.
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool | None = None,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: torch.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        memory_format: torch.memory_format = torch.contiguous_format,
        threads: int | None = None,
        **others: Any,
    ) -> None:
        if dtype is not None and not dtype.is_floating_point:
            raise DatasetError(
                f"dtype={dtype}: give a floating dtype; for uint8 images end the transform in PILToTensor."
            )
        if memory_format not in (torch.contiguous_format, torch.channels_last):
            raise DatasetError(f"memory_format={memory_format}: give torch.contiguous_format or torch.channels_last.")
        if threads is not None and threads < 0:
            raise DatasetError(f"threads={threads}: give the number of threads that decode a batch, or 0.")
        # Plain attributes under the arguments' names, as torch's: tools that rebuild a loader read them back.
        self.device = None if device is None else torch.device(device)
        self.dtype = dtype
        self.memory_format = memory_format
        self.threads = threads
        options = BatchOptions(device is not None, dtype, memory_format == torch.channels_last, threads)
        collates = batch_size is not None or batch_sampler is not None
        # The user's own collate_fn gets the list of samples that it expects.
        self._requested = replace(options, as_list=collate_fn is not None) if collates else None
        if collates and (collate_fn is None or dtype is not None or options.channels_last):
            collate_fn = BatchCollate(options, collate_fn or default_collate)
        if any(part.on_error != "raise" for part in image_datasets(dataset)):
            collate_fn = CollateGood(collate_fn or default_convert)
        self._base = self._delivered = 0
        if shuffle and sampler is None and batch_sampler is None and not isinstance(dataset, IterableDataset):
            shuffle, sampler = None, _shuffled(dataset, generator)
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
            _WorkerInit(worker_init_fn, self._requested) if num_workers > 0 else worker_init_fn,
            multiprocessing_context,
            generator,
            prefetch_factor=prefetch_factor,
            persistent_workers=num_workers > 0 if persistent_workers is None else persistent_workers,
            **others,
        )

    def __iter__(self) -> Any:
        """The batches of an epoch, or of its rest after `load_state_dict`."""
        self._base = getattr(self._resumable(), "next_start", 0)
        self._delivered = 0
        begin_epoch(self.dataset, self._samples())
        if dead_workers(self._iterator):
            self._discard(self._iterator)
        try:
            with _Requesting(self._requested):
                batches = super().__iter__()
        except Exception as error:
            self._explain(self._iterator, error)
            raise
        return _Epoch(self, batches)

    def _get_iterator(self) -> Any:
        if self.num_workers == 0:
            return super()._get_iterator()
        self.check_worker_number_rationality()
        datasets = tuple(image_datasets(self.dataset))
        options = self._requested or BatchOptions()
        if self._requested is not None and not options.as_list and self.batch_size is not None:
            ahead = self.num_workers * (self.prefetch_factor or 2)
            check_shared_memory(datasets, self.batch_size, ahead, options)
        init = self.worker_init_fn
        if not datasets or not isinstance(init, _WorkerInit):
            return WatchedIterator(self)
        threads = max(part.threads if options.threads is None else options.threads for part in datasets)
        notes = Notes(self.num_workers, threads)
        # Those that are made ahead, and two that the user's loop holds.
        slots = Slots(self.num_workers, (self.prefetch_factor or 2) + 2) if sys.platform == "linux" else None
        self.worker_init_fn = replace(init, notes=notes, slots=slots)
        try:
            iterator = WatchedIterator(self)
        finally:
            self.worker_init_fn = init
        iterator.notes, iterator.datasets, iterator.slots = notes, datasets, slots
        return iterator

    def _explain(self, iterator: Any, error: Exception) -> None:
        """Raises what happened, where an error is about the iterator's workers."""
        better = explained(iterator, error, self.timeout)
        if better is not None:
            self._discard(iterator)
            raise better from error

    def _discard(self, iterator: Any) -> None:
        close(iterator)
        if self._iterator is iterator:  # the workers that stay; the next iteration starts others
            self._iterator = None

    def set_epoch(self, epoch: int) -> None:
        """Chooses an epoch for the dataset, where it has a seed, and for the sampler. Call it between epochs."""
        for dataset in image_datasets(self.dataset):
            if dataset.seed is not None:
                dataset.set_epoch(epoch)
        samplers: tuple[Any, ...] = (self.batch_sampler, self._sampler())
        for sampler in samplers:
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(epoch)

    @property
    def bad_files(self) -> BadFileCounts:
        """How many samples were skipped and replaced in this epoch so far, workers' work ahead included, and in all."""
        return bad_files_of(self.dataset)

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs to go on behind the last batch that was handed out.

        Raises:
            DatasetError: the sampler is none of `fastpipe.samplers`.
        """
        sampler = self._resumable()
        if sampler is None:
            raise DatasetError(
                f"a {type(self._sampler()).__name__} can't be resumed: use a sampler of fastpipe.samplers, or give the "
                "dataset a seed and shuffle=True."
            )
        batches: Any = self.batch_sampler
        size = 1 if batches is None else batches.batch_size
        return {"sampler": sampler.state_dict(min(self._base + self._delivered * size, len(sampler)))}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where the state was taken: the next iteration gives the remaining batches of its epoch.

        Raises:
            DatasetError: the sampler is none of `fastpipe.samplers`, or the state is of another run.
        """
        sampler = self._resumable()
        if sampler is None:
            raise DatasetError(f"a {type(self._sampler()).__name__} can't be resumed: use one of fastpipe.samplers.")
        sampler.load_state_dict(state["sampler"])
        self.set_epoch(sampler.epoch)
        self._base, self._delivered = sampler.next_start, 0

    def _samples(self) -> int:
        """Samples of an epoch."""
        sampler = self._sampler()
        return len(sampler) if hasattr(sampler, "__len__") else _ENDLESS

    def _sampler(self) -> Any:
        return self.sampler if self.batch_size is not None else getattr(self.batch_sampler, "sampler", self.sampler)

    def _resumable(self) -> Any:
        sampler = self._sampler()
        batches = self.batch_sampler
        ordinary = batches is None or isinstance(batches, BatchSampler)
        return sampler if ordinary and hasattr(sampler, "next_start") else None


class _Epoch(Iterator[_Batch]):
    """torch's iterator, counting what it hands out."""

    def __init__(self, loader: DataLoader, batches: Iterator[_Batch]) -> None:
        self._loader = loader
        self._left_out: deque[int] = deque()  # batches before each of those that were made
        made = _made(loader, batches)
        made = _with_samples(made, self._left_out)
        self._batches = made if loader.device is None else on_device(made, loader.device)

    def __next__(self) -> _Batch:
        try:
            batch = next(self._batches)
        except StopIteration:
            self._loader._delivered += sum(self._left_out)
            self._left_out.clear()
            end_epoch(self._loader.dataset)
            raise
        self._loader._delivered += 1 + self._left_out.popleft()
        return batch

    def __len__(self) -> int:
        return len(self._loader)


def _made(loader: DataLoader, batches: Iterator[_Batch]) -> Iterator[_Batch]:
    while True:
        with _Requesting(loader._requested):  # without workers the batch is made here
            try:
                batch = next(batches)
            except StopIteration:
                return
            except Exception as error:
                loader._explain(batches, error)
                raise
        yield batch


def _with_samples(batches: Iterator[_Batch], left_out: deque[int]) -> Iterator[_Batch]:
    """The batches of which something is left; notes how many others come before each, for an epoch that is resumed."""
    others = 0
    for batch in batches:
        if isinstance(batch, EmptyBatch):
            others += 1
        else:
            left_out.append(others)
            others = 0
            yield batch
    left_out.append(others)


class _Requesting:
    """The process asks its datasets for batches within this block."""

    def __init__(self, options: BatchOptions | None) -> None:
        self._options = options

    def __enter__(self) -> None:
        self._stop = request_batches(self._options)

    def __exit__(self, *error: object) -> None:
        self._stop()


@dataclass(frozen=True)
class _WorkerInit:
    """Runs first in each worker. torch has seeded itself, Python's random and numpy by then, and uses one thread."""

    user: Callable[[int], None] | None
    options: BatchOptions | None
    notes: Notes | None = None
    slots: Slots | None = None

    def __call__(self, worker: int) -> None:
        leave_quietly()
        end_with_what_cannot_be_sent()
        # As many threads as cores in each worker would get in each other's way. 0 is one thread, too, but leaves alone
        # the pool that a forked worker inherits without its threads; setNumThreads(1) waits for them forever.
        cv2.setNumThreads(0)
        request_batches(self.options)
        info = get_worker_info()
        if self.notes is not None and info is not None:
            self._note(self.notes, worker, info.dataset)
        if self.slots is not None:
            self.slots.use_in_worker(worker)
        if self.user is not None:
            self.user(worker)

    def _note(self, notes: Notes, worker: int, dataset: Any) -> None:
        noting = notes.of_worker(worker)
        first = 0
        for part in image_datasets(dataset):
            part.on_begin = noting(first, len(part))
            first += len(part)


class _BlockwiseRandomSampler(RandomSampler):
    """torch's order from torch's generator, turned into Python integers a block at a time."""

    def __iter__(self) -> Iterator[int]:
        generator = self.generator
        if generator is None:
            generator = torch.Generator().manual_seed(int(torch.empty((), dtype=torch.int64).random_().item()))
        order = torch.randperm(self.num_samples, generator=generator)
        for start in range(0, len(order), _BLOCK):
            yield from order[start : start + _BLOCK].tolist()
        # torch's sampler draws for a remainder of zero indices, too: a generator that is used on must end up the same
        torch.randperm(self.num_samples, generator=generator)


def _shuffled(dataset: Any, generator: torch.Generator | None) -> Sampler[int]:
    seed = next((part.seed for part in image_datasets(dataset) if part.seed is not None), None)
    return _BlockwiseRandomSampler(dataset, generator=generator) if seed is None else ShuffledSampler(dataset, seed)
