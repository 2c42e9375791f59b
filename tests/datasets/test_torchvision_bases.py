"""Datasets are torchvision's to whoever asks, and have what its objects have."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
import torchvision_here
from PIL import Image

import fastpipe
from fastpipe import transforms as T
from fastpipe.errors import DatasetError

theirs = torchvision_here.module("torchvision.datasets")
VisionDataset = theirs.VisionDataset


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("photos")
    images, annotations = [], []
    for number in range(4):
        folder = root / "train" / f"class{number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(corpus.jpeg(40, 50, seed=number))
        name = f"train/class{number % 2}/{number}.jpg"
        images.append({"id": 9 - number, "file_name": name, "height": 40, "width": 50})
        box = {"id": number + 1, "image_id": 9 - number, "bbox": [1.0, 2.0, 30.0, 4.5], "category_id": 1}
        if number != 2:
            annotations.append({**box, "area": 135.0, "iscrowd": 0, "segmentation": [[1, 2, 31, 2, 31, 6.5]]})
    about = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "one"}]}
    (root / "instances.json").write_text(json.dumps(about))
    voc = root / "VOCdevkit" / "VOC2012"
    for folder in ("ImageSets/Segmentation", "ImageSets/Main", "JPEGImages", "SegmentationClass", "Annotations"):
        (voc / folder).mkdir(parents=True)
    for lists in ("Main", "Segmentation"):
        (voc / "ImageSets" / lists / "train.txt").write_text("0\n")
    (voc / "JPEGImages/0.jpg").write_bytes(corpus.jpeg(40, 50))
    Image.fromarray(np.zeros((40, 50), np.uint8)).save(voc / "SegmentationClass/0.png")
    (voc / "Annotations/0.xml").write_text("<annotation><object><name>cat</name></object></annotation>")
    return root


class Own(fastpipe.ImageFolder):
    pass


def test_datasets_are_torchvisions(root: Path) -> None:
    listed = fastpipe.ImageList(([str(root / "train/class0/0.jpg")], [0]))
    for dataset in (listed, fastpipe.SampleDataset(lambda index: ("0.jpg", index), 1)):
        assert isinstance(dataset, VisionDataset)
    for name, made in {
        "ImageFolder": fastpipe.ImageFolder(root / "train"),
        "CocoDetection": fastpipe.CocoDetection(root, root / "instances.json"),
        "VOCDetection": fastpipe.VOCDetection(root),
        "VOCSegmentation": fastpipe.VOCSegmentation(root),
    }.items():
        for dataset in (made, copy.copy(made), pickle.loads(pickle.dumps(made))):
            assert isinstance(dataset, getattr(theirs, name))
            assert isinstance(dataset, VisionDataset)
            assert type(dataset) is getattr(fastpipe, name)
    assert isinstance(Own(root / "train"), theirs.ImageFolder)


def test_no_method_becomes_torchvisions(root: Path) -> None:
    for cls in (fastpipe.ImageFolder, fastpipe.ImageList, fastpipe.CocoDetection, fastpipe.VOCDetection):
        last = max(place for place, one in enumerate(cls.__mro__) if one.__module__.startswith("fastpipe."))
        first = min(place for place, one in enumerate(cls.__mro__) if one.__module__.startswith("torchvision."))
        assert last < first


def run(code: str, root: Path) -> None:
    """In a process of its own: classes stay as they are made."""
    tests = os.path.dirname(os.path.dirname(__file__))
    start = f"import sys\nsys.path.insert(0, {tests!r})\nroot = {str(root / 'train')!r}\n"
    done = subprocess.run([sys.executable, "-c", start + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_whatever_was_imported_first(root: Path) -> None:
    """torchvision after fastpipe, which doesn't import it."""
    run(
        """
import fastpipe
early = fastpipe.ImageFolder(root)
assert "torchvision" not in sys.modules
import torchvision_here
datasets = torchvision_here.module("torchvision.datasets")
dataset = fastpipe.ImageFolder(root)
assert isinstance(dataset, datasets.ImageFolder) and isinstance(early, datasets.VisionDataset)
assert len(early) == len(dataset) == 4 and early[3][1] == 1
""",
        root,
    )


@pytest.mark.slow
def test_a_class_that_derives_from_both_goes_on_working(root: Path) -> None:
    """torchvision's stands first in it, and can't stand behind ours as well."""
    run(
        """
import fastpipe, torchvision_here
datasets = torchvision_here.module("torchvision.datasets")
class Both(datasets.VisionDataset, fastpipe.ImageFolder):
    def __init__(self):
        fastpipe.ImageFolder.__init__(self, root)
assert isinstance(Both(), datasets.VisionDataset)
assert Both().samples == fastpipe.ImageFolder(root).samples
""",
        root,
    )


@pytest.mark.parametrize("valid", [None, lambda path: path.endswith("3.jpg")])
def test_attributes_of_a_folder(valid: Any, root: Path) -> None:
    options = {"transform": len, "target_transform": len, "is_valid_file": valid, "allow_empty": True}
    ours = fastpipe.ImageFolder(str(root / "train"), **options)
    expected = theirs.ImageFolder(str(root / "train"), **options)
    public = {name for name in dir(expected) if not name.startswith("_")}
    assert public <= set(dir(ours))
    for name in vars(expected):
        if name not in ("loader", "transforms", "extensions"):
            assert getattr(ours, name) == getattr(expected, name), name
    packed = expected.extensions and (*expected.extensions, ".fpj")  # which torchvision doesn't read
    assert ours.extensions == packed
    assert repr(ours.transforms) == repr(expected.transforms)
    assert ours.is_valid_file is valid
    sent = fastpipe.ImageFolder(root / "train", is_valid_file=valid, allow_empty=True)
    assert len(pickle.loads(pickle.dumps(sent))) == len(expected)


def test_torchvision_wraps_them(root: Path) -> None:
    ours, expected = (
        theirs.wrap_dataset_for_transforms_v2(made)
        for made in (
            fastpipe.CocoDetection(root, root / "instances.json"),
            theirs.CocoDetection(str(root), str(root / "instances.json")),
        )
    )
    for (image, target), (same, same_target) in zip(ours, expected, strict=True):
        assert np.array_equal(image, same)
        assert target.keys() == same_target.keys()
        assert all(torch.equal(target[key], same_target[key]) for key in ("boxes", "labels") if key in target)
    batch = fastpipe.DataLoader(ours, batch_size=4, collate_fn=fastpipe.collate_fn)
    assert [np.array_equal(image, expected[at][0]) for at, image in enumerate(next(iter(batch))[0])] == [True] * 4


class TestCoco:
    def test_has_pycocotools_object(self, root: Path) -> None:
        """As torchvision's reference scripts filter: the images that have boxes."""
        pytest.importorskip("pycocotools")
        ours = fastpipe.CocoDetection(root, root / "instances.json", T.ToTensor())
        expected = theirs.CocoDetection(str(root), str(root / "instances.json"))
        assert "coco" not in vars(ours)
        assert type(ours.coco) is type(expected.coco)
        assert ours.coco is ours.coco
        assert ours.coco.dataset == expected.coco.dataset
        for one in (ours, expected):
            found = [at for at, image in enumerate(one.ids) if one.coco.loadAnns(one.coco.getAnnIds(imgIds=image))]
            assert found == [0, 2, 3]
        assert len(pickle.dumps(ours)) < 2048
        assert ours._load_target(ours.ids[0]) == expected._load_target(expected.ids[0])

    def test_is_found_from_another_folder(self, root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        pytest.importorskip("pycocotools")
        monkeypatch.chdir(root)
        dataset = fastpipe.CocoDetection(".", "instances.json")
        monkeypatch.chdir(tmp_path)
        assert sorted(dataset.coco.imgs) == dataset.ids

    def test_needs_pycocotools(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pycocotools.coco", None)
        with pytest.raises(DatasetError, match="pip install pycocotools"):
            _ = fastpipe.CocoDetection(root, root / "instances.json").coco
