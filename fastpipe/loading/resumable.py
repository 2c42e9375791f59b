"""Samplers that save their position within an epoch, and restore it on any number of ranks.

An epoch is one order of indices, in which the ranks take turns. It is divided among the ranks from its beginning, or
from where an earlier run with other ranks ended (`offset`). A rank's position counts its own indices from there: when
all ranks are at the same position, the first ``offset + position * ranks`` indices of the order are done.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Sized
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from fastpipe.arguments import whole_number
from fastpipe.datasets.bad_files import warn_again
from fastpipe.errors import DatasetError
from fastpipe.plain_lookup import class_attribute

BLOCK = 4096
"""The number of indices computed at a time."""

# Keys of a state that identify the kind of order.
_KINDS = {
    "generator": "shuffle=True, without a seed",
    "seed": "an order that a seed decides",
    "weights": "weights",
}


State: TypeAlias = dict[str, Any]
"""A state to save, of a sampler or a loader."""

SavedState: TypeAlias = Mapping[str, Any]
"""A state that was saved, perhaps by another version."""


def length_in(dataset: Sized, epoch: int) -> int:
    """The length of a dataset in an epoch; a growing dataset's length depends on it."""
    length_at = class_attribute(dataset, "length_at")
    return len(dataset) if length_at is None else int(length_at(dataset, epoch))


def length_or_data(name: str, given: object) -> Sized:
    """Returns a sampler's data; if a length is given instead, a range of that length.

    Raises:
        DatasetError: `given` neither is nor has a length.
    """
    if isinstance(given, Sized) and getattr(given, "shape", None) != ():
        return given
    return range(whole_number(name, given, "a dataset that has a length, or a length", error=DatasetError))


class ResumableSampler:
    """Base of the samplers: counts epochs, and saves and restores the position within one.

    Attributes:
        epoch: the epoch of the last iteration that began, or the one set since by `set_epoch`.
        is_chosen: whether `set_epoch` or a state has set the epoch, and no iteration has begun since.
        num_replicas, rank: the number of ranks that take turns in the order, and this process's rank.
        drop_last: drop indices at the end that don't suffice for all ranks; otherwise the order is continued from its
            front.
    """

    epoch: int = 0
    is_chosen = False
    num_replicas: int = 1
    rank: int = 0
    drop_last: bool = False
    _over = False  # whether the next iteration begins the next epoch
    _finished = False  # the last one came to its end
    _offset: int = 0  # where in the epoch's order the division among these ranks begins
    _start: int = 0
    _given: int = 0
    _saved_too: tuple[str, ...] = ()  # keys of a state that are no settings, and others' states don't have

    def _order_length(self) -> int:
        """The number of indices in this epoch's order, for all ranks together."""
        raise NotImplementedError

    def _settings(self) -> dict[str, object]:
        """Values besides the epoch that fix the order; they must be equal when a state is loaded."""
        return {"length": self._order_length()}

    @property
    def epoch_length(self) -> int:
        """Number of this rank's indices in this epoch; excludes those done by an earlier run with other ranks."""
        return self._rank_share(self._order_length() - self._offset)

    def _rank_share(self, indices: int) -> int:
        indices = max(indices, 0)
        return indices // self.num_replicas if self.drop_last else -(-indices // self.num_replicas)

    @property
    def next_start(self) -> int:
        """The position that the next iteration starts from: 0 unless a state was loaded."""
        return self._start

    @property
    def next_epoch(self) -> int:
        """The epoch of the next iteration."""
        return self.epoch + self._over

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next iteration; later iterations count on from it.

        If it is the epoch of a loaded state, the state's position is kept; another epoch starts at its front.
        """
        epoch = whole_number("epoch", epoch, "the number of an epoch", error=DatasetError)
        if epoch != self.epoch or self._over:
            self._offset = 0
        if epoch != self.epoch:
            self.epoch = epoch
            self._start = self._given = 0
            self._finished = False
        self.is_chosen, self._over = True, False

    def begin(self, epoch: int) -> None:
        """Sets the epoch as `set_epoch` does, for a loader that counts the epochs itself."""
        if self._over or epoch != self.epoch:
            self._start = self._offset = 0
        self.set_epoch(epoch)
        self.is_chosen = False

    def state_dict(self, position: int | None = None, finished: bool | None = None) -> State:
        """Returns the state to save.

        Args:
            position: the number of this rank's indices of this epoch that are done; None for all that were handed out.
                A loader with workers takes indices ahead of the batches that it returns:
                `fastpipe.DataLoader.state_dict` counts the batches instead.
            finished: whether the loop over this epoch has ended; None for True if all indices were handed out.
        """
        return {
            **self._settings(),
            "epoch": self.epoch,
            "num_replicas": self.num_replicas,
            "rank": self.rank,
            "offset": self._offset,
            "position": self._given if position is None else position,
            "finished": position is None and self._finished if finished is None else finished,
        }

    def load_state_dict(self, state: SavedState, *, allow_changes: bool = False) -> None:
        """Resumes where the state was saved: the next iteration gives exactly the rest of that epoch.

        If the loop over that epoch had ended, the next iteration gives the epoch after it. A different number of ranks
        than in the saved run divides the rest of the order among them; give all ranks the same state.

        Args:
            state: the state of this sampler, or of any rank's.
            allow_changes: warn instead of raising if the order now has another length, seed or weights; indices may
                then come twice in this epoch, or not at all.

        Raises:
            DatasetError: the state is of another kind of sampler, length or seed, or its position is invalid.
        """
        self._check_kind(state)
        then = copy.copy(self)
        then.epoch, then._offset = state["epoch"], state.get("offset", 0)
        changed = [name for name, value in then._settings().items() if state.get(name) != value]
        if changed:
            name, value = changed[0], then._settings()[changed[0]]
            told = f"this sampler has {name}={value}, the state was saved with {name}={state.get(name)}"
            if not allow_changes:
                raise DatasetError(
                    f"{told}: resume with what the run was started with, begin a new epoch, or go on all the same with "
                    "load_state_dict(state, allow_changes=True)."
                )
            warn_again(f"{told}: indices may come twice in this epoch, or not at all.")
        position, ranks = state["position"], state.get("num_replicas", 1)
        most = max(int(state.get("length", 0)), then._order_length())
        if not (position >= 0 and then._offset >= 0 and then._offset + (position - 1) * ranks < max(most, 1)):
            raise DatasetError(f"position {position} is outside an epoch of {then.epoch_length} indices.")
        if ranks != self.num_replicas or changed:
            then._offset, position = min(then._offset + position * ranks, then._order_length()), 0
        self.epoch, self._offset = then.epoch, then._offset
        self._start = self._given = min(position, then.epoch_length)
        self.is_chosen = True
        self._over = self._finished = state.get("finished", False)

    def _check_kind(self, state: object) -> None:
        """Raises a DatasetError if a state wasn't saved by a sampler of this kind."""
        mine = {*self._settings(), *self._saved_too}
        keys = set(state) if isinstance(state, Mapping) else set()
        if not {"epoch", "position"} <= keys:
            what = f"{type(state).__name__} {sorted(map(str, keys))}" if keys else repr(state)[:60]
            raise DatasetError(
                f"load_state_dict got {what}: give what a sampler's state_dict() returned, which has an epoch and a "
                "position. DataLoader.load_state_dict takes what DataLoader.state_dict() returned."
            )
        if keys & _KINDS.keys() != mine & _KINDS.keys():
            raise DatasetError(
                f"this sampler is a {type(self).__name__} ({_described(mine)}), and the state is of one with "
                f"{_described(keys)}: resume with the sampler, shuffle= and seed= that the run was started with."
            )

    def ahead(self, epoch: int) -> Iterator[int] | None:
        """The indices of a later epoch from its front, without a change to the sampler; None if not known yet."""
        other = copy.copy(self)
        other.epoch, other._offset = epoch, 0
        return other._order(0)

    def _order(self, start: int) -> Iterator[int]:
        """Yields this rank's indices of this epoch from a position on, computed in blocks."""
        index_at, count, length = self._index_at(), self.epoch_length, max(self._order_length(), 1)
        first, step = self._offset + self.rank, self.num_replicas
        for block in range(start, count, BLOCK):
            positions = np.arange(block, min(block + BLOCK, count), dtype=np.int64)
            # Past its end, the order is continued from its front, which is torch's padding.
            yield from index_at((first + positions * step) % length).tolist()

    def _index_at(self) -> Callable[[NDArray[np.int64]], NDArray[np.int64]]:
        """Returns a function from places in this epoch's order to indices; the identity, unless shuffled."""
        return np.asarray

    def __iter__(self) -> Iterator[int]:
        """The indices of the next epoch; in the first iteration after a state was loaded, the rest of its epoch."""
        start = self._start if not self._over else 0
        self._pass()
        self._given = start
        return self._counted(self._order(start))

    def for_one_iteration(self) -> Self:
        """Returns a copy to run this sampler's next iteration; this sampler moves on to the one after."""
        own = copy.copy(self)
        self._pass()
        return own

    def _pass(self) -> None:
        """Changes the state as the start of an iteration does."""
        if self._over:
            self.begin(self.next_epoch)
        self.is_chosen, self._over, self._finished = False, True, False
        self._start = self._given = 0

    def _counted(self, order: Iterator[int]) -> Iterator[int]:
        for index in order:
            self._given += 1
            yield index
        self._finished = True


def _described(keys: Collection[str]) -> str:
    return ", ".join(words for key, words in _KINDS.items() if key in keys) or "shuffle=False"


def merge_states(states: Sequence[SavedState]) -> State:
    """Merges the states that all ranks saved: returns that of the rank that was least far, so that no sample is lost.

    States differ if some ranks were a batch ahead, or in the next epoch, when they saved. Samples that they handed out
    beyond the returned state come again.

    Args:
        states: the result of `state_dict` of each rank's `fastpipe.DataLoader` or sampler, in any order.

    Returns:
        A state to load on every rank of the next run, whatever their number.

    Raises:
        DatasetError: the states are from different runs, or a rank's state is missing or given twice.
    """
    if not isinstance(states, Sequence):
        raise DatasetError(f"states={states!r:.80}: give merge_states a list of each rank's state.")
    samplers = [state.get("sampler", state) if isinstance(state, Mapping) else {} for state in states]
    if not states or not all({"epoch", "position", "rank", "num_replicas"} <= set(one) for one in samplers):
        raise DatasetError("merge_states takes the states that state_dict() of each rank's loader or sampler returned.")
    ranks = sorted(one["rank"] for one in samplers)
    counts = {one["num_replicas"] for one in samplers}
    if len(counts) > 1 or ranks != list(range(len(ranks))) or len(ranks) not in counts:
        raise DatasetError(
            f"merge_states got states of ranks {', '.join(map(str, ranks))}, saved by {_either(counts)} ranks: give "
            "the state of each rank once."
        )
    for name in ("seed", "weights"):
        values = {repr(one.get(name)) for one in samplers}
        if len(values) > 1:
            raise DatasetError(f"these states are of different runs: {name} is {_either(values)}.")
    farness = [(one["epoch"], bool(one.get("finished")), one.get("offset", 0), one["position"]) for one in samplers]
    return dict(states[farness.index(min(farness))])


def _either(values: Collection[object]) -> str:
    return " or ".join(sorted(map(str, values)))
