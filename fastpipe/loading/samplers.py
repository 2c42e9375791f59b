"""Samplers whose memory does not grow with the data set, and which resume in the middle of an epoch.

`ShuffledSampler` and `DistributedSampler` give the order of an epoch from ``(seed, epoch)`` alone and keep nothing but
a position, so 100 million indices start as fast as a hundred. `SequentialSampler` and `RandomSampler` are torch's; they
are what `fastpipe.DataLoader` takes without a seed.

Each new iteration is the next epoch; `set_epoch` chooses another one to go on from. `DataLoader.set_epoch` and
`DataLoader.state_dict` pass through to them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Mapping, Sized
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

__all__ = ["DistributedSampler", "RandomSampler", "SequentialSampler", "ShuffledSampler"]

_BLOCK = 4096


def _length(dataset: Any, epoch: int) -> int:
    """The length of a dataset in an epoch: that of a growing one isn't always the same."""
    length_at = getattr(dataset, "length_at", None)
    return len(dataset) if length_at is None else length_at(epoch)


# Keys of a state that tell what kind of sampler saved it.
_KINDS = {
    "generator": "shuffle=True, without a seed",
    "seed": "an order that a seed decides",
    "num_replicas": "several ranks",
}


def _described(keys: Collection[str]) -> str:
    return ", ".join(words for key, words in _KINDS.items() if key in keys) or "shuffle=False"


class _Position:
    """Position of a sampler within an epoch, saved and restored.

    Attributes:
        epoch: of the iteration that began last, or that was chosen since by `set_epoch`.
        is_chosen: whether `set_epoch` or a state has chosen it, and no iteration has begun since.
    """

    epoch: int = 0
    is_chosen = False
    _over = False  # the next iteration is of the next epoch
    _finished = False  # the last one came to its end
    _start: int = 0
    _given: int = 0
    _saved_too: tuple[str, ...] = ()  # keys of a state that are no settings, and others' states don't have

    def _count(self) -> int:
        """Indices in an epoch."""
        raise NotImplementedError

    def _settings(self) -> dict[str, int]:
        """Values that the order depends on besides the epoch; they must be the same when a state is loaded."""
        raise NotImplementedError

    @property
    def next_start(self) -> int:
        """The position that the next iteration starts from: 0 unless a state was loaded."""
        return self._start

    @property
    def next_epoch(self) -> int:
        """The epoch of the next iteration."""
        return self.epoch + self._over

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next iteration; those that follow go on from it.

        Naming the epoch that a loaded state belongs to keeps its position; another epoch starts at its front.
        """
        if epoch != self.epoch:
            self.epoch = epoch
            self._start = self._given = 0
            self._finished = False
        self.is_chosen, self._over = True, False

    def begin(self, epoch: int) -> None:
        """Does what `set_epoch` does, for a loader that counts the epochs itself."""
        if self._over or epoch != self.epoch:
            self._start = 0
        self.set_epoch(epoch)
        self.is_chosen = False

    def state_dict(self, position: int | None = None, finished: bool | None = None) -> dict[str, Any]:
        """The state to save.

        Args:
            position: how many indices of this epoch are done with; None for all that were handed out. A loader with
                workers takes indices ahead of the batches that it returns: `fastpipe.DataLoader.state_dict` counts
                the batches instead.
            finished: whether the loop over this epoch has ended; None for what is known of the indices.
        """
        return {
            **self._settings(),
            "epoch": self.epoch,
            "position": self._given if position is None else position,
            "finished": position is None and self._finished if finished is None else finished,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where the state was taken: the next iteration gives the rest of that epoch, exactly.

        If the loop over that epoch had ended, the next iteration gives the epoch behind it.

        Raises:
            DatasetError: the state is another kind of sampler's, of another length, seed or number of ranks, or has no
                valid position.
        """
        self._check_kind(state)
        then = copy.copy(self)
        then.epoch = state["epoch"]
        for name, value in then._settings().items():
            if state.get(name) != value:
                raise DatasetError(
                    f"this sampler has {name}={value}, the state was saved with {name}={state.get(name)}: "
                    "resume with what the run was started with, or begin a new epoch."
                )
        if not 0 <= state["position"] <= then._count():
            raise DatasetError(f"position {state['position']} is outside an epoch of {then._count()} indices.")
        self.epoch = state["epoch"]
        self._start = self._given = state["position"]
        self.is_chosen = True
        self._over = self._finished = state.get("finished", False)

    def _check_kind(self, state: Any) -> None:
        """Raises a DatasetError for what no sampler of this kind has saved."""
        mine = {*self._settings(), *self._saved_too}
        keys = set(state) if isinstance(state, Mapping) else set()
        if not {"epoch", "position"} <= keys:
            what = f"{type(state).__name__} {sorted(map(str, keys))}" if keys else repr(state)[:60]
            raise DatasetError(
                f"load_state_dict got {what}: give what a sampler's state_dict() returned, which has an epoch and a "
                "position. DataLoader.load_state_dict takes what DataLoader.state_dict() returned."
            )
        found = keys & _KINDS.keys()
        if found != mine & _KINDS.keys():
            raise DatasetError(
                f"this sampler is a {type(self).__name__} ({_described(mine)}), and the state is of one with "
                f"{_described(found)}: resume with the sampler, shuffle= and seed= that the run was started with."
            )

    def ahead(self, epoch: int) -> Iterator[int] | None:
        """The indices of an epoch to come, if it is begun at its front; nothing here changes. None: not known yet."""
        other = copy.copy(self)
        other.epoch = epoch
        return other._order(0)

    def _order(self, start: int) -> Iterator[int]:
        """The indices of this epoch from a position on, worked out a block at a time."""
        indices_at, count = self._indices_at(), self._count()
        for block in range(start, count, _BLOCK):
            yield from indices_at(np.arange(block, min(block + _BLOCK, count), dtype=np.int64)).tolist()

    def _indices_at(self) -> Callable[[NDArray[np.int64]], NDArray[np.int64]]:
        """A function from positions in this epoch to the indices there."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[int]:
        """The indices of the next epoch: all of them, or once after a state was loaded the rest."""
        start = self._start if not self._over else 0
        self._pass()
        self._given = start
        return self._counted(self._order(start))

    def for_one_iteration(self) -> Any:
        """A copy whose next iteration is this sampler's; this one goes on behind it."""
        own = copy.copy(self)
        self._pass()
        return own

    def _pass(self) -> None:
        """Goes to where the next iteration has begun."""
        if self._over:
            self.begin(self.next_epoch)
        self.is_chosen, self._over, self._finished = False, True, False
        self._start = self._given = 0

    def _counted(self, order: Iterator[int]) -> Iterator[int]:
        for index in order:
            self._given += 1
            yield index
        self._finished = True


class ShuffledSampler(_Position, Sampler[int]):
    """Each index once, in an order that ``(seed, epoch)`` fixes; memory and start-up don't depend on the length.

    Args:
        data_source: the dataset, or its length.
        seed: chooses the orders.

    Attributes:
        epoch: of the iteration that began last, or that was chosen since by `set_epoch`.
    """

    def __init__(self, data_source: Sized | int, seed: int = 0) -> None:
        self.data_source = range(data_source) if isinstance(data_source, int) else data_source
        self.seed = seed

    def __len__(self) -> int:
        return len(self.data_source)

    def _indices_at(self) -> Callable[[NDArray[np.int64]], NDArray[np.int64]]:
        return Permutation(self._count(), (self.seed, self.epoch)).at

    def _count(self) -> int:
        return _length(self.data_source, self.epoch)

    def _settings(self) -> dict[str, int]:
        return {"length": self._count(), "seed": self.seed}


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

    @property
    def num_samples(self) -> int:
        """Indices of this rank: torch keeps the number that it was at first."""
        return self._rank_samples(len(self.dataset))  # type: ignore[arg-type] # a map-style dataset has a length

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

    def _rank_samples(self, length: int) -> int:
        return length // self.num_replicas if self.drop_last else -(-length // self.num_replicas)

    def _indices_at(self) -> Callable[[NDArray[np.int64]], NDArray[np.int64]]:
        length = _length(self.dataset, self.epoch)
        common = Permutation(length, (self.seed, self.epoch)).at if self.shuffle else np.asarray
        # Behind its end the common order goes on from its front: torch's padding.
        return lambda positions: common((positions * self.num_replicas + self.rank) % max(length, 1))

    def _count(self) -> int:
        return self._rank_samples(_length(self.dataset, self.epoch))

    def _settings(self) -> dict[str, int]:
        return {
            "length": _length(self.dataset, self.epoch),
            "seed": self.seed,
            "shuffle": int(self.shuffle),
            "num_replicas": self.num_replicas,
            "drop_last": int(self.drop_last),
        }


class SequentialSampler(_Position, TorchSequentialSampler):
    """0, 1, 2, … as torch's `SequentialSampler` gives them; resumes in the middle.

    Args:
        data_source: the dataset.
    """

    def _order(self, start: int) -> Iterator[int]:
        yield from range(start, self._count())

    def _count(self) -> int:
        return _length(self.data_source, self.epoch)

    def _settings(self) -> dict[str, int]:
        return {"length": self._count()}


class RandomSampler(_Position, TorchRandomSampler):
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
        for block in range(start, len(order), _BLOCK):
            yield from order[block : block + _BLOCK].tolist()
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
        """As the other samplers', with the generator's state that the rest is drawn from; None where it isn't known.

        Of an epoch that is finished, that is the state which the next epoch's order is drawn from.
        """
        state = super().state_dict(position, finished)
        drawn_from = self._loaded
        if self._drawn_from is not None:
            drawn_from = self._behind_epoch(self._drawn_from) if state["finished"] else self._drawn_from
        return {**state, "generator": drawn_from}

    def _behind_epoch(self, state: torch.Tensor) -> torch.Tensor | None:
        """The generator's state behind the order that was drawn from this one: it may not be there yet."""
        if self.generator is None:
            return None
        generator = torch.Generator()
        generator.set_state(state)
        for _ in range(2):
            torch.randperm(self.num_samples, generator=generator)
        return generator.get_state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._drawn_from, self._loaded = None, state["generator"]

    def _count(self) -> int:
        return self.num_samples

    def _settings(self) -> dict[str, int]:
        return {"length": self._count()}
