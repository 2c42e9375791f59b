"""torchvision's data sets as they lie on a disk, small."""

from __future__ import annotations

import itertools
import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
import torchvision_here
from PIL import Image

import fastpipe
from fastpipe.hooks.ledger import LEDGER

datasets = torchvision_here.torchvision.datasets
MODULES = ("celeba", "cifar", "flowers102", "imagenet", "stl10", "svhn")


@pytest.fixture
def fresh_account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty account of what the hooks do, which are uninstalled afterwards."""
    monkeypatch.setattr(LEDGER, "_folder", None)  # of accounts of child processes
    LEDGER._sites.clear()
    LEDGER.notes.clear()
    yield
    fastpipe.uninstall()


def savemat(file: Path, values: dict[str, Any]) -> None:
    """Writes a file of MATLAB's, or skips the test."""
    pytest.importorskip("scipy.io", reason="SciPy isn't installed").savemat(file, values)


def photo(path: Path, seed: int, height: int = 60, width: int = 83, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(corpus.jpeg(height + 3 * seed, width - 2 * seed, seed=seed, **options))


def folder(root: Path) -> Path:
    """Three classes, files of three formats among them."""
    for label, name in enumerate(("bird", "cat", "dog")):
        for number in range(2):
            photo(root / name / f"{number}.jpg", 2 * label + number)
    Image.fromarray(corpus.photo(41, 50, seed=9)).save(root / "cat" / "9.png")
    Image.fromarray(corpus.photo(1, 37, seed=8)).convert("L").save(root / "dog" / "gray.png")
    return root


def cifar(root: Path, kind: Any) -> Path:
    rng = np.random.default_rng(0)
    key = "labels" if kind is datasets.CIFAR10 else "fine_labels"
    base = root / kind.base_folder
    base.mkdir(parents=True)
    for name, _ in kind.train_list + kind.test_list:
        batch = {"data": rng.integers(0, 256, (5, 3072), np.uint8), key: rng.integers(0, 3, 5).tolist()}
        (base / name).write_bytes(pickle.dumps(batch))
    (base / kind.meta["filename"]).write_bytes(pickle.dumps({kind.meta["key"]: ["a", "b", "c"]}))
    return root


def idx(path: Path, array: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    types = {"uint8": 8, "int32": 12}
    head = bytes([0, 0, types[str(array.dtype)], array.ndim])
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    path.write_bytes(head + sizes + array.astype(array.dtype.newbyteorder(">")).tobytes())


def mnist(root: Path, kind: Any, *prefixes: str) -> Path:
    rng = np.random.default_rng(1)
    raw = root / kind.__name__ / "raw"
    for prefix in prefixes:
        idx(raw / f"{prefix}-images-idx3-ubyte", rng.integers(0, 256, (7, 28, 28)).astype(np.uint8))
        idx(raw / f"{prefix}-labels-idx1-ubyte", rng.integers(0, 10, 7).astype(np.uint8))
    return root


def qmnist(root: Path) -> Path:
    rng = np.random.default_rng(1)
    raw = root / "QMNIST" / "raw"
    idx(raw / "qmnist-train-images-idx3-ubyte", rng.integers(0, 256, (7, 28, 28)).astype(np.uint8))
    idx(raw / "qmnist-train-labels-idx2-int", rng.integers(0, 10, (7, 8)).astype(np.int32))
    return root


def svhn(root: Path) -> Path:
    rng = np.random.default_rng(2)
    images = rng.integers(0, 256, (32, 32, 3, 6)).astype(np.uint8)
    savemat(root / "train_32x32.mat", {"X": images, "y": np.array([[1], [10], [3], [4], [5], [6]], np.uint8)})
    return root


def stl10(root: Path) -> Path:
    rng = np.random.default_rng(3)
    base = root / "stl10_binary"
    base.mkdir()
    for name in ("train", "test", "unlabeled"):
        rng.integers(0, 256, (4, 3, 96, 96)).astype(np.uint8).tofile(base / f"{name}_X.bin")
        rng.integers(1, 11, 4).astype(np.uint8).tofile(base / f"{name}_y.bin")
    (base / "class_names.txt").write_text("airplane\nbird\n")
    return root


def voc(root: Path) -> Path:
    base = root / "VOCdevkit" / "VOC2012"
    for part in ("Main", "Segmentation"):
        (base / "ImageSets" / part).mkdir(parents=True)
        (base / "ImageSets" / part / "train.txt").write_text("a\nb\n")
    (base / "Annotations").mkdir()
    (base / "SegmentationClass").mkdir()
    for number, name in enumerate("ab"):
        photo(base / "JPEGImages" / f"{name}.jpg", number)
        with Image.open(base / "JPEGImages" / f"{name}.jpg") as image:
            width, height = image.size
        mask = Image.fromarray((np.arange(width * height) % 21).astype(np.uint8).reshape(height, width)).convert("P")
        mask.save(base / "SegmentationClass" / f"{name}.png")
        box = "<bndbox><xmin>3</xmin><ymin>4</ymin><xmax>30</xmax><ymax>41</ymax></bndbox>"
        (base / "Annotations" / f"{name}.xml").write_text(
            f"<annotation><filename>{name}.jpg</filename><object><name>dog</name>{box}</object></annotation>"
        )
    return root


def coco(root: Path) -> Path:
    for number in range(3):
        photo(root / f"{number}.jpg", number)
    boxes = [[3, 4, 20, 30], [1.5, 2.0, 9.25, 7.0]]
    parts = [{"segmentation": [[3, 4, 23, 4, 23, 34]], "area": 300.0, "iscrowd": 0, "category_id": 2}] * 2
    annotations = [
        {"id": n, "image_id": 7, "bbox": box, **part} for n, (box, part) in enumerate(zip(boxes, parts, strict=True))
    ]
    annotations.append({"id": 5, "image_id": 5, "bbox": [1, 2, 3, 4], **parts[0]})
    images = [{"id": 7 - number, "file_name": f"{number}.jpg"} for number in range(3)]
    content = {"images": images, "annotations": annotations, "categories": [{"id": 2, "name": "dog"}]}
    (root / "annotations.json").write_text(json.dumps(content))
    return root


def pets(root: Path) -> Path:
    base = root / "oxford-iiit-pet"
    lines = []
    for number, name in enumerate(("Abyssinian_1", "beagle_2", "beagle_7")):
        photo(base / "images" / f"{name}.jpg", number)
        lines.append(f"{name} {1 + (number > 0)} {1 + (number > 0)} 1")
        with Image.open(base / "images" / f"{name}.jpg") as image:
            trimap = (np.arange(image.width * image.height) % 3 + 1).astype(np.uint8).reshape(image.height, image.width)
        (base / "annotations" / "trimaps").mkdir(parents=True, exist_ok=True)
        Image.fromarray(trimap).save(base / "annotations" / "trimaps" / f"{name}.png")
    (base / "annotations" / "trainval.txt").write_text("\n".join(lines) + "\n")
    return root


def flowers(root: Path) -> Path:
    base = root / "flowers-102"
    for number in range(1, 5):
        photo(base / "jpg" / f"image_{number:05d}.jpg", number)
    savemat(base / "imagelabels.mat", {"labels": np.array([3, 1, 2, 1])})
    savemat(base / "setid.mat", {"trnid": np.array([1, 4, 2]), "valid": [3], "tstid": [3]})
    return root


def food(root: Path) -> Path:
    base = root / "food-101"
    listed = {"sushi": ["sushi/1", "sushi/5"], "apple_pie": ["apple_pie/2"]}
    for number, name in enumerate(name for names in listed.values() for name in names):
        photo(base / "images" / f"{name}.jpg", number)
    (base / "meta").mkdir()
    (base / "meta" / "train.json").write_text(json.dumps(listed))
    return root


def celeba(root: Path) -> Path:
    base = root / "celeba"
    names = [f"{number:06d}.jpg" for number in range(1, 5)]
    for number, name in enumerate(names):
        photo(base / "img_align_celeba" / name, number)
    tables: dict[str, tuple[str, Callable[[int], list[int]]]] = {
        "identity_CelebA.txt": ("", lambda n: [n + 40]),
        "list_attr_celeba.txt": ("4\na b c\n", lambda n: [1, -1, (-1) ** n]),
        "list_bbox_celeba.txt": ("4\nx y w h\n", lambda n: [n, 2, 30, 40]),
        "list_eval_partition.txt": ("", lambda n: [0 if n != 2 else 1]),
        "list_landmarks_align_celeba.txt": ("4\n" + " ".join("abcdefghij") + "\n", lambda n: list(range(n, n + 10))),
    }
    for table, (head, row) in tables.items():
        lines = [" ".join([name, *map(str, row(number))]) for number, name in enumerate(names)]
        (base / table).write_text(head + "\n".join(lines) + "\n")
    return root


def imagenet(root: Path) -> Path:
    for number, wnid in enumerate(("n01", "n02")):
        photo(root / "train" / wnid / "1.JPEG", number)
    torch.save(({"n01": ("tench", "fish"), "n02": ("cock",)}, []), root / "meta.bin")
    return root


@pytest.fixture(autouse=True)
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that aren't the original ones are taken."""
    for name in MODULES:
        module = torchvision_here.module(f"torchvision.datasets.{name}")
        monkeypatch.setattr(module, "check_integrity", lambda path, md5=None: Path(path).exists())


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Any]:
    """Makes one of torchvision's data sets, of files made for it."""

    numbers = itertools.count()

    def maker(name: str, *arguments: Any, **options: Any) -> Any:
        kind = getattr(datasets, name)
        root = tmp_path / f"{name}{next(numbers)}"
        root.mkdir()
        if name.startswith("CIFAR"):
            cifar(root, kind)
        elif name == "QMNIST":
            qmnist(root)
        elif name == "EMNIST":
            mnist(root, kind, "emnist-letters-train")
            options = {"split": "letters", **options}
        elif "MNIST" in name:
            mnist(root, kind, "train", "t10k")
        elif name in ("ImageFolder", "DatasetFolder"):
            folder(root)
        elif name == "CocoDetection":
            pytest.importorskip("pycocotools", reason="torchvision's CocoDetection takes pycocotools")
            coco(root)
            arguments = (str(root / "annotations.json"), *arguments)
        else:
            built: dict[str, Callable[[Path], Path]] = {
                "SVHN": svhn,
                "STL10": stl10,
                "VOCDetection": voc,
                "VOCSegmentation": voc,
                "OxfordIIITPet": pets,
                "Flowers102": flowers,
                "Food101": food,
                "CelebA": celeba,
                "ImageNet": imagenet,
            }
            built[name](root)
        return kind(str(root), *arguments, **options)

    return maker
