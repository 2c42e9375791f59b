"""Samplers whose memory does not grow with the data set, and which resume in the middle of an epoch.

`ShuffledSampler` and `DistributedSampler` give the order of an epoch from ``(seed, epoch)`` alone and keep nothing but
a position, so 100 million indices start as fast as a hundred. `WeightedSampler` and `ClassBalancedSampler` draw from a
seed likewise. `SequentialSampler` and `RandomSampler` are torch's; they are what `fastpipe.DataLoader` takes without a
seed.

Each new iteration is the next epoch; `set_epoch` chooses another one to go on from. `DataLoader.set_epoch` and
`DataLoader.state_dict` pass through to them. A state goes on with another number of ranks, too: `ShuffledSampler` and
`DistributedSampler` have one order, of which each rank takes its part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sized
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset, Sampler
from torch.utils.data import RandomSampler as TorchRandomSampler
from torch.utils.data import SequentialSampler as TorchSequentialSampler
from torch.utils.data.distributed import DistributedSampler as TorchDistributedSampler

from fastpipe.errors import DatasetError
from fastpipe.loading.permutation import Permutation
from fastpipe.loading.resumable import BLOCK, ResumableSampler, length_in, length_or_data, merge_states
from fastpipe.loading.weighted import ClassBalancedSampler, WeightedSampler

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
    """Each index once, in an order that ``(seed, epoch)`` fixes; memory and start-up don't depend on the length.

    Args:
        data_source: the dataset, or its length.
        seed: chooses the orders.

    Attributes:
        epoch: of the iteration that began last, or that was chosen since by `set_epoch`.
    """

    def __init__(self, data_source: Sized | int, seed: int = 0) -> None:
        self.data_source = length_or_data("data_source", data_source)
        self.seed = seed

    def __len__(self) -> int:
        return len(self.data_source)

    def _index_at(self) -> Callable[[NDArray[np.int64]], NDArray[np.int64]]:
        return Permutation(self._order_length(), (self.seed, self.epoch)).at

    def _order_length(self) -> int:
        return length_in(self.data_source, self.epoch)

    def _settings(self) -> dict[str, object]:
        return {**super()._settings(), "seed": self.seed}


class DistributedSampler(ResumableSampler, TorchDistributedSampler[Any]):
    """One rank's part of all indices: torch's `DistributedSampler` without its list of every index.

    Ranks, padding and ``drop_last`` are torch's: each rank gets every ``num_replicas``-th index of one common order;
    where the length doesn't divide, the order is continued from its front, or cut with ``drop_last``. The
    permutation itself is another one than torch's.

    Args:
        dataset: the dataset, or its length.
        num_replicas: how many ranks; None asks ``torch.distributed``, which must be initialised.
        rank: this one, from 0; None asks ``torch.distributed``.
        shuffle: in the order of ``(seed, epoch)``; False for the order of the indices.
        seed: the same on all ranks.
        drop_last: cut instead of pad.

    Raises:
        RuntimeError: ``torch.distributed`` is asked and not available.
        ValueError: ``torch.distributed`` is not initialised, or the rank is not below ``num_replicas``.
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
        super().__init__(sized, num_replicas, rank, shuffle, seed, drop_last)

    @property
    def num_samples(self) -> int:
        """Indices of this rank: torch keeps the number that it was at first."""
        return self._rank_share(len(self.dataset))  # type: ignore[arg-type] # a map-style dataset has a length

    @num_samples.setter
    def num_samples(self, value: int) -> None:
        pass

    @property
    def total_size(self) -> int:
        """Indices of all ranks."""
        return self.num_samples * self.num_replicas

    @total_size.setter
    def total_size(self, value: int) -> None:
        pass

    def _index_at(self) -> Callable[[NDArray[np.int64]], NDArray[np.int64]]:
        if not self.shuffle:
            return super()._index_at()
        return Permutation(self._order_length(), (self.seed, self.epoch)).at

    def _order_length(self) -> int:
        return length_in(self.dataset, self.epoch)

    def _settings(self) -> dict[str, object]:
        return super()._settings() | ({"seed": self.seed} if self.shuffle else {})


class SequentialSampler(ResumableSampler, TorchSequentialSampler):
    """0, 1, 2, … for each sample of a dataset, as torch's `SequentialSampler` gives them; resumes in the middle."""

    def _order_length(self) -> int:
        return length_in(self.data_source, self.epoch)


class RandomSampler(ResumableSampler, TorchRandomSampler):
    """torch's order of all indices from torch's generators, turned into Python integers a block at a time; resumes.

    A state holds what the epoch's order was drawn from; a `generator` goes on from there as it did in the saved run.
    Without one, the orders of later epochs come from the global generator, whose state is the caller's to save.

    Args:
        data_source: the dataset.
        generator: as torch's.
    """

    _drawn_from: torch.Tensor | None = None  # the generator's state, before this epoch's order
    _loaded: torch.Tensor | None = None  # the same, for the next iteration
    _saved_too = ("generator",)

    def __init__(self, data_source: Sized, generator: torch.Generator | None = None) -> None:
        if not (generator is None or isinstance(generator, torch.Generator)):
            raise DatasetError(f"generator={generator!r:.80}: give a torch.Generator, or None.")
        super().__init__(data_source, generator=generator)

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
        # torch's sampler draws for a remainder of zero indices, too: a generator that is used on must end up the same
        torch.randperm(self.num_samples, generator=generator)

    def ahead(self, epoch: int) -> Iterator[int] | None:
        return None  # its generator may be used before

    def begin(self, epoch: int) -> None:
        super().begin(epoch)
        self._drawn_from = None

    def for_one_iteration(self) -> Any:
        own = super().for_one_iteration()
        self._loaded = None  # the copy begins there
        return own

    def state_dict(self, position: int | None = None, finished: bool | None = None) -> dict[str, Any]:
        """The state of the other samplers, and the generator's that the rest is drawn from; None if that isn't known.

        Of an epoch that is finished, that is the state which the next epoch's order is drawn from.
        """
        state = super().state_dict(position, finished)
        drawn_from = self._loaded
        if self._drawn_from is not None:
            drawn_from = self._behind_epoch(self._drawn_from) if state["finished"] else self._drawn_from
        return {**state, "generator": drawn_from}

    def _behind_epoch(self, state: torch.Tensor) -> torch.Tensor | None:
        """The generator's state after the order that was drawn from `state`; the generator may not be there yet."""
        if self.generator is None:
            return None
        generator = torch.Generator()
        generator.set_state(state)
        for _ in range(2):
            torch.randperm(self.num_samples, generator=generator)
        return generator.get_state()

    def load_state_dict(self, state: Mapping[str, Any], *, allow_changes: bool = False) -> None:
        super().load_state_dict(state, allow_changes=allow_changes)
        self._drawn_from, self._loaded = None, state["generator"]

    def _order_length(self) -> int:
        return self.num_samples
