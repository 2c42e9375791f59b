"""Detection under `fastpipe.install`: data sets of images with boxes and masks, and torchvision's samples of them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus
import pytest
import torch
from plain_and_hooked import assert_as_plain
from torchvision_here import module

import fastpipe
import fastpipe.transforms.v2  # made of torchvision's classes before a test changes these
from fastpipe.hooks.ledger import LEDGER

pytestmark = pytest.mark.usefixtures("fresh_ledger")
pytest.importorskip("pycocotools")
v2, tv_tensors, datasets = (module(f"torchvision.{name}") for name in ("transforms.v2", "tv_tensors", "datasets"))


@pytest.fixture(scope="module")
def coco(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos, two of them gray, and annotations: boxes that also are the image's edges, with polygons."""
    folder = tmp_path_factory.mktemp("coco")
    chosen = random.Random(0)
    images, found = [], []
    for number, (height, width) in enumerate([(271, 303), (61, 83), (97, 33), (40, 40), (120, 90), (64, 100)]):
        name = f"{number}.jpg"
        (folder / name).write_bytes(corpus.jpeg(height, width, ("420", "444", "gray")[number % 3], number))
        images.append({"id": number, "file_name": name, "width": width, "height": height})
        for place in range(chosen.randint(1, 6)):
            left, top = chosen.uniform(0, 0.6) * width, chosen.uniform(0, 0.6) * height
            box = [left, top, chosen.uniform(0.1, 0.4) * width, chosen.uniform(0.1, 0.4) * height]
            if place == 2:
                box = [0, 0, width, height]
            right, bottom = box[0] + box[2], box[1] + box[3]
            polygon = [box[0], box[1], right, box[1], (box[0] + right) / 2, bottom]
            about = {"id": len(found), "image_id": number, "category_id": chosen.randint(1, 90), "bbox": box}
            found.append({**about, "area": box[2] * box[3], "iscrowd": 0, "segmentation": [polygon]})
    categories = [{"id": number, "name": str(number)} for number in range(91)]
    (folder / "found.json").write_text(json.dumps({"images": images, "annotations": found, "categories": categories}))
    return folder


def ending() -> list[Any]:
    return [
        v2.ToDtype(torch.float, scale=True),
        v2.ConvertBoundingBoxFormat(tv_tensors.BoundingBoxFormat.XYXY),
        v2.SanitizeBoundingBoxes(),
        v2.ToPureTensor(),
    ]


RECIPES: dict[str, Callable[[], list[Any]]] = {
    "hflip": lambda: [v2.RandomHorizontalFlip(0.5), v2.ToImage(), *ending()],
    "ssd": lambda: [
        v2.ToImage(),
        v2.RandomPhotometricDistort(),
        v2.RandomZoomOut(fill={tv_tensors.Image: (123.0, 117.0, 104.0), "others": 0}),
        v2.RandomIoUCrop(),
        v2.RandomHorizontalFlip(0.5),
        v2.Resize((75, 60), antialias=True),
        *ending(),
    ],
    "ssd of images": lambda: [
        v2.RandomPhotometricDistort(),
        v2.RandomZoomOut(fill={tv_tensors.Mask: 0, "others": (123, 117, 104)}),
        v2.RandomIoUCrop(),
        v2.RandomHorizontalFlip(0.5),
        v2.ToImage(),
        *ending(),
    ],
    "ssdlite": lambda: [v2.RandomIoUCrop(), v2.RandomHorizontalFlip(0.5), v2.ToImage(), *ending()],
    "multiscale": lambda: [
        v2.RandomShortestSize((48, 70, 101), max_size=133),
        v2.RandomHorizontalFlip(0.5),
        v2.ToImage(),
        *ending(),
    ],
}


def lists(batch: list[Any]) -> tuple[Any, ...]:
    """Collates a batch as vision's references for detection do."""
    return tuple(zip(*batch, strict=True))


@pytest.mark.parametrize("keys", [("boxes", "labels"), ("boxes", "masks", "labels", "image_id")], ids=len)
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.needs_core
def test_coco_s_samples(coco: Path, recipe: str, keys: tuple[str, ...]) -> None:
    transforms = v2.Compose(RECIPES[recipe]())
    dataset = datasets.CocoDetection(coco, str(coco / "found.json"), transforms=transforms)
    wrapped = datasets.wrap_dataset_for_transforms_v2(dataset, target_keys=keys)
    for seed, check in enumerate([0, 0, 0, 2]):
        assert_as_plain(wrapped, seed, check=check, collate_fn=lists)
    site, *_ = (site for site in LEDGER.total()[0] if site.kind == "transform")
    assert not site.is_off
    assert not site.left


def test_boxes_are_drawn_without_pixels(coco: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transforms = v2.Compose(RECIPES["ssd"]())
    dataset = datasets.CocoDetection(coco, str(coco / "found.json"), transforms=transforms)
    wrapped = datasets.wrap_dataset_for_transforms_v2(dataset, target_keys=("boxes", "labels"))
    monkeypatch.setattr(v2.RandomIoUCrop, "make_params", None)
    monkeypatch.setattr(v2.ToImage, "transform", None)
    with fastpipe.install(check=0):
        assert all(isinstance(image, torch.Tensor) for image, _ in (wrapped[index] for index in range(len(wrapped))))


class OneByOne(v2.Compose):  # type: ignore[misc] # a class of no types
    """Calls each transform by itself, with a third part that is no target: as RT-DETR's own ``Compose``."""

    def forward(self, *inputs: Any) -> Any:
        for transform in self.transforms:
            inputs = transform(*inputs)
        return inputs


class WithItself:
    """A data set whose transforms are given the data set, too."""

    def __init__(self, dataset: Any, transform: Any) -> None:
        self.dataset, self.transform = dataset, transform

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        image, target = self.dataset[index]
        return self.transform(image, target, self)[:2]


class OftenIoUCrop(v2.RandomIoUCrop):  # type: ignore[misc]
    """A crop that isn't always tried, as RT-DETR has it."""

    def __call__(self, *inputs: Any) -> Any:
        return inputs if torch.rand(1) >= 0.8 else super().__call__(*inputs)


def test_transforms_of_samples_called_one_by_one(coco: Path) -> None:
    known = [v2.RandomPhotometricDistort(), v2.RandomZoomOut(fill=0), OftenIoUCrop(), v2.SanitizeBoundingBoxes()]
    transform = OneByOne([*known, v2.RandomHorizontalFlip(), v2.Resize([90, 70]), v2.ToImage()])
    dataset = datasets.CocoDetection(coco, str(coco / "found.json"))
    wrapped = WithItself(datasets.wrap_dataset_for_transforms_v2(dataset, target_keys=("boxes", "labels")), transform)
    for seed, check in enumerate([2, 0, 0]):
        assert_as_plain(wrapped, seed, check=check, collate_fn=lists)
    site = LEDGER.site("function", "torchvision.transforms.v2.RandomIoUCrop.make_params")
    assert site.images
    assert site.checked == 2
    assert not site.differed
