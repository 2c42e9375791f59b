"""`samples`, `imgs` and `targets` on an index: as usable as torchvision's lists; assignments; pickles."""

from __future__ import annotations

import copy
import os
import pickle
import random
import shutil
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Subset, WeightedRandomSampler
from torchvision_here import torchvision

import fastpipe
from fastpipe import transforms as T
from fastpipe.datasets import ImageIndex
from fastpipe.errors import DatasetError


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    touch(root, *(f"{label}/{number}.jpg" for label in ("ants", "bees", "wasps") for number in range(7)))
    touch(root, "bees/deep/x.png", "wasps/y.png")
    return root


@pytest.fixture
def ours(root: Path) -> fastpipe.ImageFolder:
    return fastpipe.ImageFolder(root)


@pytest.fixture
def theirs(root: Path) -> torchvision.datasets.ImageFolder:
    return torchvision.datasets.ImageFolder(root)


class TestReading:
    @pytest.mark.parametrize("name", ["samples", "imgs", "targets"])
    def test_as_a_list(self, ours, theirs, name):
        view, known = getattr(ours, name), getattr(theirs, name)
        assert view == known
        assert known == view
        assert view != known[:-1]
        assert view != [*known[:-1], None]
        assert view != 3
        assert list(view) == known
        assert [*reversed(view)] == known[::-1]
        assert len(view) == len(known)
        for item in (0, 5, -1, -len(known), np.int64(3), torch.tensor(4)):
            assert view[item] == known[int(item)]
            assert type(view[item]) is type(known[int(item)])
        for part in (slice(2, 9), slice(None, None, -3), slice(-4, None), slice(50, 60)):
            assert view[part] == known[part]
            assert isinstance(view[part], list)
        for item in (len(known), -len(known) - 1):
            with pytest.raises(IndexError, match="out of range"):
                view[item]
        assert known[4] in view
        assert "nothing" not in view
        assert view.index(known[9]) == known.index(known[9])
        assert view.count(known[9]) == known.count(known[9])
        assert view + [1] == [*known, 1]  # noqa: RUF005
        assert [1] + view == [1, *known]  # noqa: RUF005
        assert view.copy() == known
        assert sorted(view, reverse=True) == sorted(known, reverse=True)
        assert random.Random(1).sample(view, 5) == random.Random(1).sample(known, 5)
        assert len(repr(view)) < 600
        with pytest.raises(TypeError, match="unhashable"):
            hash(view)

    def test_targets_as_an_array(self, ours, theirs):
        np.testing.assert_array_equal(np.array(ours.targets), np.array(theirs.targets))
        assert np.array(ours.targets).dtype == np.array(theirs.targets).dtype
        assert np.asarray(ours.targets, dtype=np.float32).dtype == np.float32
        assert torch.equal(torch.tensor(ours.targets), torch.tensor(theirs.targets))
        assert torch.tensor(ours.targets).dtype == torch.int64
        assert Counter(ours.targets) == Counter(theirs.targets)
        assert np.bincount(ours.targets).tolist() == np.bincount(theirs.targets).tolist()
        assert [t for t in ours.targets if t == 2] == [t for t in theirs.targets if t == 2]
        assert (np.array(ours.targets) == 1).sum() == 8
        assert type(ours.targets[0]) is int
        assert ours.targets.tolist() == theirs.targets
        assert set(ours.targets) == {0, 1, 2}
        ours.index.labels.sum()
        np.array(ours.targets)[:] = 9  # a copy: nothing happens to the index
        assert ours.targets == theirs.targets

    def test_in_what_torch_makes_of_them(self, ours, theirs):
        weights = [1 / Counter(ours.targets)[target] for target in ours.targets]
        assert len(list(WeightedRandomSampler(weights, 5))) == 5
        subset = Subset(ours, [i for i, (path, _) in enumerate(ours.samples) if path.endswith("png")])
        assert [ours.samples[i] for i in subset.indices] == [s for s in theirs.samples if s[0].endswith("png")]


class TestChanging:
    def test_assigned_samples_take_effect(self, ours, tmp_path):
        from PIL import Image

        Image.new("RGB", (4, 3)).save(tmp_path / "one.png")
        ours.samples = [(str(tmp_path / "one.png"), 7)]
        assert len(ours) == 1
        image, target = ours[0]
        assert (image.size, target) == ((4, 3), 7)
        again = pickle.loads(pickle.dumps(ours))
        assert again.samples == ours.samples
        assert again[0][1] == 7

    def test_kept_samples(self, ours, theirs):
        for dataset in (ours, theirs):
            dataset.samples = [sample for sample in dataset.samples if sample[1] != 1]
            dataset.imgs = dataset.samples
            dataset.targets = [target for _, target in dataset.samples]
        assert ours.samples == theirs.samples
        assert ours.targets == theirs.targets
        assert len(ours) == len(theirs)

    def test_in_place_is_refused_with_advice(self, ours):
        with pytest.raises(TypeError, match="Assign a list"):
            ours.samples[0] = ("x", 1)
        ours.samples += [("x", 1)]
        assert ours.samples[-1] == ("x", 1)
        assert ours.sample(len(ours) - 1) == ("x", 1)

    def test_changed_classes_survive_pickling(self, ours):
        ours.classes[0] = "emmets"
        assert pickle.loads(pickle.dumps(ours)).classes == ["emmets", "bees", "wasps"]
        assert pickle.loads(pickle.dumps(ours)).class_to_idx == {"ants": 0, "bees": 1, "wasps": 2}


class TestIndexArgument:
    def test_places(self, root, theirs, tmp_path):
        for index in ("auto", None, tmp_path / "place", ImageIndex.from_folder(root)):
            dataset = fastpipe.ImageFolder(str(root), index=index)
            assert dataset.samples == theirs.samples
            assert dataset.classes == theirs.classes
            assert dataset.class_to_idx == theirs.class_to_idx
            again = pickle.loads(pickle.dumps(dataset))
            assert again.samples == theirs.samples
            assert again.classes == theirs.classes
        assert len([*(tmp_path / "place").glob("*.index")]) == 1

    def test_another_folders_index(self, root, tmp_path):
        touch(tmp_path, "tree/a/1.jpg")
        with pytest.raises(DatasetError, match=r"ImageIndex\.from_folder"):
            fastpipe.ImageFolder(root, index=ImageIndex.from_folder(tmp_path / "tree"))

    def test_relative_roots_give_relative_paths(self, root, monkeypatch):
        monkeypatch.chdir(root.parent)
        for spelling in (root.name, f"./{root.name}", f"{root.name}/", Path(root.name)):
            dataset = fastpipe.ImageFolder(spelling)
            assert dataset.samples == torchvision.datasets.ImageFolder(spelling).samples

    def test_overrides_and_filters_make_lists(self, root):
        class Own(fastpipe.ImageFolder):
            @staticmethod
            def make_dataset(directory, class_to_idx, extensions=None, is_valid_file=None, allow_empty=False):
                return [("a", 1), ("b", 2)]

        class Some(fastpipe.ImageFolder):
            def find_classes(self, directory):
                return ["wasps"], {"wasps": 0}

        assert Own(root).samples == [("a", 1), ("b", 2)]
        assert Own(root).targets == [1, 2]
        assert len(Some(root)) == 8
        assert copy.copy(Some(root)).classes == ["wasps"]
        for dataset in (Own(root), Some(root), fastpipe.ImageFolder(root, is_valid_file=lambda p: p.endswith("g"))):
            assert dataset.index is None
            assert isinstance(dataset.samples, list)
            assert dataset.imgs is dataset.samples

    def test_the_folder_as_it_is_now(self, root, tmp_path):
        shutil.copytree(root, tmp_path / "tree")
        for change in ("new class/1.jpg", "ants/new.jpg", "bees/deep/deeper/0.jpeg"):
            fastpipe.ImageFolder(tmp_path / "tree")
            time.sleep(0.02)
            touch(tmp_path / "tree", change)
            ours = fastpipe.ImageFolder(tmp_path / "tree")
            theirs = torchvision.datasets.ImageFolder(tmp_path / "tree")
            assert ours.samples == theirs.samples
            assert ours.class_to_idx == theirs.class_to_idx

    def test_an_empty_class_is_told_from_the_kept_index_too(self, root, tmp_path):
        shutil.copytree(root, tmp_path / "tree")
        touch(tmp_path / "tree", "zero/notes.txt")
        for _ in range(2):
            with pytest.raises(FileNotFoundError, match=r"no valid file for the classes zero\."):
                fastpipe.ImageFolder(tmp_path / "tree")
        assert fastpipe.ImageFolder(tmp_path / "tree", allow_empty=True).classes[-1] == "zero"


def test_a_pickled_dataset_is_small_whatever_it_holds(tmp_path):
    touch(tmp_path, *(f"class number {label}/{number}.jpg" for label in range(60) for number in range(9)))
    transform = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize([0.5], [0.5])])
    dataset = fastpipe.ImageFolder(tmp_path, transform)
    data = pickle.dumps(dataset)
    location = dataset.index.location
    assert location is not None
    paths = len(str(tmp_path)) + len(str(location))  # which are as long as they happen to be
    assert len(data) - paths < 2048
    assert len(pickle.loads(data).samples) == 540


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"] if sys.platform != "win32" else ["spawn"])
def test_workers_read_the_mapped_paths(tmp_path, method):
    from PIL import Image

    for label in "ab":
        os.makedirs(tmp_path / label)
        for number in range(3):
            Image.new("RGB", (number + 1, 2)).save(tmp_path / label / f"{number}.png")
    dataset = fastpipe.ImageFolder(tmp_path, T.Compose([T.CenterCrop(2), T.ToTensor()]))
    loader = DataLoader(dataset, batch_size=2, num_workers=1, multiprocessing_context=method)
    assert torch.cat([targets for _, targets in loader]).tolist() == [0, 0, 0, 1, 1, 1]
