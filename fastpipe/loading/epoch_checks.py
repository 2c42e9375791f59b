"""Warns of what a loader would repeat without a word: an epoch, if it is rebuilt, or the whole dataset in each rank."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch.utils.data import DataLoader, SequentialSampler

from fastpipe.datasets.bad_files import warn_again
from fastpipe.executor import SharedEpoch

__all__ = ["note_given", "warn_of_repetition", "warn_of_whole_epochs"]


@dataclass(frozen=True, slots=True)
class _Given:
    """The loader that gave all batches of an epoch."""

    loader: weakref.ref[Any]
    dataset: weakref.ref[Any]
    settings: tuple[Any, ...]


def note_given(loader: DataLoader[Any], epochs: Iterable[SharedEpoch]) -> None:
    """Notes that a loader gave all batches of the epoch that its datasets are at."""
    try:
        given = _Given(weakref.ref(loader), weakref.ref(loader.dataset), _settings(loader))
    except TypeError:  # a dataset with slots
        return
    for epoch in epochs:
        epoch.given = given


def warn_of_repetition(loader: DataLoader[Any], epochs: Iterable[SharedEpoch], sampler: Any) -> None:
    """Warns, once for a dataset, where a new loader begins the epoch that an equal one gave, which is gone.

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
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() < 2:
        return False
    if dist.get_rank() == 0:
        warn_again(
            f"shuffle=True: each of {dist.get_world_size()} ranks goes through the whole dataset in every epoch. For a "
            "share each, give sampler=fastpipe.samplers.DistributedSampler(dataset) instead of shuffle=True; where the "
            "ranks' datasets differ, sampler=fastpipe.samplers.ShuffledSampler(dataset)."
        )
    return True


def _settings(loader: DataLoader[Any]) -> tuple[Any, ...]:
    return loader.batch_size, loader.num_workers, getattr(loader, "threads", None), type(loader.sampler)
