"""Samplers whose memory does not grow with the dataset, and which resume in the middle of an epoch.

`ShuffledSampler` and `DistributedSampler` compute the order of an epoch from ``(seed, epoch)`` and keep only a
position, so 100 million indices start as fast as a hundred. `WeightedSampler` and `ClassBalancedSampler` draw from a
seed likewise. `SequentialSampler` and `RandomSampler` give torch's orders; `fastpipe.DataLoader` uses them without a
seed.

Each new iteration is the next epoch; `set_epoch` sets another one. `DataLoader.set_epoch` and `DataLoader.state_dict`
call the sampler's methods. A state can be resumed with another number of ranks: `ShuffledSampler` and
`DistributedSampler` have one order, from which each rank takes its part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset, Sampler
from torch.utils.data import RandomSampler as TorchRandomSampler
from torch.utils.data import SequentialSampler as TorchSequentialSampler
from torch.utils.data.distributed import DistributedSampler as TorchDistributedSampler
from typing_extensions import Self, TypeVar

from fastpipe.arguments import seed_number
from fastpipe.errors import DatasetError
from fastpipe.loading.permutation import Permutation
from fastpipe.loading.ranks import MOST_RANKS, checked_ranks
from fastpipe.loading.resumable import (
    BLOCK,
    ResumableSampler,
    SavedState,
    State,
    length_in,
    length_or_data,
    merge_states,
)
from fastpipe.loading.weighted import ClassBalancedSampler, WeightedSampler

Index = TypeVar("Index", covariant=True, default=int)
"""The parameter of torch's generic sampler."""

__all__ = [
    "ClassBalancedSampler",
    "DistributedSampler",
    "RandomSampler",
    "SequentialSampler",
    "ShuffledSampler",
    "WeightedSampler",
    "merge_states",
]


class ShuffledSampler(ResumableSampler, Sampler[int]):
    """Gives each index once, in an order fixed by ``(seed, epoch)``; memory and start-up don't depend on the length.

    Args:
        data_source: the dataset, or its length.
        seed: chooses the orders.

    Attributes:
        epoch: the epoch of the last iteration that began, or the one set since by `set_epoch`.
    """

    def __init__(self, data_source: Sized | int, seed: int = 0) -> None:
        self.data_source = length_or_data("data_source", data_source)
        self.seed = seed_number(seed, error=DatasetError)

    def __len__(self) -> int:
        return len(self.data_source)

    def _index_at(self) -> Callable[[NDArray[np.int64]], NDArray[np.int64]]:
        return Permutation(self._order_length(), (self.seed, self.epoch)).at

    def _order_length(self) -> int:
        return length_in(self.data_source, self.epoch)

    def _settings(self) -> dict[str, object]:
        return {**super()._settings(), "seed": self.seed}


class DistributedSampler(ResumableSampler, TorchDistributedSampler[Index]):  # type: ignore[misc]  # gives integers
    """One rank's part of all indices: torch's `DistributedSampler` without its list of every index.

    Ranks, padding and ``drop_last`` are torch's: each rank gets every ``num_replicas``-th index of one common order;
    if the ranks don't divide the length, the order is continued from its front, or cut with ``drop_last``. The
    permutation differs from torch's.

    Args:
        dataset: the dataset, or its length.
        num_replicas: the number of ranks; None asks ``torch.distributed``, which must be initialised.
        rank: this process's rank, from 0; None asks ``torch.distributed``.
        shuffle: shuffle by ``(seed, epoch)``; False for ascending indices.
        seed: the same on all ranks.
        drop_last: cut instead of pad.

    Raises:
        RuntimeError: ``torch.distributed`` is asked, but not available.
        ValueError: ``torch.distributed`` is asked, but not initialised.
        DatasetError: the rank is not below ``num_replicas``, or an argument is no whole number.
    """

    def __init__(
        self,
        dataset: Dataset[Any] | Sized | int,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        sized: Any = length_or_data("dataset", dataset)
        checked_ranks(MOST_RANKS if num_replicas is None else num_replicas, 0 if rank is None else rank)
        super().__init__(sized, num_replicas, rank, shuffle, seed_number(seed, error=DatasetError), drop_last)

    @property
    def num_samples(self) -> int:
        """The number of this rank's indices; computed at each call, while torch's class keeps the first number."""
        return self._rank_share(len(self.dataset))  # type: ignore[arg-type] # a map-style dataset has a length

    @num_samples.setter
    def num_samples(self, value: int) -> None:
        pass

    @property
    def total_size(self) -> int:
        """The number of indices of all ranks."""
        return self.num_samples * self.num_replicas

    @total_size.setter
    def total_size(self, value: int) -> None:
        pass

    def _index_at(self) -> Callable[[NDArray[np.int64]], NDArray[np.int64]]:
        if not self.shuffle:
            return super()._index_at()
        return Permutation(self._order_length(), (self.seed, self.epoch)).at

    def _order_length(self) -> int:
        return length_in(self.dataset, self.epoch)  # type: ignore[arg-type] # a map-style dataset has a length

    def _settings(self) -> dict[str, object]:
        return super()._settings() | ({"seed": self.seed} if self.shuffle else {})


class SequentialSampler(ResumableSampler, TorchSequentialSampler):
    """0, 1, 2, … for each sample of a dataset, as torch's `SequentialSampler` gives them; resumes in the middle.

    Args:
        data_source: the dataset, or its length.
    """

    def __init__(self, data_source: Sized | int) -> None:
        super().__init__(length_or_data("data_source", data_source))

    def _order_length(self) -> int:
        return length_in(self.data_source, self.epoch)


class RandomSampler(ResumableSampler, TorchRandomSampler):
    """Gives torch's random order, from torch's generators, converted to Python integers in blocks; resumable.

    A state holds the generator's state from which the epoch's order was drawn; a given `generator` continues as in the
    saved run. Without one, later epochs draw from the global generator, whose state the caller has to save.

    Args:
        data_source: the dataset, or its length.
        generator: as in torch.
    """

    _drawn_from: torch.Tensor | None = None  # the generator's state before this epoch's order was drawn
    _loaded: torch.Tensor | None = None  # the generator's state to restore in the next iteration
    _saved_too = ("generator",)

    def __init__(self, data_source: Sized | int, generator: torch.Generator | None = None) -> None:
        if not (generator is None or isinstance(generator, torch.Generator)):
            raise DatasetError(f"generator={generator!r:.80}: give a torch.Generator, or None.")
        super().__init__(length_or_data("data_source", data_source), generator=generator)

    def _order(self, start: int) -> Iterator[int]:
        generator, state = self.generator, self._loaded
        if generator is None:
            generator = torch.Generator()
            if state is None:
                generator.manual_seed(int(torch.empty((), dtype=torch.int64).random_().item()))
        if state is not None:
            generator.set_state(state)
        self._drawn_from, self._loaded = generator.get_state(), None
        order = torch.randperm(self.num_samples, generator=generator)
        for block in range(self._offset + start, len(order), BLOCK):
            yield from order[block : block + BLOCK].tolist()
        # torch's sampler also draws for a remainder of zero indices; draw too, to leave the generator in the same state
        torch.randperm(self.num_samples, generator=generator)

    def ahead(self, epoch: int) -> Iterator[int] | None:
        return None  # other code may use the generator before that epoch

    def begin(self, epoch: int) -> None:
        super().begin(epoch)
        self._drawn_from = None

    def for_one_iteration(self) -> Self:
        own = super().for_one_iteration()
        self._loaded = None  # the copy begins there
        return own

    def state_dict(self, position: int | None = None, finished: bool | None = None) -> State:
        """Returns the base's state, with the generator's state that the rest is drawn from; None for that if unknown.

        For a finished epoch, it is the state from which the next epoch's order is drawn.
        """
        state = super().state_dict(position, finished)
        drawn_from = self._loaded
        if self._drawn_from is not None:
            drawn_from = self._behind_epoch(self._drawn_from) if state["finished"] else self._drawn_from
        return {**state, "generator": drawn_from}

    def _behind_epoch(self, state: torch.Tensor) -> torch.Tensor | None:
        """The generator's state after an order is drawn from `state`, computed without the generator itself."""
        if self.generator is None:
            return None
        generator = torch.Generator()
        generator.set_state(state)
        for _ in range(2):
            torch.randperm(self.num_samples, generator=generator)
        return generator.get_state()

    def load_state_dict(self, state: SavedState, *, allow_changes: bool = False) -> None:
        super().load_state_dict(state, allow_changes=allow_changes)
        self._drawn_from, self._loaded = None, state["generator"]

    def _order_length(self) -> int:
        return self.num_samples
