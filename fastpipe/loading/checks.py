"""Checks of a `fastpipe.DataLoader`: arguments, loaded states, shared memory for batches, repeated epochs."""

from __future__ import annotations

import multiprocessing
import operator
import warnings
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch.utils.data import Dataset, IterableDataset, SequentialSampler

from fastpipe.arguments import MOST_PROCESSES, MOST_THREADS, whole_number
from fastpipe.datasets import ImageDataset
from fastpipe.datasets.bad_files import warn_again
from fastpipe.datasets.wrappers import image_datasets
from fastpipe.environment import shared_memory_room, usable_cpus
from fastpipe.errors import DatasetError, FastpipeError, FastpipeWarning
from fastpipe.executor import BatchSpec, SharedEpoch, batch_bytes
from fastpipe.loading.base import LoaderBase
from fastpipe.loading.ranks import rank_and_count
from fastpipe.memory.shm_pool import too_small
from fastpipe.rng import keyed_generators
from fastpipe.types import ImageShape

# Batches have one size whatever the images' sizes are, so any shape will do to draw it; no file is read.
_ANY_SHAPE = ImageShape(480, 640)
_EPOCH_FOR_A_WORKER = 10_000  # images, some seconds: threads in the training process would slow it by 10% or more
_ROOM_FOR_A_WORKER = 1 << 30  # bytes of shared memory: containers often have 64 MB, too little for a few batches


def workers_and_threads(
    workers: int | None, threads: int | Literal["auto"] | None, dataset: object, context: object
) -> tuple[int, int | None]:
    """Chooses the number of workers, and of threads that decode a batch in each process, if either is left open.

    ``threads="auto"`` divides the CPUs among the processes; a single worker leaves one CPU to the training. With
    "auto", ``workers=None`` means one worker if that pays, see `_worker_pays`, else none.

    Raises:
        DatasetError: the number of threads is invalid, or there are more than ``MOST_PROCESSES`` workers.
    """
    if isinstance(workers, int) and workers > MOST_PROCESSES:  # torch reports other invalid values
        whole_number("num_workers", workers, "the number of workers", most=MOST_PROCESSES, error=DatasetError)
    if threads is None:
        return workers or 0, None
    if threads != "auto":
        takes = 'the number of threads that decode a batch, or "auto"'
        return workers or 0, whole_number("threads", threads, takes, most=MOST_THREADS, error=DatasetError)
    cpus = usable_cpus()
    if workers is None:
        workers = int(_worker_pays(dataset, context, cpus))
    return workers, max(1, cpus - 1 if workers == 1 else cpus // max(workers, 1))


def _worker_pays(dataset: object, context: object, cpus: int) -> bool:
    """True if the threads should run in a worker; in the training process they delay its launches of kernels.

    A worker starts for each epoch: with few images, the start takes longer than the worker saves. Where processes
    aren't forked, the start takes seconds and needs a main module that can be imported.
    """
    if isinstance(dataset, IterableDataset) or not any(image_datasets(dataset)):
        return False
    if operator.length_hint(dataset) < _EPOCH_FOR_A_WORKER:
        return False
    forks = (
        context is not None
        or (multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]) == "fork"
    )
    room = shared_memory_room()
    return (
        cpus > 1
        and forks
        and not multiprocessing.current_process().daemon  # daemonic processes can't have children
        and (room is None or room.free >= _ROOM_FOR_A_WORKER)
    )


def check_output(
    device: torch.device | str | None, dtype: torch.dtype | None, memory_format: torch.memory_format
) -> None:
    """Raises a DatasetError if batches can't have the dtype or memory format, or can't be put on the device."""
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise DatasetError(f"dtype={dtype}: give a floating dtype; for uint8 images end the transform in PILToTensor.")
    if memory_format not in (torch.contiguous_format, torch.channels_last):
        raise DatasetError(f"memory_format={memory_format}: give torch.contiguous_format or torch.channels_last.")
    try:
        is_gpu = device is not None and torch.device(device).type == "cuda"
    except (RuntimeError, TypeError) as error:
        text = str(error).splitlines()[0]
        raise DatasetError(f"device={device!r:.80}: give a device of torch's, such as 'cuda:0' ({text}).") from None
    if is_gpu and not torch.cuda.is_available():
        lacks = "CUDA" if torch.version.cuda is None else "a GPU"
        raise DatasetError(
            f"device={str(device)!r}: this torch ({torch.__version__}) is without {lacks}. Leave device out, or "
            "install torch for this GPU's driver."
        )


def check_state(state: object) -> None:
    """Raises a DatasetError if a state isn't one that `DataLoader.state_dict` returned; the message describes it."""
    if _is_state(state):
        return
    what = f"a {type(state).__name__}"
    there: list[str] = []
    if isinstance(state, Mapping):
        what = f"a dict with {', '.join(map(repr, state)) or 'nothing in it'}"
        there = [repr(name) for name, value in state.items() if _is_state(value)]
    cure = f": state[{there[0]}] is one" if len(there) == 1 else ""
    raise DatasetError(f"load_state_dict got {what}, and takes what DataLoader.state_dict() returned{cure}.")


def _is_state(value: object) -> bool:
    """True if a value looks like a state that `DataLoader.state_dict` returned."""
    return isinstance(value, Mapping) and isinstance(value.get("sampler"), Mapping) and "epoch" in value["sampler"]


def check_shared_memory(datasets: Iterable[ImageDataset], batch_size: int, ahead: int, options: BatchSpec) -> None:
    """Warns if the batches that workers make ahead may not fit into shared memory; skipped if their size isn't known.

    Args:
        datasets: the datasets that the batches come from.
        batch_size: images in a batch.
        ahead: the number of batches that exist at once.
        options: the batches' dtype and memory format.

    Raises:
        LoaderError: not even one batch fits.
    """
    room = shared_memory_room()
    if room is None:
        return
    for dataset in datasets:
        size = _batch_bytes(dataset, batch_size, options)
        if size is not None and size > room.free:
            raise too_small(size, "a batch takes")
        if size is not None and size * ahead > room.free:
            message = str(too_small(size * ahead, f"the {ahead} batches that workers make ahead take"))
            warnings.warn(message.replace("is too small", "may be too small", 1), FastpipeWarning, stacklevel=5)
            return


def _batch_bytes(dataset: ImageDataset, batch_size: int, options: BatchSpec) -> int | None:
    if not dataset.plans or dataset.pipeline.unplanned:
        return None
    try:
        recipe = dataset.pipeline.draw(_ANY_SHAPE, keyed_generators(0))
    except (FastpipeError, ValueError):  # the transform needs another size; its own error at the first sample says so
        return None
    return batch_bytes(recipe, batch_size, options)


@dataclass(frozen=True, slots=True)
class _Given:
    """Describes the loader that gave all batches of an epoch."""

    loader: weakref.ref[LoaderBase]
    dataset: weakref.ref[Dataset[object]]
    settings: tuple[object, ...]


def note_given(loader: LoaderBase, epochs: Iterable[SharedEpoch]) -> None:
    """Records that a loader gave all batches of its datasets' current epoch."""
    try:
        dataset = weakref.ref(loader.dataset)
    except TypeError:  # a class with slots can't be weakly referenced
        return
    given = _Given(weakref.ref(loader), dataset, _settings(loader))
    for epoch in epochs:
        epoch.given = given


def warn_of_repetition(loader: LoaderBase, epochs: Iterable[SharedEpoch], sampler: object) -> None:
    """Warns, once for each dataset, if a new loader repeats the epoch of an equal loader that was deleted.

    It doesn't warn if the first loader still exists, has other settings, or doesn't shuffle: such loaders are used for
    comparisons or evaluation.
    """
    if isinstance(sampler, SequentialSampler):
        return
    for epoch in epochs:
        given = epoch.given
        if not isinstance(given, _Given) or epoch.told or given.loader() is not None:
            continue
        if given.dataset() is loader.dataset and given.settings == _settings(loader):
            epoch.told = True
            warn_again(
                f"epoch {epoch.get()} begins a second time: a new fastpipe.DataLoader begins with the epoch that its "
                "dataset is at, so the order and all random numbers come again. Make the loader once, before the loop "
                "over the epochs: it counts them. Or call loader.set_epoch(epoch) before each."
            )


def warn_of_whole_epochs() -> bool:
    """Warns on rank 0 if every rank shuffles the whole dataset; returns False if there is only one rank so far.

    Loaders that Lightning, Accelerate and the Trainer make have a sampler for the rank, and aren't checked here.
    """
    rank, count = rank_and_count()
    if count < 2:
        return False
    if rank == 0:
        warn_again(
            f"shuffle=True: each of {count} ranks goes through the whole dataset in every epoch. For a "
            "share each, give sampler=fastpipe.samplers.DistributedSampler(dataset) instead of shuffle=True; where the "
            "ranks' datasets differ, sampler=fastpipe.samplers.ShuffledSampler(dataset)."
        )
    return True


def _settings(loader: LoaderBase) -> tuple[object, ...]:
    return loader.batch_size, loader.num_workers, loader.threads, type(loader.sampler)
