"""Samplers whose memory does not grow with the data set, and which resume in the middle of an epoch.

Both give the order of an epoch from ``(seed, epoch)`` alone and keep nothing but a position, so 100 million indices
start as fast as a hundred. `DataLoader.set_epoch` and `DataLoader.state_dict` pass through to them; with the stock
loader call ``sampler.set_epoch`` before each epoch, as with torch's `DistributedSampler`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any

import numpy as np
from torch.utils.data import Dataset, Sampler
from torch.utils.data.distributed import DistributedSampler as TorchDistributedSampler

from fastpipe.errors import DatasetError
from fastpipe.loading.permutation import Permutation

__all__ = ["DistributedSampler", "ShuffledSampler"]

_BLOCK = 4096


class _Position:
    """Where in an epoch a sampler is, and how to come back there."""

    seed: int
    epoch: int
    _start: int = 0
    _given: int = 0

    def _count(self) -> int:
        """Indices in an epoch."""
        raise NotImplementedError

    def _settings(self) -> dict[str, int]:
        """What the order depends on besides the epoch: it must be the same when a state is loaded."""
        raise NotImplementedError

    @property
    def next_start(self) -> int:
        """The position that the next iteration starts from: 0 unless a state was loaded."""
        return self._start

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of the next iteration.

        Naming the epoch that a loaded state belongs to keeps its position; another epoch starts at its front.
        """
        if epoch != self.epoch:
            self.epoch = epoch
            self._start = self._given = 0

    def state_dict(self, position: int | None = None) -> dict[str, int]:
        """The state to save.

        Args:
            position: how many indices of this epoch are done with; None for all that were handed out. A loader with
                workers takes indices ahead of the batches that it returns: `fastpipe.DataLoader.state_dict` counts
                the batches instead.
        """
        return {**self._settings(), "epoch": self.epoch, "position": self._given if position is None else position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Goes on where the state was taken: the next iteration gives the rest of that epoch, exactly.

        Raises:
            DatasetError: the state is of another length, seed or number of ranks, or has no valid position.
        """
        for name, value in self._settings().items():
            if state.get(name) != value:
                raise DatasetError(
                    f"this sampler has {name}={value}, the state was saved with {name}={state.get(name)}: "
                    "resume with what the run was started with, or begin a new epoch."
                )
        if not 0 <= state["position"] <= self._count():
            raise DatasetError(f"position {state['position']} is outside an epoch of {self._count()} indices.")
        self.epoch = state["epoch"]
        self._start = self._given = state["position"]

    def _order(self, start: int) -> Iterator[int]:
        """The indices of this epoch from a position on."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[int]:
        """The indices of this epoch: all of them, or once after a state was loaded the rest."""
        start, self._start = self._start, 0
        self._given = start
        return self._counted(self._order(start))

    def _counted(self, order: Iterator[int]) -> Iterator[int]:
        for index in order:
            self._given += 1
            yield index

    def _positions(self, start: int) -> Iterator[np.ndarray[Any, Any]]:
        """Blocks of positions up to the end of the epoch."""
        count = self._count()
        for block in range(start, count, _BLOCK):
            yield np.arange(block, min(block + _BLOCK, count), dtype=np.int64)


class ShuffledSampler(_Position, Sampler[int]):
    """All indices once, in an order that ``(seed, epoch)`` fixes; memory and start-up don't depend on the length.

    Args:
        data_source: the dataset, or its length.
        seed: chooses the orders.

    Attributes:
        epoch: the epoch whose order the next iteration gives; see `set_epoch`.
    """

    def __init__(self, data_source: Sized | int, seed: int = 0) -> None:
        self.data_source = range(data_source) if isinstance(data_source, int) else data_source
        self.seed = seed
        self.epoch = 0

    def __len__(self) -> int:
        return len(self.data_source)

    def _order(self, start: int) -> Iterator[int]:
        permutation = Permutation(len(self), (self.seed, self.epoch))
        for positions in self._positions(start):
            yield from permutation.at(positions).tolist()

    def _count(self) -> int:
        return len(self)

    def _settings(self) -> dict[str, int]:
        return {"length": len(self), "seed": self.seed}


class DistributedSampler(_Position, TorchDistributedSampler[Any]):
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
        sized: Any = range(dataset) if isinstance(dataset, int) else dataset
        super().__init__(sized, num_replicas, rank, shuffle, seed, drop_last)

    def _order(self, start: int) -> Iterator[int]:
        length = len(self.dataset)  # type: ignore[arg-type] # a map-style dataset has a length
        permutation = Permutation(length, (self.seed, self.epoch)) if self.shuffle else None
        for positions in self._positions(start):
            # Behind its end the common order goes on from its front: torch's padding.
            indices = (positions * self.num_replicas + self.rank) % max(length, 1)
            if permutation is not None:
                indices = permutation.at(indices)
            yield from indices.tolist()

    def _count(self) -> int:
        return self.num_samples

    def _settings(self) -> dict[str, int]:
        return {
            "length": len(self.dataset),  # type: ignore[arg-type] # a map-style dataset has a length
            "seed": self.seed,
            "shuffle": int(self.shuffle),
            "num_replicas": self.num_replicas,
            "drop_last": int(self.drop_last),
        }
