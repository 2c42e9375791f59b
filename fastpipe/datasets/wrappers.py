"""Finds datasets within datasets: in torch's `Subset` and `ConcatDataset`, and in any other wrapper."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from types import MethodType
from typing import Any, TypedDict, TypeGuard

from torch.utils.data import ConcatDataset, Dataset, Subset

from fastpipe.datasets.base import ImageDataset
from fastpipe.plain_lookup import attribute_of_class, is_a, own_attributes, values_in_slots
from fastpipe.types import Sample


class EpochContent(TypedDict):
    """The content of an epoch, as a loader's state keeps it: a part of the order in which samples arrive."""

    epoch: int
    first: int  # the place in the order of the first sample
    stop: int  # the place after the last sample
    missing: list[int]  # places in between whose samples can't be read


class EpochSubset(Subset[Sample]):
    """A `Subset` of an `ImageDataset` whose indices change with the epoch."""

    dataset: ImageDataset

    def inner(self, places: Sequence[int]) -> list[int]:
        """Converts places in the current epoch to indices in `dataset`."""
        raise NotImplementedError

    def describe_epoch(self, epoch: int) -> EpochContent:
        """The content of an epoch, to be saved in a loader's state and given to `adopt_epoch`."""
        raise NotImplementedError

    def adopt_epoch(self, content: EpochContent) -> str:
        """Sets an epoch's content to what `describe_epoch` returned; if it had another, returns the difference."""
        raise NotImplementedError

    def __getitem__(self, place: int) -> Sample:
        """A sample of the current epoch, as the dataset gives it."""
        return self.dataset[self.inner([place])[0]]

    def __getitems__(self, places: list[int]) -> list[Sample]:
        return self.dataset.__getitems__(self.inner(places))


def is_wrapper(dataset: object) -> bool:
    """True if a dataset is torch's `Subset` or `ConcatDataset`, or a class derived from one."""
    return is_a(dataset, (Subset, ConcatDataset))


def is_transparent(dataset: object) -> bool:
    """True if a wrapper gives the samples of its datasets unchanged; a class derived from torch's may make others."""
    kind = type(dataset)
    return is_wrapper(dataset) and any(
        all(attribute_of_class(kind, name) is attribute_of_class(wrapper, name) for name in _MAKING_SAMPLES)
        for wrapper in (Subset, ConcatDataset, EpochSubset)
    )


_MAKING_SAMPLES = ("__getitem__", "__getitems__")


def inner_datasets(dataset: object) -> dict[str, object]:
    """The datasets within a `Subset` or `ConcatDataset`, by attribute name; empty for other datasets."""
    if isinstance(dataset, Subset):
        return {"dataset": dataset.dataset}
    if isinstance(dataset, ConcatDataset):
        return {f"datasets[{number}]": inner for number, inner in enumerate(dataset.datasets)}
    return {}


def unwrap_subsets(
    dataset: object, indices: Sequence[int] = (), through: Callable[[object], bool] = is_wrapper
) -> tuple[Any, Sequence[int]]:
    """Unwraps `Subset`s: returns the dataset within, and the samples' indices in it.

    Args:
        dataset: any dataset.
        indices: the samples' indices in `dataset`.
        through: says which wrappers to unwrap.
    """
    while is_a(dataset, Subset) and through(dataset):
        if len(indices):  # without indices, don't fix the content of an epoch that isn't fixed yet
            if isinstance(dataset, EpochSubset):
                indices = dataset.inner(indices)
            else:
                indices = [dataset.indices[place] for place in indices]
        dataset = dataset.dataset
    return dataset, indices


def locate(dataset: object, index: int, through: Callable[[object], bool] = is_wrapper) -> tuple[Any, int]:
    """Finds the dataset within `Subset`s and `ConcatDataset`s that has a sample, and the sample's index in it.

    If the index is out of a `ConcatDataset`'s range, returns that dataset, which will raise. See `unwrap_subsets`.
    """
    dataset, (index,) = unwrap_subsets(dataset, [index], through)
    if not (is_a(dataset, ConcatDataset) and through(dataset) and -len(dataset) <= index < len(dataset)):
        return dataset, index
    place, ends = index % len(dataset), [0, *dataset.cumulative_sizes]
    number = bisect_right(ends, place) - 1
    return locate(dataset.datasets[number], place - ends[number], through)


_NESTED = 3
"""How many levels of nested lists and dicts are searched."""


def image_datasets(dataset: object) -> Iterator[ImageDataset]:
    """Yields this dataset, or the image datasets inside a wrapper such as torch's `Subset`, each once."""
    visited: dict[int, object] = {}  # all visited objects: wrappers may share a dataset, or refer back in a circle
    todo = [dataset]
    while todo:
        one = todo.pop()
        if id(one) not in visited:
            visited[id(one)] = one
            if _is_ours(one):
                yield one
            else:
                todo += reversed(_held(one))


def _is_ours(dataset: object) -> TypeGuard[ImageDataset]:
    return issubclass(type(dataset), ImageDataset)


def _held(wrapper: object) -> list[object]:
    """The datasets that a wrapper holds, each once: in its attributes, and in lists and dicts there."""
    datasets = (inner for value in _attributes(wrapper) for inner in _datasets_in(value, _NESTED))
    return list({id(inner): inner for inner in datasets}.values())


def _attributes(wrapper: object) -> Iterator[object]:
    """The values of an object's attributes, in its ``__dict__`` and in slots; no code of its class runs."""
    own = own_attributes(wrapper)
    yield from dict.values(own) if isinstance(own, dict) else ()
    yield from (value for _, value in values_in_slots(wrapper))


def _datasets_in(value: object, depth: int) -> Iterator[object]:
    kind = type(value)  # not ``__class__``, which an object may compute
    members = next((members for base, members in _MEMBERS.items() if issubclass(kind, base)), None)
    if members is not None:
        # look at the first member only: it may be a list of a million paths
        if depth and any(True for one in islice(members(value), 1) for _ in _datasets_in(one, depth - 1)):
            for member in list(members(value)):
                yield from _datasets_in(member, depth - 1)
    elif type(value) is MethodType:  # `self.get = dataset.__getitem__`
        yield from _datasets_in(value.__self__, depth)
    elif _may_be_dataset(kind):
        yield value


_MEMBERS: dict[type, Callable[[Any], Iterable[Any]]] = {
    dict: dict.values,
    list: list.__iter__,
    tuple: tuple.__iter__,
}
"""For each type of container, the base's function for its members, even if a derived class overrides iteration."""


def _may_be_dataset(kind: type) -> bool:
    """True if objects of a class may be datasets or hold some; False for metaclasses, whose objects are classes."""
    if issubclass(kind, type):
        return False
    has_items = attribute_of_class(kind, "__getitem__") is not None
    return issubclass(kind, Dataset) or (has_items and kind.__dictoffset__ != 0)


def split_samples(dataset: object, samples: float) -> list[tuple[ImageDataset, float]]:
    """Splits a number of samples between the `image_datasets` in a dataset; in a `ConcatDataset` by their lengths.

    References that lead back in a circle get no share.
    """
    within: dict[int, list[tuple[object, float]]] = {}
    datasets: list[ImageDataset] = []
    places: dict[int, int] = {}  # depth-first post-order: a wrapper comes after the datasets that it holds
    todo = [(dataset, False)]
    while todo:
        one, is_left = todo.pop()
        key = id(one)
        if is_left:
            places[key] = len(places)
        elif key not in within:
            within[key] = _shares_within(one)
            if _is_ours(one):
                datasets.append(one)
            todo += [(one, True), *((inner, False) for inner, _ in reversed(within[key]))]
    shares = dict.fromkeys(places, 0.0) | {id(dataset): samples}
    for key in reversed(places):
        for inner, share in within[key]:
            if places[id(inner)] < places[key]:
                shares[id(inner)] += shares[key] * share
    return [(one, shares[id(one)]) for one in datasets]


def _shares_within(dataset: Any) -> list[tuple[object, float]]:
    """The datasets that a wrapper holds, each with its share of the samples; empty for an `ImageDataset`."""
    if _is_ours(dataset):
        return []
    joined: list[Any] = dataset.datasets if is_a(dataset, ConcatDataset) else []
    by_length = [(inner, len(inner) / max(len(dataset), 1)) for inner in joined]
    known = set(map(id, joined))
    return by_length + [(inner, 1.0) for inner in _held(dataset) if id(inner) not in known]
