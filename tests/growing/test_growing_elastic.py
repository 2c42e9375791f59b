"""A growing set's state of one number of ranks, loaded on another, on the same machine and on one that has nothing."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from growing.growing_store import SIZE, Store, go_on, numbers
from loading.test_elastic import in_turns

import fastpipe
from fastpipe import samplers
from fastpipe import transforms as T
from fastpipe.errors import DatasetError, FastpipeWarning
from fastpipe.growing.dataset import GrowingDataset
from fastpipe.sources import Cache

QUICK = ((1, 2), (2, 3), (3, 1))
PAIRS = [
    pytest.param(*pair, marks=() if pair in QUICK else pytest.mark.slow)
    for pair in itertools.product((1, 2, 3), repeat=2)
]


@pytest.fixture
def make(here: None, store: Store, tmp_path: Path) -> Callable[..., GrowingDataset]:
    """Makes a growing set on a machine, which is a cache folder."""

    def make(machine: str, capacity: int = 1000, count: int | None = None, start: int = 8) -> GrowingDataset:
        cache = Cache(tmp_path / machine, capacity * SIZE)
        images = fastpipe.ImageFolder(store if count is None else Store(count), T.PILToTensor(), index=None)
        return GrowingDataset(images, cache, start=start, growth=1.5, seed=5)

    return make


def loaders(grown: GrowingDataset, ranks: int, batch_size: int, drop_last: bool = False) -> list[Any]:
    return [
        fastpipe.DataLoader(
            grown,
            batch_size,
            sampler=samplers.DistributedSampler(grown, ranks, rank, seed=1, drop_last=drop_last),
        )
        for rank in range(ranks)
    ]


def given(loader: Any, steps: int | None = None) -> list[int]:
    return [int(one) for images, _ in itertools.islice(iter(loader), steps) for one in images[:, 0, 0, 0]]


def at_epoch(grown: GrowingDataset, ranks: int, batch_size: int, epoch: int, **options: Any) -> list[Any]:
    found = loaders(grown, ranks, batch_size, **options)
    for one in found:
        one.set_epoch(epoch)
    return found


def saved_and_loaded(state: Any) -> Any:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("machine", ["the same", "another"])
@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_every_pair_of_ranks(make, before, after, machine):
    """Stopped at every batch of an epoch that isn't the first; the next one has more samples."""
    grown = make("the same")
    len(grown)
    go_on(grown, 1)
    whole = given(at_epoch(grown, 1, 4, epoch=1)[0])
    assert sorted(whole) == sorted(numbers(grown))
    go_on(grown, 1)
    following = given(at_epoch(grown, 1, 4, epoch=2)[0])
    assert len(following) > len(whole) > 8
    for stop in range(-(-len(whole) // (2 * before)) + 1):
        drop_last = stop % 2 == 1
        running = at_epoch(grown, before, 2, epoch=1, drop_last=drop_last)
        walks = [iter(one) for one in running]
        done = in_turns([given(walk, stop) for walk in walks])
        left = whole[2 * before * stop :]
        assert (done + left)[: len(whole)] == whole[: len(done) + len(left)]
        state = saved_and_loaded(samplers.merge_states([one.state_dict() for one in running]))
        there = make("the same" if machine == "the same" else f"another, {stop}")
        resumed = loaders(there, after, 3, drop_last=drop_last)
        for one in resumed:
            one.load_state_dict(state)
        count = len(left) // after * after if drop_last else -(-len(left) // after) * after
        assert in_turns([given(one) for one in resumed]) == (left + whole * 2)[:count]
        if machine == "the same":
            then = in_turns([given(one) for one in resumed])
            count = len(following) // after * after if drop_last else -(-len(following) // after) * after
            assert then == (following * 2)[:count]


def test_another_machine_fetches_what_the_epoch_had_and_goes_on(make):
    grown = make("one", capacity=24)
    for epoch in range(6):  # the first ones have left the cache
        whole = given(at_epoch(grown, 1, 4, epoch)[0])
        go_on(grown)
    window = grown._window(5)
    assert window.first > 0
    running = at_epoch(grown, 1, 4, epoch=5)[0]
    walk = iter(running)
    next(walk)
    there = make("another", capacity=24)
    resumed = loaders(there, 1, 4)[0]
    resumed.load_state_dict(saved_and_loaded(running.state_dict()))
    assert given(resumed) == whole[4:]
    assert there._window(5).first == window.first
    go_on(there)
    there.set_epoch(6)
    after = there._window(6)
    assert after.first >= window.first
    assert after.stop > window.stop  # it grows from there
    assert there.statistics().missing == 0


@pytest.mark.parametrize(("saved", "started"), [(8, 20), (20, 8)])
def test_an_epoch_that_has_begun_with_others_is_refused(make, saved, started):
    running = loaders(make("one", start=saved), 2, 2)
    whole = given(running[0]) + given(running[1])
    state = loaders(make("one", start=saved), 2, 2)[0].state_dict()
    other = make("another", start=started)
    resumed = loaders(other, 3, 2)
    assert len(other) == started  # decided, and nobody has asked for a sample
    for one in resumed:
        one.load_state_dict(state)
    assert len(other) == saved
    assert set(in_turns([given(one) for one in resumed])) == set(whole)

    begun = make("a third", start=started)
    loader = loaders(begun, 3, 2)[0]
    given(loader, 1)
    told = (
        rf"its epoch 0 has the samples .* 0 to {started - 1}, {started} of them, and had 0 to {saved - 1}, {saved} of"
    )
    with pytest.raises(DatasetError, match=told):
        loader.load_state_dict(state)
    with pytest.warns(FastpipeWarning, match="Samples may come twice in this epoch, or not at all"):
        loader.load_state_dict(state, allow_changes=True)
    assert len(given(loader)) == -(-started // 3)


def test_a_source_that_has_changed_is_refused(make):
    state = loaders(make("one"), 2, 2)[0].state_dict()
    with pytest.raises(DatasetError, match=r"it has 50 samples, and had 60.*allow_changes=True"):
        loaders(make("another", count=50), 2, 2)[0].load_state_dict(state)


def test_missing_samples_are_those_of_the_saved_epoch(make, store):
    broken = sorted(store.files)[3:6]
    for key in broken:
        store.broken[key] = FileNotFoundError(key)
    grown = make("one", start=40)
    whole = given(at_epoch(grown, 1, 4, 0)[0])
    assert grown._window(0).missing
    for key in broken:
        del store.broken[key]
    running = loaders(make("one", start=40), 2, 2)
    state = running[1].state_dict()
    resumed = loaders(make("another", start=40), 3, 2)
    for one in resumed:
        one.load_state_dict(saved_and_loaded(state))
    assert in_turns([given(one) for one in resumed])[: len(whole)] == whole
    assert np.unique(whole).size == len(whole)
