"""The part of the loader's interface that an iteration, torch's iterators and the checks use."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.utils.data import DataLoader as TorchDataLoader

from fastpipe.executor import BatchSpec, SharedEpoch
from fastpipe.loading.statistics import LoaderMeter


class Progress:
    """Progress of an iteration, saved by `state_dict`.

    Attributes:
        sampler: the iteration's own sampler, or the loader's before the first iteration.
        start: the epoch's samples that the resumed run had handed out before.
        batches: the number of batches handed out, including empty ones that were left out.
        finished: whether its loop has ended.
        is_loaded: the state was loaded, and no iteration has begun: the next one begins here.
        touched: the time at which it last handed out a batch.
    """

    def __init__(self, sampler: Any, *, is_loaded: bool = False, finished: bool = False) -> None:
        self.sampler = sampler
        self.start: int = getattr(sampler, "next_start", 0)
        self.batches = 0
        self.finished = finished
        self.is_loaded = is_loaded
        self.touched = time.perf_counter()


class LoaderBase(TorchDataLoader[Any]):
    """Base of `fastpipe.DataLoader`: declares what its parts use of it beside torch's attributes and methods."""

    device: torch.device | None
    dtype: torch.dtype | None
    memory_format: torch.memory_format
    threads: int | None
    _batch_spec: BatchSpec
    _given_collate: Callable[[list[Any]], object] | None
    _keeps_streams: bool  # the thread's random streams continue into the next epoch
    _warned_of_obstacle: bool
    _warned_of_loss: bool
    _epoch: int | None  # the last iteration's epoch
    _epochs: dict[SharedEpoch, int]  # the last iteration's epoch of each dataset that has a seed
    _progress: Progress
    _meter: LoaderMeter

    def _sampler(self) -> Any:
        """The sampler that gives single indices, also if the user gave a batch sampler."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """The state of the iteration."""
        raise NotImplementedError

    def load_state_dict(self, state: Mapping[str, Any], *, allow_changes: bool = False) -> None:
        """Resumes where the state was saved."""
        raise NotImplementedError

    def _resumable(self) -> Any:
        """The sampler, if it can be resumed; else None."""
        raise NotImplementedError

    def _iterator_over(self, rest: Iterator[object] | None, given: int, epochs: dict[SharedEpoch, int]) -> Any:
        """torch's iterator over the rest of an iteration whose iterator a newer iteration has taken over."""
        raise NotImplementedError
