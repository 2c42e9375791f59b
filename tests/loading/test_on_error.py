"""``on_error`` through loaders: the same batches for any workers, what they say of their size, counts and warnings."""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

import bad_files
import pytest
import torch
from bad_files import BAD, COUNT, GOOD
from torch.utils.data import ConcatDataset, Subset, default_collate
from torch.utils.data import DataLoader as StockLoader

import fastpipe
from fastpipe import transforms as T
from fastpipe.datasets import BadFileCounts
from fastpipe.errors import BadFilesError, FastpipeWarning
from fastpipe.loading import samplers

FORK = sys.platform == "linux"
CROP = [T.RandomResizedCrop(16), T.RandomHorizontalFlip()]
PLANNED = T.Compose([*CROP, T.ToTensor(), T.Normalize([0.5], [0.2])])

pytestmark = [
    pytest.mark.filterwarnings("ignore::fastpipe.errors.FastpipeWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
]


def turn(image):
    return image.rotate(random.random() * 50)


FOREIGN = T.Compose([*CROP, T.Lambda(turn), T.ToTensor()])


@pytest.fixture
def make(spoiled_index: fastpipe.ImageIndex, bad_files_log: Path):
    def folder(transform=PLANNED, on_error="skip", **options):
        options = {"bad_files_log": bad_files_log, "max_bad_fraction": 1, "seed": 3, **options}
        return fastpipe.ImageFolder(spoiled_index.root, transform, index=spoiled_index, on_error=on_error, **options)

    return folder


def logged(bad_files_log: Path) -> list[int]:
    return sorted(int(row["index"]) for row in bad_files.logged(bad_files_log))


def decide(bad):
    """Every answer that a function may give."""
    return {1: None, 4: 2, 10: (torch.zeros(3, 16, 16), 1), 15: 16, 22: None, 28: 22}[bad.index]


POLICIES = {"skip": "skip", "replace": "replace", "function": decide}


def same(one, other) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return len(one) == len(other) and all(map(same, one, other))


@pytest.mark.slow
@pytest.mark.skipif(not FORK, reason="the other start methods are covered by one test: they start slowly")
@pytest.mark.parametrize(
    "transform", [PLANNED, FOREIGN, fastpipe.MultiView(PLANNED, 2)], ids=["planned", "foreign", "views"]
)
@pytest.mark.parametrize("policy", POLICIES)
def test_same_batches_for_any_workers_and_threads(make, bad_files_log, transform, policy):
    if policy == "function" and isinstance(transform, fastpipe.MultiView):
        pytest.skip("the function gives one view")

    def epoch(loader=fastpipe.DataLoader, **options):
        dataset = make(transform, POLICIES[policy])
        dataset.set_epoch(1)
        got = list(loader(dataset, batch_size=4, **options))
        return got, dataset.bad_files

    expected = epoch()
    assert len(expected[0]) == 8
    for options in ({"threads": 3}, {"num_workers": 1}, {"num_workers": 3}, {"num_workers": 2, "threads": 2}):
        got = epoch(**options)
        assert same(got[0], expected[0])
        assert got[1] == expected[1]
    for options in ({}, {"num_workers": 2}):
        assert same(epoch(StockLoader, **options)[0], expected[0])
    assert logged(bad_files_log) == list(BAD)


def test_skipped_samples_make_their_batches_smaller(make):
    sizes = [len(targets) for _, targets in fastpipe.DataLoader(make(), batch_size=8)]
    assert sizes == [6, 6, 7, 5]
    sizes = [len(targets) for _, targets in fastpipe.DataLoader(make(on_error="replace"), batch_size=8)]
    assert sizes == [8, 8, 8, 6]


@pytest.mark.parametrize("name", ["dtype", "device", "memory_format", "threads"])
def test_in_every_kind_of_output(make, name):
    values = {"dtype": torch.float16, "device": "cpu", "memory_format": torch.channels_last, "threads": 2}
    options = {name: values[name]}
    expected = torch.cat([images for images, _ in StockLoader(Subset(make(seed=3), GOOD), batch_size=5)])
    for images, other in zip(
        torch.cat([images for images, _ in fastpipe.DataLoader(make(), batch_size=5, **options)]), expected, strict=True
    ):
        assert (images.float() - other).abs().max() <= 0.01 * (options.get("dtype") is not None) + 1e-6


@pytest.mark.parametrize("workers", [0, 2] if FORK else [0])
class TestEmptyBatches:
    def test_are_not_handed_out(self, make, workers):
        for options in ({"batch_size": 1}, {"batch_size": None}, {"batch_size": 1, "device": "cpu"}):
            dataset = make()
            got = [int(target) for _, target in fastpipe.DataLoader(dataset, num_workers=workers, **options)]
            assert got == [dataset.targets[index] for index in GOOD]

    def test_with_own_collate_function(self, make, workers):
        def collate(samples):
            assert samples
            assert None not in samples
            return default_collate(samples)

        loader = fastpipe.DataLoader(make(), 1, num_workers=workers, collate_fn=collate)
        assert len(list(loader)) == len(GOOD)

    def test_a_resumed_epoch_knows_of_them(self, make, workers):
        def loader():
            dataset = make()
            return fastpipe.DataLoader(
                dataset, 1, sampler=samplers.DistributedSampler(dataset, 1, 0, shuffle=False), num_workers=workers
            )

        whole = list(loader())
        for stop in (1, 4, 10, len(GOOD)):
            first = loader()
            batches = iter(first)
            for _ in range(stop):
                next(batches)
            second = loader()
            second.load_state_dict(first.state_dict())
            assert same(list(second), whole[stop:])
        list(batches)
        assert first.state_dict()["sampler"]["position"] == COUNT


class TestAroundOtherDatasets:
    def test_subsets(self, make):
        for loader in (fastpipe.DataLoader, StockLoader):
            got = [len(targets) for _, targets in loader(Subset(make(), [0, 1, 2, 4, 5, 6]), batch_size=3)]
            assert got == [2, 2]

    def test_concatenations_ask_one_by_one(self, make):
        both = ConcatDataset([make(), make(on_error="replace")])
        got = [len(targets) for _, targets in fastpipe.DataLoader(both, batch_size=6)]
        assert sum(got) == len(GOOD) + COUNT
        assert got[-1] == 6
        with pytest.raises(TypeError, match="NoneType"):
            list(StockLoader(both, batch_size=6))
        filtered = StockLoader(both, batch_size=6, collate_fn=without_none)
        assert sum(len(targets) for _, targets in filtered) == len(GOOD) + COUNT

    def test_counts_of_all_parts(self, make):
        dataset = make()
        loader = fastpipe.DataLoader(ConcatDataset([dataset, make(on_error="replace"), dataset]), batch_size=6)
        list(loader)
        assert loader.bad_files == BadFileCounts(skipped=6, replaced=6, total=12)

    def test_what_a_concatenation_holds_besides_counts_each_epoch(self, make):
        class Paired(ConcatDataset):
            def __init__(self, datasets, other):
                super().__init__(datasets)
                self.other = other

            def __getitem__(self, index):
                return super().__getitem__(index), self.other[index]

        loader = fastpipe.DataLoader(Paired([make(on_error="replace")], make(on_error="replace")), batch_size=6)
        for _ in range(2):
            with pytest.warns(FastpipeWarning, match="6 of the 30 samples") as warned:
                list(loader)
            assert len(warned) == 2
            assert loader.bad_files == BadFileCounts(skipped=0, replaced=12, total=12)

    def test_own_collate_function_is_left_alone_where_nothing_is_skipped(self, make):
        assert fastpipe.DataLoader(make(on_error="raise"), collate_fn=without_none).collate_fn is without_none


def without_none(samples):
    return default_collate([sample for sample in samples if sample is not None])


def test_stock_loader_cannot_collate_nothing(make):
    with pytest.raises(BadFilesError, match=r"use fastpipe\.DataLoader"):
        list(StockLoader(make(), batch_size=1))


@pytest.mark.skipif(not FORK, reason="the other start methods are covered by one test: they start slowly")
class TestCounts:
    def test_each_epoch_and_one_warning_each(self, make):
        dataset = make()
        loader = fastpipe.DataLoader(dataset, 4, shuffle=True, num_workers=2)
        for epoch in range(3):
            loader.set_epoch(epoch)
            with pytest.warns(FastpipeWarning) as warned:
                seen = Counter(int(target) for _, targets in loader for target in targets)
            assert seen == Counter(dataset.targets[index] for index in GOOD)
            ours = [one for one in warned if one.category is FastpipeWarning]  # Python 3.12 warns of forks, too
            assert [str(warning.message) for warning in ours] == [
                "6 of the 30 samples of this epoch can't be read: 6 left out, so that batches are smaller."
                f" See {dataset.bad_files_log}."
            ]
            assert ours[0].filename == __file__
            assert loader.bad_files == BadFileCounts(skipped=6, replaced=0, total=6)
        loader.set_epoch(3)
        assert len(next(iter(loader))[1]) <= 4

    def test_an_epoch_that_was_broken_off_is_warned_about_when_the_next_begins(self, make):
        loader = fastpipe.DataLoader(make(on_error="replace"), 15)
        for _ in loader:
            break
        with pytest.warns(FastpipeWarning, match="3 of the 30 .*: 3 replaced by others"):
            iter(loader)

    def test_function(self, make):
        loader = fastpipe.DataLoader(make(on_error=decide), 4, num_workers=2)
        with pytest.warns(FastpipeWarning, match="3 left out, .* and 3 replaced"):
            list(loader)
        assert loader.bad_files == BadFileCounts(skipped=3, replaced=3, total=6)

    def test_a_good_epoch_says_nothing(self, make, recwarn):
        dataset = make()
        list(fastpipe.DataLoader(Subset(dataset, GOOD), 4, num_workers=1))
        assert not [warning for warning in recwarn if warning.category is FastpipeWarning]
        assert dataset.bad_files == BadFileCounts(0, 0, 0)

    def test_stock_loader_s_workers_count_as_well(self, make, bad_files_log):
        dataset = make()
        for workers in (1, 3):
            assert sum(len(targets) for _, targets in StockLoader(dataset, 4, num_workers=workers)) == len(GOOD)
            assert dataset.bad_files == BadFileCounts(skipped=6, replaced=0, total=6)
        assert logged(bad_files_log) == list(BAD)


@pytest.mark.slow
def test_spawned_workers_share_counts_and_log(make, bad_files_log):
    dataset = make(on_error="replace")
    loader = fastpipe.DataLoader(dataset, 4, num_workers=1, multiprocessing_context="spawn")
    assert sum(len(targets) for _, targets in loader) == COUNT
    assert loader.bad_files == BadFileCounts(skipped=0, replaced=6, total=6)
    assert logged(bad_files_log) == list(BAD)


class TestLimit:
    @pytest.mark.parametrize("workers", [0, 2] if FORK else [0])
    @pytest.mark.parametrize("loader", [fastpipe.DataLoader, StockLoader], ids=["fastpipe", "stock"])
    def test_stops_the_run(self, make, loader, workers):
        batches = loader(make(max_bad_fraction=0.19), batch_size=4, num_workers=workers)
        with pytest.raises(BadFilesError, match=r"6 of the 30 samples .*max_bad_fraction=0\.19 .*bad_files\.csv"):
            list(batches)
        list(loader(make(max_bad_fraction=0.2), batch_size=4, num_workers=workers))

    def test_is_of_the_samples_that_a_rank_asks_for(self, make):
        """Rank 1 of 3 has 10 samples, of which these are bad: 1, 4, 10, 22, 28."""
        for fraction, stops in ((0.4, True), (0.5, False)):
            dataset = make(max_bad_fraction=fraction)
            sampler = samplers.DistributedSampler(dataset, 3, 1, shuffle=False)
            loader = fastpipe.DataLoader(dataset, 2, sampler=sampler)
            if stops:
                with pytest.raises(BadFilesError, match="5 of the 10 samples"):
                    list(loader)
            else:
                assert sum(len(targets) for _, targets in loader) == 5

    def test_is_of_a_subset_s_and_of_a_part_s_samples(self, make):
        with pytest.raises(BadFilesError, match="2 of the 4 samples"):
            list(fastpipe.DataLoader(Subset(make(max_bad_fraction=0.3), [0, 1, 3, 4]), 2))
        part, other = make(max_bad_fraction=0.1), make(on_error="raise")
        with pytest.raises(BadFilesError, match="4 of the 30 samples"):
            list(fastpipe.DataLoader(ConcatDataset([part, Subset(other, GOOD)]), 2))

    def test_of_an_endless_sampler_is_the_data_set(self, make):
        dataset = make(max_bad_fraction=0.1)

        class Endless(torch.utils.data.Sampler):
            def __iter__(self):
                while True:
                    yield from range(COUNT)

        with pytest.raises(BadFilesError, match="4 of the 30 samples"):
            list(fastpipe.DataLoader(dataset, 2, sampler=Endless()))
