"""The loader around wrappers, and its epochs: torch's batches, and `set_epoch` reaches inside."""

from __future__ import annotations

import sys

import pytest
import torch
from torch.utils.data import ConcatDataset, StackDataset, Subset
from torch.utils.data import DataLoader as StockLoader

import fastpipe
from fastpipe import transforms as T
from fastpipe.errors import FastpipeWarning

FLOAT = [T.RandomResizedCrop((20, 31)), T.RandomHorizontalFlip(), T.ToTensor()]
NORMALISED = [*FLOAT, T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
FORK = sys.platform == "linux"


class Renamed(torch.utils.data.Dataset):
    """A wrapper as users write them."""

    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index]


class InBatches(Renamed):
    def __getitems__(self, indices):
        return [(image, target + 100) for image, target in self.images.__getitems__(indices)]


class Relabelled(fastpipe.ImageFolder):
    def __getitems__(self, indices):
        return [(image, target + 100) for image, target in super().__getitems__(indices)]


class Duck:
    """No torch Dataset, and it holds others in a dict."""

    def __init__(self, parts):
        self.parts = {"only": parts}

    def __len__(self):
        return len(self.parts["only"])

    def __getitem__(self, index):
        return self.parts["only"][index]


class Nested(Duck):
    def __init__(self, images):
        self.parts = {"only": images, "by split": [{"train": [images]}]}


class Slotted:
    __slots__ = ("images",)

    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index]


class Hidden(Duck):
    """Holds but a method."""

    def __init__(self, images):
        self.get, self.length = images.__getitem__, len(images)

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.get(index)


WRAPPERS = {
    "none": lambda dataset: dataset,
    "subset": lambda dataset: Subset(dataset, range(10)),
    "concatenation": lambda dataset: ConcatDataset([dataset, dataset]),
    "stack": lambda dataset: StackDataset(dataset, dataset),
    "named stack": lambda dataset: StackDataset(one=dataset, other=dataset),
    "renamed": Renamed,
    "in batches": InBatches,
    "subset of one in batches": lambda dataset: Subset(InBatches(dataset), range(9)),
    "duck": Duck,
}
FOUND = {"nested": Nested, "slots": Slotted, "a method": Hidden}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2] if FORK else [0])
@pytest.mark.parametrize("name", WRAPPERS)
def test_around_wrappers(root, name, workers):
    """The stock loader's batches; epochs are counted, and `set_epoch` reaches the dataset inside."""
    seeded = fastpipe.ImageFolder(root, T.Compose(NORMALISED), seed=3)
    loader = fastpipe.DataLoader(WRAPPERS[name](seeded), batch_size=4, num_workers=workers)
    reference = fastpipe.ImageFolder(root, T.Compose(NORMALISED), seed=3)
    stock = StockLoader(WRAPPERS[name](reference), batch_size=4)
    for epoch, chosen in ((0, False), (1, False), (7, True), (8, False), (8, True)):
        if chosen:
            loader.set_epoch(epoch)
        reference.set_epoch(epoch)
        ours, theirs = list(loader), list(stock)
        assert seeded.epoch == epoch
        assert len(ours) == len(theirs)
        assert all(same(one, other) for one, other in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("name", FOUND)
def test_set_epoch_reaches_what_a_wrapper_hides(root, name):
    seeded = fastpipe.ImageFolder(root, T.Compose(FLOAT), seed=3)
    loader = fastpipe.DataLoader(FOUND[name](seeded), batch_size=14, shuffle=True)
    loader.set_epoch(5)
    assert seeded.epoch == 5
    reference = fastpipe.DataLoader(seeded, batch_size=14, shuffle=True)
    reference.set_epoch(5)
    assert same(list(loader), list(reference))


def same(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return len(one) == len(other) and all(map(same, one, other))


def test_a_subclass_that_changes_whole_batches(root):
    dataset = Relabelled(root, T.Compose(FLOAT), seed=1)
    assert all((labels >= 100).all() for _, labels in fastpipe.DataLoader(dataset, batch_size=4))


class TestRanks:
    @pytest.fixture
    def group(self, monkeypatch):
        monkeypatch.setattr(torch.distributed, "is_available", lambda: True)
        monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda *group: 4)
        monkeypatch.setattr(torch.distributed, "get_rank", lambda *group: 0)

    @pytest.mark.parametrize("options", [{}, {"threads": 1}])
    def test_shuffling_all_in_each_rank_is_told_once(self, root, group, options):
        loader = fastpipe.DataLoader(fastpipe.ImageFolder(root, T.Compose(FLOAT)), 4, shuffle=True, **options)
        with pytest.raises(FastpipeWarning, match=r"each of 4 ranks goes.*DistributedSampler\(dataset\)"):
            iter(loader)
        loader = fastpipe.DataLoader(loader.dataset, 4, shuffle=True, **options)
        with pytest.warns(FastpipeWarning) as told:
            list(loader), list(loader)
        assert len(told) == 1

    def test_other_loaders_say_nothing(self, root, group, monkeypatch):
        data = fastpipe.ImageFolder(root, T.Compose(FLOAT))
        list(fastpipe.DataLoader(data, 4))
        list(fastpipe.DataLoader(data, 4, sampler=fastpipe.samplers.ShuffledSampler(data)))
        list(fastpipe.DataLoader(data, 4, sampler=fastpipe.samplers.DistributedSampler(data, 4, 1)))
        monkeypatch.setattr(torch.distributed, "get_rank", lambda *group: 1)
        list(fastpipe.DataLoader(data, 4, shuffle=True))
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda *group: 1)
        monkeypatch.setattr(torch.distributed, "get_rank", lambda *group: 0)
        list(fastpipe.DataLoader(data, 4, shuffle=True))


class TestEpochs:
    def loader(self, root, **options):
        dataset = fastpipe.ImageFolder(root, T.Compose(FLOAT), seed=3)
        return fastpipe.DataLoader(dataset, batch_size=14, **options)

    @pytest.mark.parametrize("workers", [0, 1] if FORK else [0])
    def test_differ_without_set_epoch(self, root, workers):
        loader = self.loader(root, shuffle=True, num_workers=workers)
        own = [next(iter(loader)) for _ in range(3)]
        assert [loader.dataset.epoch, loader.sampler.epoch] == [2, 2]
        for epoch, (images, labels) in enumerate(own):
            loader.set_epoch(epoch)
            (again, same_labels), *_ = loader
            assert torch.equal(images, again)
            assert torch.equal(labels, same_labels)
        assert len({images.numpy().tobytes() for images, _ in own}) == 3

    def test_go_on_from_the_one_that_was_chosen_anywhere(self, root):
        loader = self.loader(root, shuffle=True)
        epochs = []
        for choose in (None, None, loader.sampler, None, loader.dataset, None, loader, None):
            if choose is not None:
                choose.set_epoch(len(epochs) * 10)
            list(loader)
            assert loader.sampler.epoch == loader.dataset.epoch
            epochs.append(loader.dataset.epoch)
        assert epochs == [0, 1, 20, 21, 40, 41, 60, 61]

    def test_another_loader_meanwhile_changes_nothing(self, root):
        loader = self.loader(root, shuffle=True)
        other = fastpipe.DataLoader(Subset(loader.dataset, [0, 1, 2]), batch_size=2)
        for epoch in range(3):
            for _ in loader:
                for _ in range(3):
                    list(other)
                    assert loader.dataset.epoch == epoch
        list(other)
        list(loader)
        assert loader.dataset.epoch == 3

    def test_begin_where_the_dataset_is_in_a_new_loader(self, root):
        loader = self.loader(root, shuffle=True)
        loader.dataset.set_epoch(4)
        first = next(iter(loader))
        assert same([next(iter(fastpipe.DataLoader(loader.dataset, 14, shuffle=True)))], [first])
        assert loader.sampler.epoch == 4

    @pytest.mark.slow
    @pytest.mark.parametrize("wrap", [lambda dataset: dataset, Renamed])
    @pytest.mark.parametrize("workers", [0, 2] if FORK else [0])
    def test_the_stock_loader_s_second_round_is_told(self, root, wrap, workers):
        if wrap is Renamed and not workers:
            pytest.skip("asks for one sample after the other, in the main process, as anybody may")
        dataset = fastpipe.ImageFolder(root, T.Compose(FLOAT), seed=3)
        loader = StockLoader(wrap(dataset), batch_size=4, num_workers=workers)
        dataset[0], dataset[0]
        for epoch in range(2):
            dataset.set_epoch(epoch)
            list(loader)
        with pytest.raises(FastpipeWarning, match=r"epoch 1 has begun a second time.*fastpipe\.DataLoader"):
            list(loader)
        list(loader)  # it is told once

    def test_a_loader_made_anew_for_each_epoch_is_told_once(self, root):
        dataset = fastpipe.ImageFolder(root, T.Compose(FLOAT), seed=3)
        options = {"batch_size": 4, "shuffle": True, "threads": 1}
        for _ in fastpipe.DataLoader(dataset, **options):
            pass
        with pytest.raises(FastpipeWarning, match=r"epoch 0 begins a second time.*loader\.set_epoch\(epoch\)"):
            iter(fastpipe.DataLoader(dataset, **options))
        list(fastpipe.DataLoader(dataset, **options))

    def test_loaders_that_repeat_nothing_or_are_compared_raise_no_alarm(self, root):
        dataset = fastpipe.ImageFolder(root, T.Compose(FLOAT), seed=3)
        for epoch in (0, 0, 1, 1):  # chosen, though the same
            loader = fastpipe.DataLoader(dataset, 4, shuffle=True)
            loader.set_epoch(epoch)
            list(loader)
        for options in ({"batch_size": 3}, {"batch_size": 4, "threads": 1}, {"batch_size": 3}):  # of other settings
            list(fastpipe.DataLoader(dataset, shuffle=True, **options))
        for _ in range(2):  # an evaluation
            list(fastpipe.DataLoader(dataset, 5))
        for _ in range(2):  # one look at the data
            next(iter(fastpipe.DataLoader(dataset, 2, shuffle=True)))
        together = [fastpipe.DataLoader(dataset, 6, shuffle=True) for _ in range(2)]
        assert same(list(together[0]), list(together[1]))
        list(together[0])  # epoch 1, broken off in epoch 2
        next(iter(together[0]))
        del together
        list(fastpipe.DataLoader(dataset, 6, shuffle=True))
        for part in ([0, 1, 2], [3, 4, 5]):  # folds
            list(fastpipe.DataLoader(Subset(dataset, part), 1, shuffle=True))
