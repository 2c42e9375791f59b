"""Hugging Face's data sets and WebDataset under the hooks: samples as without, and nothing decoded that nobody sees."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import corpus
import hugging_face_here
import pytest
import torch
from PIL import Image
from plain_and_hooked import assert_as_plain
from torch.utils.data import DataLoader
from torchvision_here import module

import fastpipe

T = module("torchvision.transforms")
COUNT = 12


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """JPEGs, of which some are turned by EXIF data, or gray."""
    root = tmp_path_factory.mktemp("photos")
    paths = [root / f"{number:02}.jpg" for number in range(COUNT)]
    for number, path in enumerate(paths):
        image = Image.open(io.BytesIO(corpus.jpeg(130 + number, 170, seed=number)))
        exif = Image.Exif()
        if number % 3:
            exif[0x112] = 1 + number % 8
        (image.convert("L") if number % 4 == 3 else image).save(path, exif=exif)
    return [str(path) for path in paths]


def recipe() -> Any:
    return T.Compose([T.RandomResizedCrop(128), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize([0.5], [0.5])])


def hugging_face(files: list[str], mode: str | None, as_bytes: bool = False) -> Any:
    """A data set whose function leaves the images in the batch."""
    datasets = hugging_face_here.datasets()
    rows: list[Any] = [{"bytes": Path(file).read_bytes(), "path": None} for file in files] if as_bytes else files
    dataset = datasets.Dataset.from_dict({"image": rows, "label": list(range(len(files)))})
    dataset = dataset.cast_column("image", datasets.Image(mode=mode))
    transform = recipe()

    def train_transforms(batch: Any) -> Any:
        batch["pixel_values"] = [transform(image.convert("RGB")) for image in batch["image"]]
        return batch

    dataset.set_transform(train_transforms)
    return dataset


def collate(examples: list[Any]) -> Any:
    return torch.stack([example["pixel_values"] for example in examples]), [example["label"] for example in examples]


def collate_with_images(examples: list[Any]) -> Any:
    images = [example["image"] for example in examples]
    return [*collate(examples), [(type(one).__name__, one.mode, one.size, one.tobytes()) for one in images]]


@pytest.mark.parametrize("as_bytes", [False, True])
@pytest.mark.parametrize("mode", [None, "RGB", "L"])
def test_hugging_faces_samples(photos: list[str], mode: str | None, as_bytes: bool) -> None:
    dataset = hugging_face(photos, mode, as_bytes)
    assert_as_plain(dataset, collate_fn=collate)
    assert_as_plain(dataset, 1, collate_fn=collate_with_images)
    assert_as_plain(dataset, 2, check=2, collate_fn=collate)


@pytest.mark.needs_core
@pytest.mark.parametrize("mode", [None, "RGB"])
def test_images_that_nobody_reads_stay_without_pixels(photos: list[str], mode: str | None) -> None:
    dataset, kept = hugging_face(photos, mode), []

    def keeping(examples: list[Any]) -> Any:
        kept.extend(example["image"] for example in examples)
        return collate(examples)

    with fastpipe.install(check=0):
        batches = list(DataLoader(dataset, batch_size=4, collate_fn=keeping))
    assert len(batches) == 3
    assert [fastpipe.is_pending(image) for image in kept] == [True] * COUNT


@pytest.fixture
def shard(photos: list[str], tmp_path: Path) -> str:
    path = tmp_path / "0.tar"
    with tarfile.open(path, "w") as made:
        for file in photos:
            made.add(file, Path(file).name)
    return str(path)


@pytest.mark.parametrize("kind", ["pil", "pill", "rgb8", "torchrgb"])
def test_webdatasets_samples(shard: str, kind: str) -> None:
    webdataset = pytest.importorskip("webdataset")
    transform = recipe() if kind.startswith("pil") else lambda pixels: pixels[:100, :100].mean()
    if kind == "pill":
        transform = T.Compose([*recipe().transforms[:3]])

    def stream() -> Any:
        dataset = webdataset.WebDataset(shard, shardshuffle=False, empty_check=False)
        return dataset.decode(kind).to_tuple("jpg", "__key__").map_tuple(transform, str)

    assert len(assert_as_plain(stream(), shuffle=False)) == 2
    assert_as_plain(stream(), shuffle=False, drop_last=True, check=2)
