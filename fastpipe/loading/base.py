"""The base of the loader: its samplers, and what an iteration, torch's iterators and the checks use of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, TypeAlias

import torch
from torch.utils.data import BatchSampler
from torch.utils.data import DataLoader as TorchDataLoader
from typing_extensions import TypeVar

from fastpipe.executor import BatchSpec, SharedEpoch
from fastpipe.loading.resumable import ResumableSampler, SavedState, State
from fastpipe.loading.statistics import LoaderMeter
from fastpipe.plain_lookup import own_attribute, own_attributes

ItemT = TypeVar("ItemT", covariant=True, default=Any)
"""A sample of the loader's dataset: ``DataLoader[tuple[Tensor, int]]``."""

TorchIterator: TypeAlias = Any
"""torch's iterator over a loader: a `ThreadIterator`, a `MonitoredIterator`, or, without both, of torch's own class."""


class Progress:
    """Progress of an iteration, saved by `state_dict`.

    Attributes:
        sampler: the iteration's own sampler, or the loader's before the first iteration; None if it can't be resumed.
        start: the epoch's samples that the resumed run had handed out before.
        batches: the number of batches handed out, including empty ones that were left out.
        finished: whether its loop has ended.
        is_loaded: the state was loaded, and no iteration has begun: the next one begins here.
        touched: the time at which it last handed out a batch.
    """

    def __init__(self, sampler: ResumableSampler | None, *, is_loaded: bool = False, finished: bool = False) -> None:
        self.sampler = sampler
        self.start = 0 if sampler is None else sampler.next_start
        self.batches = 0
        self.finished = finished
        self.is_loaded = is_loaded
        self.touched = time.perf_counter()


class LoaderBase(TorchDataLoader[ItemT]):
    """Base of `fastpipe.DataLoader`: finds its samplers, and declares what its parts use beside torch's attributes."""

    device: torch.device | None
    dtype: torch.dtype | None
    memory_format: torch.memory_format
    threads: int | None
    _batch_spec: BatchSpec
    _keeps_streams: bool  # the thread's random streams continue into the next epoch
    _warned_of_obstacle: bool
    _warned_of_loss: bool
    _epoch: int | None  # the last iteration's epoch
    _epochs: dict[SharedEpoch, int]  # the last iteration's epoch of each dataset that has a seed
    _progress: Progress
    _meter: LoaderMeter

    def state_dict(self) -> State:
        """The state of the iteration."""
        raise NotImplementedError

    def load_state_dict(self, state: SavedState, *, allow_changes: bool = False) -> None:
        """Resumes where the state was saved."""
        raise NotImplementedError

    def _own_sampler(self) -> ResumableSampler | None:
        """The sampler that gives single indices, also in a batch sampler, if it is one of fastpipe's."""
        sampler = self._sampler()
        return sampler if isinstance(sampler, ResumableSampler) else None

    def _sampler(self) -> object:
        """The sampler that gives single indices, also if the user gave a batch sampler."""
        return getattr(self._all_batches(), "sampler", self.sampler)

    def _all_batches(self) -> Any:
        """The batch sampler for all ranks, from which Accelerate's batch sampler takes this rank's batches."""
        batches = self.batch_sampler
        return own_attribute(batches, "batch_sampler", batches)

    def _samples_per_step(self) -> int:
        """Indices that the sampler gives for one batch of this loader and of the ranks that share the sampler."""
        batches = self.batch_sampler
        if batches is None:
            return 1
        of_accelerate = own_attributes(batches)
        ranks = 1 if of_accelerate.get("split_batches", False) else of_accelerate.get("num_processes", 1)
        step: int = self._all_batches().batch_size * ranks
        return step

    def _resumable(self) -> ResumableSampler | None:
        """The sampler, if iterations can be resumed; else None."""
        batches = self._all_batches()
        return self._own_sampler() if batches is None or isinstance(batches, BatchSampler) else None

    def _iterator_over(
        self, rest: Iterator[object] | None, given: int, epochs: dict[SharedEpoch, int]
    ) -> TorchIterator:
        """torch's iterator over the rest of an iteration whose iterator a newer iteration uses."""
        raise NotImplementedError
