"""torch's wrappers of datasets are looked through where they pass samples on, and nowhere else."""

from __future__ import annotations

import enum
import unittest.mock
from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import ConcatDataset, Dataset, Subset

import fastpipe
from fastpipe.datasets.wrappers import (
    image_datasets,
    inner_datasets,
    is_transparent,
    locate,
    split_samples,
    unwrap_subsets,
)


@pytest.fixture
def folder(tmp_path: Path) -> fastpipe.ImageFolder:
    corpus.write_folder(tmp_path / "root")
    return fastpipe.ImageFolder(tmp_path / "root", index=None)


def test_locate_finds_what_the_wrappers_give(folder: fastpipe.ImageFolder) -> None:
    numbers = torch.arange(7)
    both: Any = ConcatDataset([Subset(folder, [3, -1, 0]), Subset(Subset(numbers, [6, 5, 4]), [2, 0])])
    assert [locate(both, place) for place in range(3)] == [(folder, 3), (folder, -1), (folder, 0)]
    for place in (3, 4, -1, -2):
        found, index = locate(both, place)
        assert found is numbers
        assert found[index] == both[place]
    assert locate(both, 5) == (both, 5)
    assert locate(folder, 2) == (folder, 2)


def test_behind_subsets_asks_nothing_without_indices(folder: fastpipe.ImageFolder) -> None:
    class Unopened(dict[int, int]):
        def __getitem__(self, place: int) -> int:
            raise AssertionError

    subset: Any = Subset(folder, Unopened())
    assert unwrap_subsets(Subset(subset, [1])) == (folder, ())
    assert unwrap_subsets(Subset(Subset(folder, [4, 2, 0]), [2, 1]), [0, 1, 0]) == (folder, [0, 2, 0])


def test_a_class_that_makes_samples_of_its_own_is_not_transparent(folder: fastpipe.ImageFolder) -> None:
    class Named(Subset[Any]):
        name = "train"

    class One(Subset[Any]):
        def __getitem__(self, place: Any) -> Any:
            return super().__getitem__(place), 1

        def __getitems__(self, places: list[int]) -> list[Any]:
            return [self[place] for place in places]

    class Several(Subset[Any]):
        def __getitems__(self, places: list[int]) -> list[Any]:
            return [1 for _ in places]

    for kind, expected in ((Subset, True), (Named, True), (One, False), (Several, False)):
        subset = kind(folder, [0, 1])
        assert is_transparent(subset) is expected
        assert unwrap_subsets(subset, [1], through=is_transparent) == ((folder, [1]) if expected else (subset, [1]))
        assert inner_datasets(subset) == {"dataset": folder}
    assert is_transparent(ConcatDataset([folder]))
    assert not is_transparent(folder)
    assert inner_datasets(ConcatDataset([folder, One(folder, [0])])).keys() == {"datasets[0]", "datasets[1]"}


def test_shares_go_by_length(folder: fastpipe.ImageFolder) -> None:
    class Wrapper(Dataset[Any]):
        def __init__(self, inner: Any) -> None:
            self.inner = inner

    part = Subset(folder, [0])
    both: Any = ConcatDataset([folder, part])
    found = [(one, round(share, 9)) for one, share in split_samples(Wrapper(both), len(both))]
    assert found == [(folder, len(folder) + 1)]
    assert [*image_datasets(both)] == [folder]


def test_what_a_joined_dataset_holds_besides_has_all_samples(folder: fastpipe.ImageFolder) -> None:
    other = fastpipe.ImageFolder(folder.root)
    joined: Any = ConcatDataset([folder, folder])
    joined.other = other
    assert [*split_samples(joined, 8)] == [(folder, 8.0), (other, 8.0)]
    assert [*image_datasets(joined)] == [folder, other]


# -- whatever else a data set has among its attributes


class Mode(enum.Enum):
    ONE = "one"
    TWO = "two"


class Node:
    """Has items and attributes, as wrappers have, and may lead anywhere."""

    def __init__(self, **attributes: Any) -> None:
        object.__getattribute__(self, "__dict__").update(attributes)

    def __getitem__(self, index: int) -> Any:
        raise AssertionError("nobody asked for this")


class Slotted(Dataset[Any]):
    __slots__ = ("inner", "never_set")

    def __init__(self, inner: Any) -> None:
        self.inner = inner


class Untouchable(Node):
    """Raises whatever it is asked."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __len__(self) -> int:
        raise RuntimeError


class Closed(dict[str, Any]):
    """Raises where it is read, as what is loaded later does."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError

    def values(self) -> Any:
        raise RuntimeError

    def __len__(self) -> int:
        raise RuntimeError


class Foreign(Dataset[Any]):
    def __init__(self, attributes: dict[str, Any]) -> None:
        object.__getattribute__(self, "__dict__").update(attributes)

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> Any:
        return torch.tensor(index)


def _circle() -> Any:
    one, other = Node(), Node(number=1)
    one.other, other.others = other, [one, other, {"one": one}]
    return one


def _own_member() -> Any:
    found: list[Any] = []
    found += [found, found]
    return found


def _chain() -> Any:
    found = Node()
    for _ in range(1200):
        found = Node(next=found, again=[found])
    return found


ODD: dict[str, Callable[[], Any]] = {
    "an Enum": lambda: Mode.ONE,
    "a mode of ours": lambda: fastpipe.transforms.InterpolationMode.BICUBIC,
    "an Enum's class": lambda: Mode,
    "a class": lambda: Node,
    "a generic": lambda: list[int],
    "a circle": _circle,
    "a list in itself": _own_member,
    "a chain": _chain,
    "untouchable": Untouchable,
    "closed": lambda: Closed(one=1),
    "a mock": unittest.mock.MagicMock,
    "a module": lambda: enum,
    "arrays": lambda: np.array([Node(), None], dtype=object),
    "numbers": lambda: {"one": torch.arange(3), "two": (1, 2.5, None, "text", b"bytes", range(9))},
    "slots": lambda: Slotted(_circle()),
    "a method": lambda: Node().__getitem__,
}


@given(st.lists(st.sampled_from(sorted(ODD)), min_size=1, max_size=5), st.integers(0, 4), st.randoms())
def test_odd_attributes(names: list[str], held: int, random: Any) -> None:
    own = [fastpipe.ImageList(([f"{number}.jpg"], [0])) for number in range(held)]
    wraps = [
        lambda one: one,
        lambda one: [one],
        lambda one: {"one": (one,)},
        Slotted,
        lambda one: Node(one=one),
        lambda one: one.sample,
    ]
    values = [*(ODD[name]() for name in names), *(random.choice(wraps)(one) for one in own)]
    random.shuffle(values)
    dataset = Foreign({f"a{number}": value for number, value in enumerate(values)})
    dataset.itself = dataset  # type: ignore[attr-defined]
    for value in values:
        if type(value) is Node and random.random() < 0.5:
            value.back = dataset  # type: ignore[attr-defined]
    assert sorted(map(id, image_datasets(dataset))) == sorted(map(id, own))
    shares = split_samples(Subset(dataset, [0, 1]), 2)
    assert sorted((id(one), share) for one, share in shares) == sorted((id(one), 2.0) for one in own)
    for part in own:
        part.samples  # noqa: B018 - it is still one of fastpipe's
    theirs = torch.utils.data.DataLoader(dataset, 2)
    assert [batch.tolist() for batch in fastpipe.DataLoader(dataset, 2)] == [batch.tolist() for batch in theirs]


def test_shares_within_a_circle(folder: fastpipe.ImageFolder) -> None:
    first, second = Node(inner=folder), Node(inner=folder)
    first.other, second.other, second.again = second, first, folder
    assert split_samples(first, 8) == [(folder, 16.0)]
    assert split_samples(ConcatDataset([folder, folder]), 8) == [(folder, 8.0)]
