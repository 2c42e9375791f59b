"""The account of torch's own loaders: images, and the time that was waited for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import fastpipe
from fastpipe.hooks.ledger import LEDGER, Site
from fastpipe.hooks.torch import loader_times


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The time, in a list of one; data sets and trainings here let it pass."""
    now = [0.0]
    monkeypatch.setattr(loader_times.time, "perf_counter", lambda: now[0])
    LEDGER._sites.clear()
    with fastpipe.install(check=0):
        yield now
    LEDGER._sites.clear()


def loader_site() -> Site:
    (site,) = (site for site in LEDGER._sites.values() if site.kind == "loader")  # of this process
    return site


class Slow:
    """Ten samples; each takes two seconds."""

    def __init__(self, clock: list[float], sample: Any) -> None:
        self.clock, self.sample = clock, sample

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> Any:
        self.clock[0] += 2
        return self.sample


@pytest.mark.parametrize(
    "sample", [torch.zeros(3), (torch.zeros(3), 1), {"a": 1, "b": "c"}, [{"a": torch.zeros(())}], "a"]
)
def test_waiting_and_training_are_told_apart(clock: list[float], sample: Any) -> None:
    for _ in range(2):
        for _ in DataLoader(Slow(clock, sample), batch_size=4):
            clock[0] += 3
        clock[0] += 1000
    site = loader_site()
    assert site.name == "DataLoader(Slow)"
    assert (site.waited, site.images) == (40, 20)
    assert site.running == 40 + 2 * 2 * 3  # training behind the last batch of an epoch is nobody's to know


def test_time_between_two_epochs_of_one_iterator_is_no_part_of_them(clock: list[float]) -> None:
    loader = DataLoader(torch.arange(6), batch_size=3, num_workers=1, persistent_workers=True)
    for _ in range(2):
        for _ in loader:
            clock[0] += 3
        clock[0] += 1000
    assert loader_site().running == 6


def test_errors_and_iterators_stay_as_they_are(clock: list[float]) -> None:
    batches = iter(DataLoader(Slow(clock, object()), batch_size=5))
    with pytest.raises(TypeError, match="default_collate"):
        next(batches)
    iterator = iter(DataLoader(torch.arange(4), batch_size=4))
    assert iter(iterator) is iterator
    next(iterator)
    with pytest.raises(StopIteration):
        next(iterator)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("collate", [torch.nested.nested_tensor, lambda samples: (tuple(samples), (1,) * len(samples))])
def test_samples_are_counted(clock: list[float], collate: Any) -> None:
    for _ in DataLoader(Slow(clock, torch.zeros(3, 5, 4)), batch_size=4, collate_fn=collate):
        pass
    assert loader_site().images == 10
