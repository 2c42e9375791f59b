"""Memory of the batches that torch's own loader fetches: samples are made in the batch's memory, so nothing is stacked.

A sample is a tensor with its own storage, as usual, but the storage is a part of the batch's memory. If torch's
``default_collate`` gets a batch's samples in their order there, that memory becomes the batch. If the user keeps some
of the samples, or they are in another order, the batch is a copy. A ``collate_fn`` of the user's own gets samples with
separate memory, and its stacks are copies in reused memory. In a worker that memory is shared with the main process, so
that a batch is sent by its position (`fastpipe.memory.shm_pool`).
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data._utils.collate import default_collate

from fastpipe.hooks.guard import guard
from fastpipe.hooks.torch.collating import Collate, stacking, stacking_by
from fastpipe.hooks.torch.fetchers import once_a_fetcher
from fastpipe.hooks.torch.type_calls import type_calls_of
from fastpipe.memory.host_pool import tensor_on
from fastpipe.memory.stacking import are_alike, new_places, stacked
from fastpipe.pending import is_pending
from fastpipe.program.pending_tensor import with_pixels, work_of
from fastpipe.program.pending_work import PendingWork
from fastpipe.result_memory import BatchResults, results_in

if TYPE_CHECKING:
    from fastpipe.hooks.torch.fetchers import Fetcher, StreamFetcher

Fetch: TypeAlias = "Callable[[Fetcher, Sequence[object]], object]"
_default_collate: Collate = default_collate

_OFTEN = 4
"""Tensors stay without pixels until they are stacked while the user's code keeps at most one in so many."""
MOST_HELD = 1 << 26
"""The most bytes of files that the tensors without pixels of one batch keep in memory."""
_MOST_RESULTS = 16
"""The most results of a sample that get slots in a batch; eight crops and two views are ten."""


class FetcherMemory:
    """Knowledge of the samples of one of torch's fetchers, from its batches so far.

    The results of a sample are numbered in the order in which they are made.

    Attributes:
        unused: the numbers of results that get no slots in a batch's memory, because the user keeps them, or because
            they weren't stacked in two batches in a row.
        missed: the numbers of results that weren't stacked in the last batch.
        results: number of results of a sample, if the dataset makes several samples at once.
        stacks: results are made without pixels until they are stacked by torch's ``default_collate`` or the user's
            function; True until the user's code is found to keep them, or to ask for their class, before.
    """

    def __init__(self, stacks: bool) -> None:
        self.unused: set[int] = set()
        self.missed: set[int] = set()
        self.results = 1
        self.stacks = stacks


@once_a_fetcher
def memory_of(fetcher: Fetcher) -> FetcherMemory:
    """The `FetcherMemory` of one of torch's fetchers."""
    asks = True
    with guard("batches in place"):
        asks = type_calls_of(fetcher).tensors
    return FetcherMemory(stacks=not asks)


def fetch_in_places(fetcher: Fetcher, indices: Sequence[object], plain: Fetch, several: object = None) -> object:
    """Calls a fetcher's own method with the results of its samples made in their slots of the batch.

    Args:
        fetcher: torch's fetcher of a map-style dataset, which collates batches.
        indices: the samples' indices.
        plain: the fetcher's own method.
        several: a dataset to fetch from instead, which makes all samples at once; None for the fetcher's. Its batch is
            collated by a function that isn't torch's.
    """
    asked = copy.copy(fetcher)
    memory = memory_of(fetcher)
    if several is not None or memory.stacks or fetcher.collate_fn is not default_collate:
        results = _StackedResults(memory.stacks)
        asked.dataset = _Samples(fetcher.dataset if several is None else several, results)
        return _fetch_stacked(fetcher, asked, indices, plain, results)
    slots = _SlottedResults(memory, len(indices))
    asked.collate_fn = _Collate(slots)
    asked.dataset = _Samples(fetcher.dataset, slots)
    with results_in(slots):
        batch = plain(asked, indices)
    slots.settle()
    return batch


def fetch_from_stream(fetcher: StreamFetcher, indices: Sequence[object], plain: Fetch) -> object:
    """Calls a fetcher's own method for an iterable dataset.

    Samples have separate memory, because a generator holds the last one that it gave.

    Args:
        fetcher: torch's fetcher, which collates batches.
        indices: a list as long as the batch.
        plain: the fetcher's own method.
    """
    asked = copy.copy(fetcher)
    try:
        return _fetch_stacked(fetcher, asked, indices, plain, _StackedResults(memory_of(fetcher).stacks))
    finally:
        fetcher.ended = asked.ended


def _fetch_stacked(
    fetcher: Fetcher, asked: Fetcher, indices: Sequence[object], plain: Fetch, results: _StackedResults
) -> object:
    """Calls a fetcher's method on its copy; results get their pixels when they are stacked.

    Pending results that still exist afterwards become ordinary tensors, because the user's code holds them.
    """
    memory = memory_of(fetcher)
    asked.collate_fn = stacking(fetcher.collate_fn)
    try:
        with results_in(results):
            return plain(asked, indices)
    finally:
        kept = [tensor for work in results.pending if (tensor := work.owner()) is not None]
        if memory.stacks:
            are_stacked = any(work.made is None for work in results.pending)
            few_are_kept = _OFTEN * len(kept) <= len(results.pending)  # a generator holds its last one
            memory.stacks = are_stacked and few_are_kept and not results.several
        for tensor in kept:
            with_pixels(tensor)


class _Samples:
    """A dataset that tells ``results`` when each sample begins."""

    def __init__(self, dataset: Any, results: BatchResults) -> None:
        self._dataset, self._results = dataset, results

    def __getitem__(self, index: object) -> object:
        self._results.begin_sample()
        return self._dataset[index]

    @property
    def __getitems__(self) -> object:
        return self._dataset.__getitems__


class _Collate:
    """torch's ``default_collate``, which uses the batch's memory if samples are in their slots."""

    def __init__(self, slots: _SlottedResults) -> None:
        self._slots = slots

    def __call__(self, samples: Sequence[object]) -> object:
        with results_in(None), stacking_by(self._slots.collated):
            return _default_collate(samples)


class _StackedResults(BatchResults):
    """Results that stay without pixels until a ``collate_fn`` stacks them.

    Args:
        later: results are likely to be stacked.

    Attributes:
        later: as given, until a sample has several results or the kept files take too much memory.
        pending: the work of tensors whose pixels are made when they are stacked or looked at.
        several: a sample has several such tensors.
    """

    def __init__(self, later: bool) -> None:
        self.later = later
        self.pending: list[PendingWork] = []
        self.several = False
        self._first: int | None = None
        self._held = 0

    def begin_sample(self) -> None:
        self._first = len(self.pending)

    def add_pending(self, tensor: torch.Tensor) -> None:
        work = work_of(tensor)
        self.pending.append(work)
        self._held += work.held_bytes()
        self.several = self.several or (self._first is not None and len(self.pending) - self._first > 1)
        if self.several or self._held > MOST_HELD:
            self.later = False


class _SlottedResults(BatchResults):
    """Results that are made in their slots of a batch, for torch's ``default_collate``.

    Args:
        memory: the fetcher's memory.
        count: number of samples in the batch.
    """

    def __init__(self, memory: FetcherMemory, count: int) -> None:
        self._memory, self._count = memory, count
        self._without: set[int] = set()
        self._buffers: dict[int, _Buffer] = {}
        self._sample, self._taken = -1, 0

    def begin_sample(self) -> None:
        self._sample += 1
        self._taken = 0

    def take(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor | None:
        place, number = self._sample, self._taken
        self._taken += 1
        if place < 0:  # no sample has begun: the results of all samples come in order
            place, number = divmod(number, self._memory.results)
        if place >= self._count or number >= _MOST_RESULTS or number in self._memory.unused:
            return None
        buffer = self._buffers.get(number)
        if buffer is None and number not in self._without:
            size = math.prod(shape) * dtype.itemsize
            buffer = _Buffer.of(self._count, size)
            if buffer is None:
                self._without.add(number)
            else:
                self._buffers[number] = buffer
        return None if buffer is None else buffer.place(place, shape, dtype)

    def collated(self, batch: Sequence[torch.Tensor]) -> torch.Tensor | None:
        """Collates tensors: without a copy if they are in their slots, otherwise in reused memory.

        None if torch has to do it.
        """
        if len(batch) == self._count and are_alike(batch) and not is_pending(batch[0]):
            first = batch[0].data_ptr()
            for buffer in self._buffers.values():
                if buffer.address == first and buffer.batch is None:
                    whole = buffer.collated(batch)
                    if whole is not None:
                        return whole
        return stacked(batch)

    def settle(self) -> None:
        """Copies the batch to memory of its own if samples that lie in its slots still exist; called at its end."""
        memory = self._memory
        if self._sample < 0 and self._taken != self._count * memory.results:  # no result was in the right slot
            memory.results = max(1, self._taken // self._count)
            for buffer in self._buffers.values():
                buffer.part()
            return
        missed = {number for number, buffer in self._buffers.items() if buffer.batch is None}
        kept = {number for number, buffer in self._buffers.items() if buffer.part()}
        memory.unused |= kept | (missed & memory.missed)
        memory.missed = missed


class _Buffer:
    """The memory for one result of each sample of a batch.

    Attributes:
        address: the address of the first slot.
        batch: the tensor on all of it, once it is made.
    """

    _bytes: NDArray[np.uint8]

    def __init__(self, count: int, size: int) -> None:
        self._count, self._size = count, size
        self._taken: set[int] = set()
        self._shape: tuple[int, ...] | None = None
        self.address = 0
        self.batch: torch.Tensor | None = None
        self._references = 0

    @classmethod
    def of(cls, count: int, size: int) -> _Buffer | None:
        """Memory for slots of some bytes each; None if torch has to allocate."""
        memory = new_places(count * size)
        if memory is None:
            return None
        buffer = cls(count, size)
        buffer._bytes, buffer.address = memory, memory.ctypes.data
        del memory
        # Each storage on a slot adds a reference as long as it exists.
        buffer._references = sys.getrefcount(buffer._bytes)
        return buffer

    def place(self, place: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor | None:
        """A tensor in a slot; None if its shape differs from the first one's, or it doesn't fill the slot."""
        count = math.prod(shape)
        if count * dtype.itemsize != self._size or shape != (self._shape or shape):
            return None
        self._shape = shape
        self._taken.add(place)
        return tensor_on(self._bytes, shape, dtype, start=place * self._size)

    def collated(self, batch: Sequence[torch.Tensor]) -> torch.Tensor | None:
        """The batch on this memory, in torch's order; None if a tensor that got a slot isn't in it.

        Tensors that got no slot, because of another memory layout, are copied to theirs.
        """
        first, size = batch[0], self._size
        if first.nbytes != size or not first.is_contiguous():
            return None
        apart = [number for number, one in enumerate(batch) if one.data_ptr() != self.address + number * size]
        if self._taken.intersection(apart):
            return None
        self.batch = slots = tensor_on(self._bytes, (len(batch), *first.shape), first.dtype)
        for number in apart:
            slots[number].copy_(batch[number])
        return slots

    def part(self) -> bool:
        """True if the user has kept samples; then the batch becomes a copy."""
        if sys.getrefcount(self._bytes) == self._references + (self.batch is not None):
            return False
        if self.batch is not None:
            batch: Any = self.batch  # a form of ``set_`` that torch has no type for
            batch.set_(batch.clone())
        return True
