"""Samplers that save their position within an epoch, and restore it on any number of ranks.

An epoch is one order of indices, in which the ranks take turns. It is divided among them from its beginning on, or from
where an earlier division among other ranks ended (`offset`). A rank's position counts its own indices since then: once
all ranks are as far, ``offset + position * ranks`` indices of the order are done with.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fastpipe.arguments import whole_number
from fastpipe.errors import DatasetError, FastpipeWarning

BLOCK = 4096
"""Indices that are worked out at once."""

# Keys of a state that tell what kind of order it is of.
_KINDS = {
    "generator": "shuffle=True, without a seed",
    "seed": "an order that a seed decides",
    "weights": "weights",
}


def length_in(dataset: Any, epoch: int) -> int:
    """The length of a dataset in an epoch: that of a growing one isn't always the same."""
    length_at = getattr(dataset, "length_at", None)
    return len(dataset) if length_at is None else length_at(epoch)


def length_or_data(name: str, given: Any) -> Any:
    """A sampler's data, or a range in its place where a length is given.

    Raises:
        DatasetError: it has no length, and is none.
    """
    if hasattr(given, "__len__"):
        return given
    return range(whole_number(name, given, "a dataset that has a length, or a length", error=DatasetError))


Sampler = TypeVar("Sampler", bound="ResumableSampler")


class ResumableSampler:
    """Base of the samplers: counts epochs, and saves and restores the position within one.

    Attributes:
        epoch: of the iteration that began last, or that was chosen since by `set_epoch`.
        is_chosen: whether `set_epoch` or a state has chosen it, and no iteration has begun since.
        num_replicas, rank: the ranks that take turns in the order, and this one.
        drop_last: whether the indices that don't make one for each rank are left out; else the order goes on from its
            front.
    """

    epoch: int = 0
    is_chosen = False
    num_replicas: int = 1
    rank: int = 0
    drop_last: bool = False
    _over = False  # the next iteration is of the next epoch
    _finished = False  # the last one came to its end
    _offset: int = 0  # where in the epoch's order the division among these ranks begins
    _start: int = 0
    _given: int = 0
    _saved_too: tuple[str, ...] = ()  # keys of a state that are no settings, and others' states don't have

    def _order_length(self) -> int:
        """Indices in this epoch's order, of all ranks."""
        raise NotImplementedError

    def _settings(self) -> dict[str, object]:
        """Values that the order depends on besides the epoch; they must be the same when a state is loaded."""
        return {"length": self._order_length()}

    @property
    def epoch_length(self) -> int:
        """Number of this rank's indices in this epoch, after what other ranks had done with before."""
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
        """Chooses the epoch of the next iteration; those that follow go on from it.

        Naming the epoch that a loaded state belongs to keeps its position; another epoch starts at its front.
        """
        if epoch != self.epoch or self._over:
            self._offset = 0
        if epoch != self.epoch:
            self.epoch = epoch
            self._start = self._given = 0
            self._finished = False
        self.is_chosen, self._over = True, False

    def begin(self, epoch: int) -> None:
        """Does what `set_epoch` does, for a loader that counts the epochs itself."""
        if self._over or epoch != self.epoch:
            self._start = self._offset = 0
        self.set_epoch(epoch)
        self.is_chosen = False

    def state_dict(self, position: int | None = None, finished: bool | None = None) -> dict[str, Any]:
        """The state to save.

        Args:
            position: how many of this rank's indices of this epoch are done with; None for all that were handed out.
                A loader with workers takes indices ahead of the batches that it returns:
                `fastpipe.DataLoader.state_dict` counts the batches instead.
            finished: whether the loop over this epoch has ended; None for what is known of the indices.
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

    def load_state_dict(self, state: Mapping[str, Any], *, allow_changes: bool = False) -> None:
        """Goes on where the state was taken: the next iteration gives the rest of that epoch, exactly.

        If the loop over that epoch had ended, the next iteration gives the epoch after it. Where there are other ranks
        than in the saved run, they divide what is left of the order among them; give all of them the same state.

        Args:
            state: of this sampler, or of any rank's.
            allow_changes: go on as far into the epoch also where the order has another length, seed or weights now,
                with a warning: indices may then come twice in this epoch, or not at all.

        Raises:
            DatasetError: the state is another kind of sampler's, of another length or seed, or has no valid position.
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
            warnings.warn(
                f"{told}: indices may come twice in this epoch, or not at all.", FastpipeWarning, stacklevel=3
            )
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
        """Raises a DatasetError for what no sampler of this kind has saved."""
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
        """The indices of an epoch to come, if it is begun at its front; nothing here changes. None: not known yet."""
        other = copy.copy(self)
        other.epoch, other._offset = epoch, 0
        return other._order(0)

    def _order(self, start: int) -> Iterator[int]:
        """This rank's indices of this epoch from a position on, worked out a block at a time."""
        index_at, count, length = self._index_at(), self.epoch_length, max(self._order_length(), 1)
        first, step = self._offset + self.rank, self.num_replicas
        for block in range(start, count, BLOCK):
            positions = np.arange(block, min(block + BLOCK, count), dtype=np.int64)
            # After its end the order goes on from its front: torch's padding.
            yield from index_at((first + positions * step) % length).tolist()

    def _index_at(self) -> Callable[[NDArray[np.int64]], NDArray[np.int64]]:
        """A function from places in this epoch's order to the indices there: the same, if nothing is shuffled."""
        return np.asarray

    def __iter__(self) -> Iterator[int]:
        """The indices of the next epoch: all of them, or once after a state was loaded the rest."""
        start = self._start if not self._over else 0
        self._pass()
        self._given = start
        return self._counted(self._order(start))

    def for_one_iteration(self: Sampler) -> Sampler:
        """A copy whose next iteration is this sampler's; this one goes on after it."""
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


def _described(keys: Collection[str]) -> str:
    return ", ".join(words for key, words in _KINDS.items() if key in keys) or "shuffle=False"


def merge_states(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The state of the rank that is least far, of those that all ranks saved: nothing is lost when they go on from it.

    Ranks that save while others are a batch ahead, or in the next epoch, make different states. What the others had
    done beyond it comes again, at most.

    Args:
        states: what `state_dict` of each rank's `fastpipe.DataLoader` or sampler returned, in any order.

    Returns:
        A state to load on every rank of the next run, whatever their number.

    Raises:
        DatasetError: the states are of different runs, or a rank's is missing or comes twice.
    """
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
