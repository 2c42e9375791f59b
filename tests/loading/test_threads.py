"""Batches that are made ahead of time in this process: the same as one worker's, and nothing left behind."""

from __future__ import annotations

import gc
import os
import pickle
import random
import sys
import threading
import time
import traceback
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from loading.batches import STEPS, dataset, epochs, equal
from torch.utils.data import default_collate, default_convert

import fastpipe
from fastpipe import transforms as T
from fastpipe.datasets.wrappers import image_datasets
from fastpipe.errors import DatasetError, DecodeError, FastpipeWarning, LoaderError
from fastpipe.loading.threads import gil_bound_step


@pytest.fixture(scope="module")
def with_bad_files(root, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bad")
    for path in root.rglob("*.*"):
        place = folder / path.relative_to(root)
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(path.read_bytes())
    for number, name in enumerate(["class0/00.jpg", "class1/10.jpg"]):
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(b"no picture" if number else data[: len(data) // 2])
    return folder


def ours():
    return [thread for thread in threading.enumerate() if thread.name.startswith("fastpipe batches")]


def none_left():
    deadline = time.monotonic() + 300
    while ours() and time.monotonic() < deadline:
        time.sleep(0.01)
    return not ours()


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("seed", [None, 3])
def test_the_batches_of_one_worker(root, seed, shuffle):
    """With EXIF among the files; any number of workers where there is a seed."""
    data = dataset(root, seed=seed, apply_exif=True)
    expected = epochs(data, 3, num_workers=1, shuffle=shuffle)
    for threads in (1, 2, 5):
        before = torch.get_rng_state(), random.getstate()
        torch.manual_seed(7)
        next(iter(fastpipe.DataLoader(dataset(root, seed=seed), 3, num_workers=1, shuffle=shuffle)))
        found = epochs(dataset(root, seed=seed, apply_exif=True), 3, threads=threads, shuffle=shuffle)
        assert equal(found, expected)
        torch.set_rng_state(before[0])
        random.setstate(before[1])
    if seed is not None:
        for workers in (0, 2):
            assert equal(
                epochs(dataset(root, seed=3, apply_exif=True), 3, num_workers=workers, shuffle=shuffle), expected
            )
    assert none_left()


@pytest.mark.filterwarnings("ignore:.*can't be read")
@pytest.mark.parametrize("policy", ["skip", "replace"])
@pytest.mark.parametrize("seed", [None, 3])
def test_bad_files(with_bad_files, policy, seed):
    options = {"on_error": policy, "max_bad_fraction": 1.0, "seed": seed}
    expected = epochs(dataset(with_bad_files, **options), num_workers=1)
    counts = []
    for threads in (1, 2, 5):
        data = dataset(with_bad_files, **options)
        assert equal(epochs(data, threads=threads), expected)
        counts.append(data.bad_files)
    assert len(set(counts)) == 1
    assert counts[0].skipped + counts[0].replaced == 2


@pytest.mark.parametrize(
    "options", [{"device": "cpu"}, {"dtype": torch.bfloat16}, {"memory_format": torch.channels_last}]
)
def test_options(root, options):
    expected = epochs(dataset(root, seed=3), num_workers=0, **options)
    assert equal(epochs(dataset(root, seed=3), threads=2, **options), expected)
    assert equal(epochs(dataset(root, seed=3), threads="auto", **options), expected)


def test_the_global_generators_stay_where_they_are(root):
    """Whatever the training draws meanwhile, and however long it takes."""
    expected = epochs(dataset(root), threads=2)
    torch.manual_seed(7)
    found, draws = [], []
    loader = fastpipe.DataLoader(dataset(root), 3, shuffle=True, threads=2, generator=torch.Generator().manual_seed(1))
    state = torch.get_rng_state()
    again = fastpipe.DataLoader(dataset(root), 3, shuffle=True, threads=1, generator=torch.Generator().manual_seed(1))
    for one, other in zip(loader, again, strict=True):
        draws.append((float(torch.rand(1)), random.random()))
        assert equal([one], [other])
        found.append(one)
    torch.set_rng_state(state)
    assert [first for first, _ in draws] == [float(torch.rand(1)) for _ in draws]
    assert len(found) * 2 == len(expected)


@pytest.mark.parametrize("until", [1, 2])
@pytest.mark.parametrize("seed", [None, 3])
def test_a_loop_that_is_broken_off(root, seed, until):
    """Random numbers go on behind the last batch that was handed out, however many were made ahead."""
    found = [epochs(dataset(root, seed=seed), 4, until, threads=2, prefetch_factor=ahead) for ahead in (1, 2, 4)]
    assert equal(found[0], found[1])
    assert equal(found[0], found[2])
    assert none_left()
    if seed is not None:
        assert equal(found[0], epochs(dataset(root, seed=3), 4, until, num_workers=2))


def noise(image):
    level = random.random() + float(np.random.rand()) + float(torch.rand(1))
    return image.rotate(level * 60)


FOREIGN = T.Compose([T.RandomResizedCrop(16), T.Lambda(noise), T.RandomHorizontalFlip(), T.ToTensor()])


def noisy_target(target):
    return target + random.randrange(100)


def mixed(samples):
    images, targets = torch.utils.data.default_collate(samples)
    return images * torch.rand(1), targets


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda root, **o: (dataset(root, FOREIGN, **o), {}), "the transform Lambda"),
        (lambda root, **o: (dataset(root, target_transform=noisy_target, **o), {}), "target_transform noisy_target"),
        (lambda root, **o: (dataset(root, **o), {"collate_fn": mixed}), "the collate_fn"),
    ],
    ids=["transform", "target", "collate"],
)
def test_python_code_in_the_way(root, seed, make, what):
    """It works all the same, in the consumer's thread, with one worker's random numbers."""
    data, options = make(root, seed=seed)
    expected = epochs(data, num_workers=1, **options)
    for threads in (1, 3):
        data, options = make(root, seed=seed)
        state = torch.get_rng_state()
        with pytest.warns(FastpipeWarning, match=f"{what}.* is Python code"):
            found = epochs(data, threads=threads, **options)
        assert equal(found, expected)
        assert not ours()
        torch.set_rng_state(state)


def test_what_is_in_the_way(root):
    class Own(fastpipe.ImageFolder):
        def __getitem__(self, index):
            return super().__getitem__(index)

    data = dataset(root)
    both = torch.utils.data.ConcatDataset([data, torch.utils.data.Subset(data, [1, 2])])
    assert gil_bound_step(data) == gil_bound_step(both) == ""
    assert gil_bound_step(Own(root)) == "the dataset's own way to samples (Own)"
    assert gil_bound_step(dataset(root, target_transform={0: 1}.__getitem__)) == ""
    assert gil_bound_step(dataset(root, target_transform=random.random)) == "the target_transform random"
    assert gil_bound_step([1, 2]) == "the dataset (list)"
    assert gil_bound_step(dataset(root, loader=lambda path: None)) == "the dataset's loader"
    assert gil_bound_step(dataset(root, on_error=lambda bad: None)) == "the function on_error"
    assert equal(epochs(both, threads=2), epochs(both, num_workers=1))


@pytest.mark.parametrize("persistent_workers", [False, True])
def test_a_collate_function_set_between_epochs_holds(root, persistent_workers):
    loader = fastpipe.DataLoader(
        dataset(root, seed=3), 3, threads=2, persistent_workers=persistent_workers, collate_fn=default_collate
    )
    assert isinstance(next(iter(loader))[0], torch.Tensor)
    loader.collate_fn = default_convert
    assert [len(batch) for batch in loader] == [len(batch[0]) for batch in fastpipe.DataLoader(loader.dataset, 3)]
    loader.collate_fn = mixed
    with pytest.warns(FastpipeWarning, match="the collate_fn is Python code"):
        assert isinstance(next(iter(loader))[0], torch.Tensor)


def test_an_error_comes_with_its_traceback(with_bad_files):
    loader = fastpipe.DataLoader(dataset(with_bad_files), 3, threads=2)
    for _ in range(2):
        with pytest.raises(DecodeError) as caught:
            list(loader)
        assert "class0" in str(caught.value)
        assert "_made" in "".join(traceback.format_tb(caught.value.__traceback__))
        del caught
    assert none_left()


def test_threads_end_with_their_loader(root):
    class Endless(torch.utils.data.Sampler):
        def __iter__(self):
            while True:
                yield from range(14)

    loader = fastpipe.DataLoader(dataset(root), 3, sampler=Endless(), threads=2)
    batches = iter(loader)
    next(batches)
    assert len(ours()) == 1
    del batches
    assert none_left()
    batches = iter(loader)
    next(batches)
    del loader, batches
    gc.collect()
    assert none_left()


@pytest.mark.skipif(sys.platform != "linux", reason="counts the system's threads")
def test_the_cores_threads_end_with_a_loop_that_is_broken_off(root):
    def threads():
        return {*os.listdir("/proc/self/task")}

    loader = fastpipe.DataLoader(dataset(root), 3, shuffle=True, threads=2)
    next(iter(loader))  # torch may start some of its own
    assert none_left()
    before = threads()
    for _ in range(20):
        for _ in loader:
            break
    assert none_left()
    deadline = time.monotonic() + 60
    while threads() - before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not threads() - before


def test_two_loops_over_one_loader(root):
    expected = epochs(dataset(root, seed=3), 1, shuffle=False)
    loader = fastpipe.DataLoader(dataset(root, seed=3), 3, threads=2)
    assert equal([list(pair) for pair in zip(*([iter(loader)] * 1), strict=True) for pair in pair], expected)
    loader.set_epoch(0)
    outer = [[part.clone() for part in batch] for batch in loader for _ in range(1)]
    assert equal(outer, expected)
    first, second = iter(loader), iter(loader)
    assert len(list(first)) == len(list(second)) == len(expected)


class TestNoGap:
    def test_the_next_epoch_is_begun(self, root):
        loader = fastpipe.DataLoader(dataset(root, seed=3), 3, shuffle=True, threads=2)
        list(loader)
        assert len(loader._thread_iterator._ahead) == 3
        assert loader.dataset.epoch == 0, "the dataset's epoch is the user's"
        first = loader._thread_iterator._ahead[0]
        assert none_left()
        assert first.done
        batch = next(iter(loader))
        assert batch is first.result

    def test_another_epoch_is_right_all_the_same(self, root):
        expected = {}
        for epoch in (0, 1, 5):
            loader = fastpipe.DataLoader(dataset(root, seed=3), 3, shuffle=True)
            loader.set_epoch(epoch)
            expected[epoch] = [[part.clone() for part in batch] for batch in loader]
        loader = fastpipe.DataLoader(dataset(root, seed=3), 3, shuffle=True, threads=2)
        for epoch in (0, 1, 5, 0, 1, 1):
            loader.set_epoch(epoch)
            assert equal([[part.clone() for part in batch] for batch in loader], expected[epoch])

    @pytest.mark.parametrize("single", [False, True])
    @pytest.mark.parametrize("subset", [False, True])
    def test_torchs_wrappers_are_asked_for_the_next_epoch(self, root, subset, single):
        """Which they know nothing of: the epoch goes past them, and the dataset's own stays."""

        def wrapped():
            data = dataset(root, seed=3)
            parts = [data, torch.utils.data.Subset(data, np.array([5, 1, -2]))]
            both = torch.utils.data.ConcatDataset(parts)
            return torch.utils.data.Subset(both, [*range(-3, 14), 16]) if subset else both

        size = None if single else 3
        loader = fastpipe.DataLoader(wrapped(), size, shuffle=True, threads=2)
        (part,) = image_datasets(loader.dataset)
        expected = fastpipe.DataLoader(wrapped(), size, shuffle=True)
        for number in range(3):
            found = []
            for batch in loader:
                part.set_epoch(number + 100)
                found.append(map(torch.as_tensor, batch))
            assert equal([[*batch] for batch in found], [[*map(torch.as_tensor, batch)] for batch in expected])
            assert part.epoch == number + 100
            loader.set_epoch(number + 1)

    def test_another_transform_is_right_all_the_same(self, root):
        data = dataset(root, seed=3)
        loader = fastpipe.DataLoader(data, 3, shuffle=True, threads=2)
        list(loader)
        data.transform = T.Compose([T.CenterCrop(8), T.ToTensor()])
        assert {tuple(images.shape[1:]) for images, _ in loader} == {(3, 8, 8)}

    def test_without_a_seed_and_in_order(self, root):
        """Batches that were begun in vain have moved no random number."""
        expected = epochs(dataset(root), 3, num_workers=1, shuffle=False)
        torch.manual_seed(7)
        loader = fastpipe.DataLoader(dataset(root), 3, threads=2)
        found = [list(batch) for batch in loader]
        loader._thread_iterator._drop_ahead()
        found += [list(batch) for _ in range(2) for batch in loader]
        assert equal(found, expected)

    def test_resumed(self, root):
        expected = epochs(dataset(root, seed=3), 2)
        loader = fastpipe.DataLoader(dataset(root, seed=3), 3, shuffle=True, threads=2)
        list(loader)
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
        del batches
        loader.load_state_dict(state)
        assert equal([list(batch) for batch in loader], expected[len(expected) // 2 + 1 :])


def test_a_batch_that_is_held_never_changes(root):
    big = T.Compose([T.RandomResizedCrop(256), T.ToTensor()])  # memory of this size serves again
    expected = [[part.clone() for part in batch] for batch in fastpipe.DataLoader(dataset(root, big, seed=1), 3)]
    loader = fastpipe.DataLoader(dataset(root, big, seed=1), 3, threads=2)
    for held in (1, 3):
        last: list = []
        loader.set_epoch(0)
        for batch, right in zip(loader, expected, strict=True):
            last = [*last, (batch, right)][-held:]
            assert all(equal([list(one)], [other]) for one, other in last)


def test_an_interrupt_of_one_wait_spoils_nothing(root):
    answer = threading.Event()

    class Slow(fastpipe.ImageFolder):
        def sample(self, index):
            answer.wait(600)
            return super().sample(index)

    expected = epochs(dataset(root, seed=3), 1)
    loader = fastpipe.DataLoader(Slow(root, T.Compose(STEPS), seed=3), 3, shuffle=True, threads=2)
    batches, iterator = iter(loader), loader._thread_iterator
    with mock.patch.object(iterator._maker, "wait", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        next(batches)
    answer.set()
    assert equal([list(batch) for batch in iterator], expected)


def test_timeout(root):
    asked, answer = threading.Event(), threading.Event()

    class Slow(fastpipe.ImageFolder):
        def sample(self, index):
            if index == 4:
                asked.set()
                answer.wait(600)
            return super().sample(index)

    batches = iter(fastpipe.DataLoader(Slow(root, T.Compose(STEPS)), 3, threads=1, timeout=1))
    assert asked.wait(600)
    try:
        with pytest.raises(LoaderError, match=r"no batch for 1 s \(timeout=1\).*samples 3, 4, 5"):
            list(batches)
    finally:
        answer.set()


def test_how_many_are_made_ahead(root):
    """Three, or as many as are asked for: with two the threads have nothing to do while a batch is handed out."""
    for factor, expected in ((None, 3), (2, 2)):
        asked = []
        order = ([asked.append(index) or index] for index in range(14))
        loader = fastpipe.DataLoader(dataset(root), batch_sampler=order, threads=2, prefetch_factor=factor)
        iterator = iter(loader)
        assert len(asked) == expected
        next(iterator)
        assert len(asked) == expected + 1


def test_arguments(root):
    data = dataset(root)
    for threads in (-1, "many"):
        with pytest.raises(DatasetError, match=r"threads=.* or \"auto\", a whole number from 0"):
            fastpipe.DataLoader(data, threads=threads)
    assert fastpipe.DataLoader(data, threads="auto").threads >= 1
    assert fastpipe.DataLoader(data, threads=2, prefetch_factor=5).prefetch_factor == 5
    loader = fastpipe.DataLoader(data, 3, threads=2)
    list(loader)
    again = pickle.loads(pickle.dumps(loader))
    assert len(list(again)) == len(loader)


def test_pinned(root):
    """Decoded into pinned memory: said by whoever is asked for it, as there is no such device here."""
    asked = []
    real = torch.empty

    def empty(*size, pin_memory=False, **options):
        asked.append(pin_memory)
        return real(*size, **options)

    loader = fastpipe.DataLoader(dataset(root, seed=3), 3, threads=2, persistent_workers=True)
    iter(loader)
    maker = loader._thread_iterator._maker
    maker._options = replace(maker._options, pinned=True)
    with (
        mock.patch.object(torch, "empty", empty),
        mock.patch("fastpipe.loading.batch_maker.pin_memory.pin_memory", lambda batch: batch),
    ):
        assert len(list(loader)) == 5
    assert any(asked)
