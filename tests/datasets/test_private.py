"""A dataset's own state is out of the way of subclasses and of the bases behind it."""

from __future__ import annotations

import copy
import gc
import io
import json
import pickle
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
from PIL import Image

import fastpipe
from fastpipe import transforms as T

COUNT = 3


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("photos")
    images, annotations = [], []
    for number in range(COUNT):
        folder = root / "train" / f"class{number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(corpus.jpeg(40, 50, seed=number))
        images.append({"id": number, "file_name": str(folder / f"{number}.jpg"), "height": 40, "width": 50})
        annotations.append({"id": number, "image_id": number, "bbox": [1, 2, 3, 4], "category_id": 1})
        arrays = root / "arrays" / f"class{number % 2}"
        arrays.mkdir(parents=True, exist_ok=True)
        np.save(arrays / f"{number}.npy", np.full((4, 5), number, np.float32))
    (root / "annotations.json").write_text(json.dumps({"images": images, "annotations": annotations}))
    voc = root / "VOCdevkit" / "VOC2012"
    for folder, name, content in (
        ("ImageSets/Segmentation", "train.txt", b"0\n"),
        ("JPEGImages", "0.jpg", corpus.jpeg(40, 50)),
        ("SegmentationClass", "0.png", _mask()),
    ):
        (voc / folder).mkdir(parents=True, exist_ok=True)
        (voc / folder / name).write_bytes(content)
    return root


def _mask() -> bytes:
    held = io.BytesIO()
    Image.fromarray(np.zeros((40, 50), np.uint8)).save(held, "PNG")
    return held.getvalue()


TRANSFORM = T.Compose([T.RandomCrop(20), T.ToTensor()])


def _of_number(index: int) -> tuple[str, int]:
    return f"{index}.jpg", index


DATASETS: dict[str, tuple[type[Any], Callable[[Path], tuple[tuple[Any, ...], dict[str, Any]]]]] = {
    "ImageFolder": (fastpipe.ImageFolder, lambda root: ((root / "train", TRANSFORM), {})),
    "ImageList": (
        fastpipe.ImageList,
        lambda root: ((([*map(str, sorted(root.glob("train/*/*.jpg")))], range(COUNT)), TRANSFORM), {}),
    ),
    "ArrayFolder": (fastpipe.ArrayFolder, lambda root: ((root / "arrays",), {"crop": 3})),
    "CocoDetection": (fastpipe.CocoDetection, lambda root: ((root, root / "annotations.json", TRANSFORM), {})),
    "VOCSegmentation": (fastpipe.VOCSegmentation, lambda root: ((root, "2012", "train"), {"transform": TRANSFORM})),
}
EACH = pytest.mark.parametrize("name", DATASETS)


def is_private_to_fastpipe(name: str) -> bool:
    return name.startswith("_fastpipe") or "__" in name.lstrip("_")  # `_Class__name` is Python's own


def made(name: str, root: Path, kind: type[Any] | None = None, **options: Any) -> Any:
    cls, arguments = DATASETS[name]
    args, own = arguments(root)
    return (kind or cls)(*args, **own, **options)


def sample_of(dataset: Any) -> Any:
    torch.manual_seed(0)
    return dataset[0]


@EACH
@pytest.mark.parametrize("seed", [None, 0])
def test_nothing_private_under_a_name_that_others_may_have(name: str, seed: int | None, root: Path) -> None:
    dataset = made(name, root, seed=seed, on_error="skip", threads=2)
    sample_of(dataset), dataset.__getitems__([0, 0])
    kept = {attribute for attribute in vars(dataset) if attribute.startswith("_")}
    for cls in type(dataset).__mro__:
        if cls.__module__.startswith("fastpipe."):
            kept |= {key for key in vars(cls) if key.startswith("_")}
    dunder = {attribute for attribute in kept if attribute.startswith("__") and attribute.endswith("__")}
    assert not [attribute for attribute in kept - dunder if not is_private_to_fastpipe(attribute)]


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@EACH
@pytest.mark.usefixtures("without_collector")
def test_it_is_gone_at_once_where_nobody_holds_it(name: str, root: Path) -> None:
    """With its shared memory and its threads: Python's collector may take hours to come."""
    dataset = made(name, root, seed=0, on_error="skip", threads=2)
    sample_of(dataset), dataset.__getitems__([0, 0]), dataset.bad_files
    gone = weakref.ref(dataset)
    del dataset
    assert gone() is None


@pytest.mark.usefixtures("without_collector")
def test_a_batch_of_items_holds_nothing(root: Path) -> None:
    files = [*map(str, sorted(root.glob("train/*/*.jpg")))]
    out = torch.empty(len(files), 3, 20, 20)
    fastpipe.load_batch(files, TRANSFORM, out=out)
    gone = weakref.ref(out)
    del out
    assert gone() is None


@EACH
@pytest.mark.parametrize("before", [False, True])
def test_a_subclass_has_attributes_of_its_own(name: str, before: bool, root: Path) -> None:
    """The names that today's or yesterday's state had, and those that data sets in the wild have."""
    names = (
        *("_epoch", "_record", "_pool", "_pipeline", "_members", "_generators", "_told_of_log", "_form", "_crop"),
        *("_given", "_base", "_folder", "_splits", "_ending", "_endings", "_available", "_default", "_joint"),
        *("_transforms", "_index", "_length", "_cache", "_state", "_seed", "_rng", "_lock", "_data", "_root"),
    )

    class Own(DATASETS[name][0]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            if before:
                self._name_all()
            super().__init__(*arguments, **options)
            self._name_all()

        def _name_all(self) -> None:
            for number, attribute in enumerate(names):
                setattr(self, attribute, number)

    expected, dataset = made(name, root), made(name, root, Own)
    for one in (dataset, copy.copy(dataset), copy.deepcopy(dataset)):
        first, other = sample_of(one), sample_of(expected)
        assert torch.equal(first[0], other[0])
        assert len(one.__getitems__([0, 0])) == 2
        one.set_epoch(4)
        assert [getattr(one, attribute) for attribute in names] == [*range(len(names))]
    seeded = made(name, root, Own, seed=0)
    seeded.set_epoch(4)
    assert seeded.epoch == 4
    assert seeded._epoch == 0
    assert torch.equal(seeded[0][0], _at_epoch(made(name, root, seed=0), 4))


def _at_epoch(dataset: Any, epoch: int) -> Any:
    dataset.set_epoch(epoch)
    return dataset[0][0]


class Counting(torch.utils.data.Dataset[Any]):
    """A base as RT-DETR's, which tells its transforms the epoch."""

    def set_epoch(self, epoch: int) -> None:
        self._epoch = epoch

    @property
    def epoch(self) -> int:
        return self._epoch if hasattr(self, "_epoch") else -1


class Detection(fastpipe.CocoDetection, Counting):
    pass


@pytest.mark.parametrize("seed", [None, 0])
def test_set_epoch_reaches_the_base_behind(seed: int | None, root: Path) -> None:
    dataset = Detection(root, root / "annotations.json", TRANSFORM, seed=seed)
    assert dataset.epoch == (-1 if seed is None else 0)
    dataset.set_epoch(3)
    assert dataset.epoch == 3
    assert Counting.epoch.fget(dataset) == 3
    fastpipe.DataLoader(dataset, collate_fn=list).set_epoch(5)
    assert dataset.epoch == 5
    assert dataset._epoch == 5


def test_copies_share_the_epoch_and_nothing_else(root: Path) -> None:
    dataset = made("ImageFolder", root, seed=0)
    shared, apart = copy.copy(dataset), pickle.loads(pickle.dumps(dataset))
    dataset.set_epoch(2)
    assert (shared.epoch, apart.epoch) == (2, 0)
    shared.transform = None
    assert shared.pipeline is not dataset.pipeline
    assert torch.equal(dataset[0][0], _at_epoch(made("ImageFolder", root, seed=0), 2))


def test_without_a_seed_set_epoch_changes_no_sample(root: Path) -> None:
    dataset = made("ImageFolder", root)
    before = sample_of(dataset)[0]
    dataset.set_epoch(1)
    assert dataset.epoch == 0
    assert torch.equal(sample_of(dataset)[0], before)


def test_attributes_of_the_user_s_own_keep_the_executor(tmp_path: Path) -> None:
    class Noting(fastpipe.ImageFolder):
        def __getitem__(self, index: int) -> Any:
            self.last, self.samples_seen = index, getattr(self, "samples_seen", 0) + 1
            return super().__getitem__(index)

    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "0.jpg").write_bytes(corpus.jpeg(30, 40))
    dataset = Noting(tmp_path, T.ToTensor())
    executor = dataset.executor
    for _ in range(3):
        dataset[0]
    assert dataset.executor is executor
    assert dataset.samples_seen == 3
    for name, value in {"threads": 1, "max_pixels": 10**6, "apply_exif": True, "transform": T.CenterCrop(8)}.items():
        setattr(dataset, name, value)
        assert dataset.executor is not executor
        executor = dataset.executor
    assert dataset[0][0].size == (8, 8)
