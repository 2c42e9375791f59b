"""torch's wrappers of datasets are looked through where they pass samples on, and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import corpus
import pytest
import torch
from torch.utils.data import ConcatDataset, Dataset, Subset

import fastpipe
from fastpipe.datasets.wrappers import (
    behind_subsets,
    image_datasets,
    inner_datasets,
    is_transparent,
    locate,
    split_samples,
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
    assert behind_subsets(Subset(subset, [1])) == (folder, ())
    assert behind_subsets(Subset(Subset(folder, [4, 2, 0]), [2, 1]), [0, 1, 0]) == (folder, [0, 2, 0])


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
        assert behind_subsets(subset, [1], through=is_transparent) == ((folder, [1]) if expected else (subset, [1]))
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
    assert found == [(folder, len(folder)), (folder, 1)]
    assert [*image_datasets(both)] == [folder]
