"""``seed=``: a sample is the same wherever it is made; recipes and their replay."""

from __future__ import annotations

import copy
import pickle
import random
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, DataLoader, Subset

import fastpipe
from fastpipe import transforms as T
from fastpipe.errors import DatasetError, PlanError
from fastpipe.executor import BatchSpec, SharedEpoch, in_epochs
from fastpipe.loading.fetcher import BatchFetcher
from fastpipe.types import Generators, ImageShape, Recipe

METHODS = ["fork", "spawn"] if sys.platform != "win32" else ["spawn"]


def planned():
    return T.Compose([T.RandomResizedCrop(24), T.RandomHorizontalFlip(), T.ToTensor()])


def noise(image):
    """A foreign transform that draws from all three global generators."""
    level = random.random() + float(np.random.rand()) + float(torch.rand(1))
    return image.rotate(level * 60)


def foreign():
    return T.Compose([T.RandomResizedCrop(24), T.Lambda(noise), T.RandomHorizontalFlip(), T.ToTensor()])


def noisy_target(target):
    return target + random.random()


def equal(one, other):
    return len(one) == len(other) and all(
        torch.equal(a[0], b[0]) and torch.equal(torch.as_tensor(a[1]), torch.as_tensor(b[1]))
        for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("transform", [planned, foreign])
def test_sample_depends_on_seed_epoch_and_index_alone(root, transform):
    dataset = fastpipe.ImageFolder(root, transform(), noisy_target, seed=5)
    state = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()
    first = [dataset[i] for i in range(len(dataset))]
    assert torch.equal(state[0], torch.get_rng_state())
    assert state[1] == random.getstate()
    assert (state[2] == np.random.get_state()[1]).all()
    torch.manual_seed(77)
    assert equal([dataset[i] for i in reversed(range(len(dataset)))][::-1], first)
    assert equal([dataset[-1]], first[-1:])
    dataset.set_epoch(1)
    assert not any(equal([dataset[i]], [first[i]]) for i in range(len(dataset)))
    dataset.set_epoch(0)
    assert equal(list(dataset), first)
    other = fastpipe.ImageFolder(root, transform(), noisy_target, seed=6)
    assert not any(equal([other[i]], [first[i]]) for i in range(len(dataset)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("transform", [planned, foreign])
def test_same_for_any_number_of_workers(root, method, transform):
    if method == "spawn" and transform is planned:
        pytest.skip("slow to start, and the foreign pipeline has the planned part too")

    def batches(workers):
        dataset = fastpipe.ImageFolder(root, transform(), noisy_target, seed=5)
        options = {"num_workers": workers, "multiprocessing_context": method} if workers else {}
        return list(DataLoader(dataset, batch_size=3, **options))

    expected = batches(0)
    for workers in (1, 2, 4) if method == "fork" else (2,):
        assert equal(batches(workers), expected)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_epoch_reaches_persistent_workers(root, method):
    dataset = fastpipe.ImageFolder(root, planned(), seed=5)
    loader = DataLoader(dataset, batch_size=4, num_workers=1, persistent_workers=True, multiprocessing_context=method)
    for epoch in (0, 3, 1, 0):
        dataset.set_epoch(epoch)
        assert dataset.epoch == epoch
        alone = fastpipe.ImageFolder(root, planned(), seed=5)
        alone.set_epoch(epoch)
        assert equal(list(loader), list(DataLoader(alone, batch_size=4)))


def test_an_epoch_may_be_asked_for(root):
    """By a loader that works ahead: the samples are that epoch's in its thread; in others, the epoch stays."""
    dataset, there = (fastpipe.ImageFolder(root, planned(), seed=5) for _ in range(2))
    there.set_epoch(3)
    subset, options, epochs = Subset(dataset, [4, 1, -1]), BatchSpec(as_list=True), {dataset._fastpipe.epoch: 3}
    for _ in range(2):  # no warning of an epoch that is repeated
        with in_epochs(epochs), ThreadPoolExecutor(1) as other:
            assert equal(dataset.batch([4, 1, -1], options), [there[4], there[1], there[-1]])
            assert dataset.epoch == 3
            assert other.submit(lambda: dataset.epoch).result() == 0
        assert equal(BatchFetcher(subset, options, epochs).__getitems__(range(3)), [there[4], there[1], there[-1]])
        both = BatchFetcher(ConcatDataset([subset, dataset]), options, epochs)
        assert equal([both[1], both[3], both[-1]], [there[1], there[0], there[-1]])
        with pytest.raises(IndexError):
            both[3 + len(dataset)]
    assert dataset.epoch == 0
    assert equal([dataset[4]], [fastpipe.ImageFolder(root, planned(), seed=5)[4]])


def test_copies_keep_the_epoch_and_deep_ones_have_their_own(root):
    dataset = fastpipe.ImageFolder(root, planned(), seed=5)
    dataset.set_epoch(7)
    for other in (pickle.loads(pickle.dumps(dataset)), copy.deepcopy(dataset)):
        assert other.epoch == 7
        assert equal(list(other), list(dataset))
        other.set_epoch(8)
        assert dataset.epoch == 7
    shared = SharedEpoch(3)
    assert copy.copy(shared).get() == 3


def test_without_a_seed_there_are_no_epochs(root):
    dataset = fastpipe.ImageFolder(root, planned())
    assert dataset.epoch == 0
    dataset.set_epoch(1)
    assert dataset.epoch == 0
    with pytest.raises(DatasetError, match="seed"):
        dataset.recipe(0, 1)


class TestRecipe:
    def test_of_a_seed_is_what_is_done(self, root):
        dataset = fastpipe.ImageFolder(root, planned(), seed=2)
        whole = fastpipe.ImageFolder(root)
        for index in range(len(dataset)):
            for epoch in (None, 4):
                recipe = dataset.recipe(index, epoch)
                dataset.set_epoch(epoch or 0)
                image = whole[index][0]
                for step in recipe:
                    image = step.apply(image)
                assert (image - dataset[index][0]).abs().max() <= 1.01 / 255
                dataset.set_epoch(0)
        assert dataset.recipe(0, 0) == dataset.recipe(0)
        assert dataset.recipe(0, 1) != dataset.recipe(0)
        assert "crop(" in str(dataset.recipe(0))

    def test_moves_no_generator_but_the_given_one(self, root):
        for seed in (None, 1):
            dataset = fastpipe.ImageFolder(root, planned(), seed=seed)
            state = torch.get_rng_state()
            recipe = dataset.recipe(3)
            assert dataset.recipe(3) == recipe
            assert torch.equal(torch.get_rng_state(), state)
            given = Generators(torch.Generator().manual_seed(1), random.Random(1))
            assert dataset.recipe(3, generators=given) != dataset.recipe(3, generators=given)

    @pytest.mark.parametrize("seed", [None, 9])
    def test_replay_makes_the_same_sample(self, root, seed):
        dataset = fastpipe.ImageFolder(root, planned(), seed=seed)
        for index in range(len(dataset)):
            recipe = pickle.loads(pickle.dumps(dataset.recipe(index)))
            sample = dataset[index]
            torch.rand(9)
            if seed is not None:
                dataset.set_epoch(index + 1)
            assert equal([dataset.replay(recipe)], [sample])
            assert equal([dataset.replay(recipe, index)], [sample])
            if seed is not None:
                dataset.set_epoch(0)

    def test_replay_repeats_foreign_transforms_of_a_seed(self, root):
        dataset = fastpipe.ImageFolder(root, foreign(), noisy_target, seed=9)
        recipe, sample = dataset.recipe(5, 3), dataset[5]
        assert not equal([dataset.replay(recipe)], [sample])
        dataset.set_epoch(3)
        sample = dataset[5]
        dataset.set_epoch(11)
        assert equal([dataset.replay(recipe)], [sample])

    def test_what_cannot_be_replayed_says_why(self, root):
        dataset = fastpipe.ImageFolder(root, planned())
        with pytest.raises(PlanError, match="give replay the index"):
            dataset.replay(Recipe(ImageShape(60, 90), ()))
        with pytest.raises(PlanError, match="another one"):
            dataset.replay(dataset.recipe(0), 1)
        own = fastpipe.ImageFolder(root, planned(), loader=Image.open)
        with pytest.raises(PlanError, match="loader of its own"):
            own.replay(dataset.recipe(0))


def test_a_seed_that_is_set_later_counts_epochs(root):
    late, given = (fastpipe.ImageFolder(root, planned(), seed=seed) for seed in (None, 5))
    late.seed = 5
    first = [late[index] for index in range(3)]
    for dataset in (late, given):
        dataset.set_epoch(2)
    assert late.epoch == 2
    assert equal([late[index] for index in range(3)], [given[index] for index in range(3)])
    assert not equal(first, [given[index] for index in range(3)])
    late.seed = None
    torch.manual_seed(0)
    assert not equal([late[0]], [late[0]])
