"""`samples` and `targets` as sequences over the index's arrays that make their items on demand."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar, overload

import numpy as np
from numpy.typing import DTypeLike

from fastpipe.counts import pluralize
from fastpipe.index.table import Array

if TYPE_CHECKING:
    from fastpipe.index.image_index import ImageIndex

Item = TypeVar("Item")

_BLOCK = 1 << 16


class _View(Sequence[Item]):
    """A sequence over an index: equals a list of the same items, can be added to lists, can't be changed in place."""

    __slots__ = ("index_", "size")
    __hash__ = None  # type: ignore[assignment]  # unhashable, like a list

    def __init__(self, index: ImageIndex) -> None:
        self.index_ = index
        self.size = len(index)

    def __len__(self) -> int:
        return self.size

    def _at(self, number: int) -> Item:
        raise NotImplementedError

    @overload
    def __getitem__(self, item: int) -> Item: ...
    @overload
    def __getitem__(self, item: slice) -> list[Item]: ...
    def __getitem__(self, item: int | slice) -> Item | list[Item]:
        if type(item) is int and 0 <= item < self.size:
            return self._at(item)
        if isinstance(item, slice):
            return [self._at(number) for number in range(*item.indices(len(self)))]
        number = operator.index(item)
        if not -self.size <= number < self.size:
            raise IndexError(f"index {item} is out of range of {pluralize(self.size, 'sample')}")
        return self._at(number % self.size)

    def __setitem__(self, item: object, value: object) -> None:
        raise TypeError(
            f"{type(self).__name__} are a view of an index and can't be changed in place. "
            "Assign a list to the dataset instead: dataset.samples = list(dataset.samples)."
        )

    def _refuse(self, *_: object, **__: object) -> None:
        self[0] = None

    append = clear = extend = insert = pop = remove = reverse = sort = __delitem__ = _refuse

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _View) and type(self) is type(other) and self.index_ is other.index_:
            return True
        if not isinstance(other, (list, _View)):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __add__(self, other: Iterable[Item]) -> list[Item]:
        return [*self, *other]

    def __radd__(self, other: Iterable[Item]) -> list[Item]:
        return [*other, *self]

    def copy(self) -> list[Item]:
        """A list of all items."""
        return list(self)

    def __repr__(self) -> str:
        shown = ", ".join(repr(item) for item in self[:3])
        return f"<{type(self).__name__} of {len(self)}: [{shown}{', …' if len(self) > 3 else ''}]>"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.index_,)


class Samples(_View[tuple[str, int]]):
    """The ``(path, target)`` of each sample."""

    __slots__ = ()

    def _at(self, number: int) -> tuple[str, int]:
        return self.index_.path(number), self.index_.labels[number].item()

    def __iter__(self) -> Iterator[tuple[str, int]]:
        for paths, labels in self.index_.blocks():
            yield from zip(paths, labels.tolist(), strict=True)


class Targets(_View[int]):
    """The target of each sample; ``numpy.asarray(targets)`` is int64 or float64, as for a list."""

    __slots__ = ()

    def _at(self, number: int) -> int:
        target: int = self.index_.labels[number].item()
        return target

    def __iter__(self) -> Iterator[int]:
        labels = self.index_.labels
        for start in range(0, len(labels), _BLOCK):
            yield from labels[start : start + _BLOCK].tolist()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("an array of targets is always a copy; index.labels is the array that they come from")
        labels = self.index_.labels
        return labels.astype((np.float64 if labels.dtype.kind == "f" else np.int64) if dtype is None else dtype)

    def count(self, value: object) -> int:
        """The number of samples with this target."""
        return int(np.count_nonzero(self.index_.labels == value)) if np.isscalar(value) else 0

    def tolist(self) -> list[int]:
        """The targets as a list of Python integers."""
        targets: list[int] = self.index_.labels.tolist()
        return targets
