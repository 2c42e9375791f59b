"""Checks of a `fastpipe.DataLoader`: its arguments, a state to go on from, room for its batches, epochs that repeat."""

from __future__ import annotations

import multiprocessing
import warnings
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

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

# Batches have one size whatever the images' sizes are, so that one drawn size serves; no file is read.
_ANY_SHAPE = ImageShape(480, 640)
_EPOCH_FOR_A_WORKER = 10_000  # images: seconds, of which threads in the training process cost it a tenth or more
_ROOM_FOR_A_WORKER = 1 << 30  # bytes: containers often have 64 MB, less than a few batches take


def workers_and_threads(
    workers: int | None, threads: int | Literal["auto"] | None, dataset: object, context: object
) -> tuple[int, int | None]:
    """The numbers of workers and of the threads that decode a batch in each process, where either is left open.

    "auto" shares the CPUs between the processes; one worker leaves one to the training. With "auto", no number of
    workers is one where a process pays, see `_worker_pays`.

    Raises:
        DatasetError: a negative number of threads, or another word; more workers than any machine runs.
    """
    if isinstance(workers, int) and workers > MOST_PROCESSES:  # of others torch says what is wrong
        whole_number("num_workers", workers, "the number of workers", most=MOST_PROCESSES, error=DatasetError)
    given: Any = threads
    if given != "auto":
        if given is not None:
            takes = 'the number of threads that decode a batch, or "auto"'
            given = whole_number("threads", given, takes, most=MOST_THREADS, error=DatasetError)
        return workers or 0, given
    cpus = usable_cpus()
    if workers is None:
        workers = int(_worker_pays(dataset, context, cpus))
    return workers, max(1, cpus - 1 if workers == 1 else cpus // max(workers, 1))


def _worker_pays(dataset: Any, context: object, cpus: int) -> bool:
    """Whether threads had better be in a worker than in the training process, whose launches of kernels they delay.

    A worker has to start for each epoch, which takes longer than it saves in one of few images, and where processes
    aren't forked, it takes seconds and needs a main module that can be imported.
    """
    if isinstance(dataset, IterableDataset) or not any(image_datasets(dataset)) or len(dataset) < _EPOCH_FOR_A_WORKER:
        return False
    forks = (
        context is not None
        or (multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]) == "fork"
    )
    room = shared_memory_room()
    return (
        cpus > 1
        and forks
        and not multiprocessing.current_process().daemon  # such a process must not have any of its own
        and (room is None or room.free >= _ROOM_FOR_A_WORKER)
    )


def check_output(
    device: torch.device | str | None, dtype: torch.dtype | None, memory_format: torch.memory_format
) -> None:
    """Raises a DatasetError where batches can't be made in a dtype or memory format, or can't be on a device."""
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise DatasetError(f"dtype={dtype}: give a floating dtype; for uint8 images end the transform in PILToTensor.")
    if memory_format not in (torch.contiguous_format, torch.channels_last):
        raise DatasetError(f"memory_format={memory_format}: give torch.contiguous_format or torch.channels_last.")
    if device is not None and torch.device(device).type == "cuda" and not torch.cuda.is_available():
        lacks = "CUDA" if torch.version.cuda is None else "a GPU"
        raise DatasetError(
            f"device={str(device)!r}: this torch ({torch.__version__}) is without {lacks}. Leave device out, or "
            "install torch for this GPU's driver."
        )


def check_state(state: object) -> None:
    """Raises a DatasetError, which says what was given, where a state is none of `DataLoader.state_dict`'s."""
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
    """Whether something is what `DataLoader.state_dict` gives."""
    return isinstance(value, Mapping) and isinstance(value.get("sampler"), Mapping) and "epoch" in value["sampler"]


def check_shared_memory(datasets: Iterable[ImageDataset], batch_size: int, ahead: int, options: BatchSpec) -> None:
    """Warns where the batches that workers make ahead may not fit; nothing where their size can't be told beforehand.

    Args:
        datasets: those that batches come from.
        batch_size: images in a batch.
        ahead: batches that exist at once.
        options: what is wanted of a batch.

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
    except (FastpipeError, ValueError):  # a transform that wants another size; its own error tells that better
        return None
    return batch_bytes(recipe, batch_size, options)


@dataclass(frozen=True, slots=True)
class _Given:
    """The loader that gave all batches of an epoch."""

    loader: weakref.ref[LoaderBase]
    dataset: weakref.ref[Dataset[Any]]
    settings: tuple[object, ...]


def note_given(loader: LoaderBase, epochs: Iterable[SharedEpoch]) -> None:
    """Notes that a loader gave all batches of the epoch that its datasets are at."""
    try:
        dataset = weakref.ref(loader.dataset)
    except TypeError:  # a dataset with slots
        return
    given = _Given(weakref.ref(loader), dataset, _settings(loader))
    for epoch in epochs:
        epoch.given = given


def warn_of_repetition(loader: LoaderBase, epochs: Iterable[SharedEpoch], sampler: object) -> None:
    """Warns, once for a dataset, if a new loader repeats the epoch of an equal one that is gone.

    Two loaders that are there together, of other settings, or without shuffling, are compared with each other or serve
    an evaluation: nothing is said of these.
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
    """Warns a rank that shuffles all of a dataset by itself; False where there is one rank, so far.

    Lightning, Accelerate and the Trainer make loaders with a sampler for the rank, which don't come here.
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
