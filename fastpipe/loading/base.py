"""The loader as its parts see it: what an iteration, torch's iterators and the checks use of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.utils.data import DataLoader as TorchDataLoader

from fastpipe.executor import BatchSpec, SharedEpoch
from fastpipe.loading.statistics import LoaderMeter


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


class LoaderBase(TorchDataLoader[Any]):
    """Base of `fastpipe.DataLoader`: its attributes and methods that its parts use, beside torch's."""

    device: torch.device | None
    dtype: torch.dtype | None
    memory_format: torch.memory_format
    threads: int | None
    _batch_spec: BatchSpec
    _given_collate: Callable[[list[Any]], object] | None
    _keeps_streams: bool  # a thread of the next epoch goes on with this one's random numbers
    _warned_of_obstacle: bool
    _warned_of_loss: bool
    _epoch: int | None  # of the last iteration
    _epochs: dict[SharedEpoch, int]  # the same, of each dataset that has a seed
    _progress: Progress
    _meter: LoaderMeter

    def _sampler(self) -> Any:
        """The sampler of the indices, whether batches are made of them by torch or by the user's batch sampler."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """The state of the iteration."""
        raise NotImplementedError

    def load_state_dict(self, state: Mapping[str, Any], *, allow_changes: bool = False) -> None:
        """Goes on where the state was taken."""
        raise NotImplementedError

    def _resumable(self) -> Any:
        """The sampler, if it can be resumed; else None."""
        raise NotImplementedError

    def _iterator_over(self, rest: Iterator[object] | None, given: int, epochs: dict[SharedEpoch, int]) -> Any:
        """torch's iterator over the rest of an iteration that a newer one took them from."""
        raise NotImplementedError
