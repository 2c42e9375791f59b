"""Epochs and iterations side by side, by torch's defaults: torch's batches, and none takes anything from another."""

from __future__ import annotations

import functools
import itertools
import random
import sys

import pytest
import torch
import torchvision_here
from loading.batches import dataset, equal
from torch.utils.data import DataLoader as StockLoader
from torch.utils.data import Dataset

import fastpipe

FORK = sys.platform == "linux"
WAYS = [{}, {"threads": 2}]
if FORK:
    WAYS += [{"num_workers": 2}, {"num_workers": 2, "persistent_workers": True}]
way = pytest.mark.parametrize("options", WAYS, ids=["here", "threads", "workers", "workers that stay"][: len(WAYS)])


class Renamed(Dataset):
    """A wrapper that knows nothing of epochs."""

    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index]


def copied(batch):
    return [part.clone() for part in batch]


def three_epochs(loader):
    return [copied(batch) for _ in range(3) for batch in loader]


def zipped(loader):
    return [copied(batch) for pair in zip(loader, loader, strict=True) for batch in pair]


def nested(loader):
    found = []
    for outer in itertools.islice(loader, 3):
        found.append(copied(outer))
        found += [copied(inner) for inner in itertools.islice(loader, 2)]
    return found


def with_a_look(loader):
    """As somebody does who logs pictures in the middle of an epoch."""
    found = []
    for number, batch in enumerate(loader):
        found.append(copied(batch))
        if number == 1:
            found.append(copied(next(iter(loader))))
    return found + [copied(batch) for batch in loader]


def as_torch(options):
    """torch's own options for the same random numbers."""
    return {"num_workers": 1 if "threads" in options else options.get("num_workers", 0)}


def loop(loader_class, loop, data, options):
    torch.manual_seed(7)
    random.seed(7)
    return loop(loader_class(data, 3, shuffle=True, **options))


@pytest.mark.parametrize("how", [three_epochs, zipped, nested, with_a_look])
@way
def test_batches_are_torchs(root, options, how):
    """Those of torch's loader in the same loop, which starts new workers each time."""
    if not FORK and "threads" in options:
        pytest.skip("torch's worker starts slowly")
    if options.get("persistent_workers") and how is not zipped:
        pytest.skip("workers that stay draw on, as torch's")
    data = dataset(root)
    found = loop(fastpipe.DataLoader, how, data, options)
    expected = loop(StockLoader, how, data, as_torch(options))
    if options.get("persistent_workers"):
        assert len(found) == len(expected)
    else:
        assert equal(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("wrap", [lambda data: data, Renamed], ids=["dataset", "wrapper"])
@pytest.mark.filterwarnings("ignore:threads=.* is Python code")
@way
def test_each_iteration_of_a_seeded_set_has_an_epoch_of_its_own(root, options, wrap):
    def epoch(number):
        loader = fastpipe.DataLoader(wrap(dataset(root, seed=3)), 3, shuffle=True)
        loader.set_epoch(number)
        return [copied(batch) for batch in loader]

    expected = [epoch(number) for number in range(4)]
    loader = fastpipe.DataLoader(wrap(dataset(root, seed=3)), 3, shuffle=True, **options)
    pairs = [(copied(one), copied(other)) for one, other in zip(loader, loader, strict=True)]
    assert equal([one for one, _ in pairs], expected[0])
    assert equal([other for _, other in pairs], expected[1])
    outer = []
    for number, batch in enumerate(loader):
        outer.append(copied(batch))
        if number == 2:
            assert equal([next(iter(loader))], expected[3][:1])
    assert equal(outer, expected[2])


@pytest.mark.parametrize("seed", [None, 3])
@way
def test_a_look_in_between_leaves_the_state_alone(root, options, seed):
    def loader():
        return fastpipe.DataLoader(
            dataset(root, seed=seed), 3, shuffle=True, generator=torch.Generator().manual_seed(1), **options
        )

    running = loader()
    batches = iter(running)
    next(batches), next(batches)
    before = running.state_dict()
    next(iter(running))
    state = running.state_dict()
    assert state["sampler"]["position"] == 6
    assert state["sampler"]["epoch"] == before["sampler"]["epoch"] == 0
    rest = [copied(batch)[1] for batch in batches]
    assert running.state_dict()["sampler"]["finished"]
    resumed = loader()
    resumed.load_state_dict(state)
    assert [batch[1].tolist() for batch in resumed] == [labels.tolist() for labels in rest]


def mark(worker):
    torch.manual_seed(worker + 1)
    random.seed(worker + 1)


@pytest.mark.skipif(not FORK, reason="looks into forked workers")
class TestWorkerInit:
    def test_the_attribute_is_the_users(self, root):
        assert fastpipe.DataLoader(dataset(root), num_workers=1).worker_init_fn is None
        loader = fastpipe.DataLoader(dataset(root), num_workers=1, worker_init_fn=mark)
        assert loader.worker_init_fn is mark
        list(loader)
        assert loader.worker_init_fn is mark

    @pytest.mark.parametrize("options", [{"num_workers": 2}, {"threads": 2}], ids=["workers", "threads"])
    def test_one_that_is_assigned_works(self, root, options):
        def batches(loader_class, options):
            torch.manual_seed(7)
            loader = loader_class(dataset(root), 3, shuffle=True, **options)
            loader.worker_init_fn = mark
            return [copied(batch) for _ in range(2) for batch in loader]

        state = torch.get_rng_state()
        assert equal(batches(fastpipe.DataLoader, options), batches(StockLoader, as_torch(options)))
        torch.set_rng_state(state)

    @pytest.mark.slow
    @pytest.mark.parametrize("options", [{"num_workers": 2}, {"threads": 2}], ids=["workers", "threads"])
    def test_lightning_gives_each_rank_its_own_crops(self, root, options, monkeypatch):
        torchvision_here.module("transforms")  # which Lightning imports
        seed = pytest.importorskip("lightning.fabric.utilities.seed")
        connect = pytest.importorskip("lightning.fabric.utilities.data")
        monkeypatch.setenv("PL_SEED_WORKERS", "1")

        def batches(loader_class, options, rank):
            torch.manual_seed(0)
            random.seed(0)
            loader = loader_class(dataset(root), 3, shuffle=True, **options)
            connect._auto_add_worker_init_fn(loader, rank)
            assert isinstance(loader.worker_init_fn, functools.partial)
            assert loader.worker_init_fn.func is seed.pl_worker_init_function
            return [copied(batch) for _ in range(2) for batch in loader]

        ranks = [batches(fastpipe.DataLoader, options, rank) for rank in range(2)]
        for rank, found in enumerate(ranks):
            assert equal(found, batches(StockLoader, as_torch(options), rank))
        assert not any(torch.equal(one[0], other[0]) for one, other in zip(*ranks, strict=True))
