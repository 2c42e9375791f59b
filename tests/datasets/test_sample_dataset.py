"""Data sets whose samples a function gives: boxes, masks and bytes are torchvision's, planned or not."""

from __future__ import annotations

import pickle
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision_here
from PIL import Image
from torch.utils.data import DataLoader
from v2_pipelines import pipeline, same, sample_of

import fastpipe
from fastpipe import transforms as T

theirs = torchvision_here.module("torchvision.transforms.v2")
their_datasets = torchvision_here.module("torchvision.datasets")
tv_tensors = torchvision_here.module("torchvision.tv_tensors")
v2 = torchvision_here.module("fastpipe.transforms.v2")


_POINTS, _HAS_POINTS = [[5.0, 6.0], [20.0, 30.0]], hasattr(tv_tensors, "KeyPoints")  # torchvision 0.23 or later
_BOXES = [[3.0, 4.0, 30.0, 40.0], [10.0, 20.0, 60.0, 50.0]]


def _of_number(index: int) -> tuple[Any, ...]:
    root = _of_number.root
    target = {
        "boxes": fastpipe.Boxes(_BOXES),
        **({"points": fastpipe.KeyPoints(_POINTS)} if _HAS_POINTS else {}),
        "labels": torch.tensor([1, 2]),
        "mask": fastpipe.MaskFile(root / "SegmentationClass" / f"p{index}.png"),
    }
    return root / "JPEGImages" / f"p{index}.jpg", target, index


@pytest.mark.parametrize("seed", range(20))
def test_a_function_says_what_a_sample_is(voc: Path, seed: int) -> None:
    root = voc / "VOCdevkit" / "VOC2012"
    _of_number.root = root
    members = pipeline(v2, seed, boxes=True)
    dataset = fastpipe.SampleDataset(_of_number, 4, v2.Compose(members))
    made = sample_of(dataset, seed)
    index = seed % 4
    image = Image.open(root / "JPEGImages" / f"p{index}.jpg").convert("RGB")
    size = (image.height, image.width)
    target = {
        "boxes": tv_tensors.BoundingBoxes(
            [[3.0, 4.0, 30.0, 40.0], [10.0, 20.0, 60.0, 50.0]], format="XYXY", canvas_size=size
        ),
        **({"points": tv_tensors.KeyPoints(_POINTS, canvas_size=size)} if _HAS_POINTS else {}),
        "labels": torch.tensor([1, 2]),
        "mask": tv_tensors.Mask(Image.open(root / "SegmentationClass" / f"p{index}.png")),
    }
    again = pipeline(theirs, seed, boxes=True)
    torch.manual_seed(seed)
    try:
        expected: Any = theirs.Compose(again)(image, target, index), torch.get_rng_state()
    except (ValueError, TypeError, IndexError) as error:  # IndexError: torchvision 0.21 sanitizes any mask by the boxes
        expected = type(error)
    assert same(made, expected)


def test_a_function_without_transforms_and_its_mistakes(voc: Path) -> None:
    _of_number.root = voc / "VOCdevkit" / "VOC2012"
    image, target, number = fastpipe.SampleDataset(_of_number, 4)[2]
    assert isinstance(image, Image.Image)
    assert number == 2
    assert target["mask"].shape == (1, image.height, image.width)
    assert len(pickle.dumps(fastpipe.SampleDataset(_of_number, 4))) < 2048
    with pytest.raises(IndexError):
        fastpipe.SampleDataset(_of_number, 4)[4]
    with pytest.raises(fastpipe.errors.DatasetError, match="path first"):
        fastpipe.SampleDataset(lambda index: 3, 4)[0]
    mixed = fastpipe.SampleDataset(
        lambda index: (_of_number(0)[0], fastpipe.MaskFile(_of_number(1)[1]["mask"].path)), 1, v2.ToImage()
    )
    with pytest.raises(fastpipe.errors.DatasetError, match="is a mask of"):
        mixed[0]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (fastpipe.Boxes(None), r"Boxes\(None\): give numbers of shape \(…, 4\)"),
        (fastpipe.Boxes("car"), r"Boxes\('car'\): give numbers"),
        (fastpipe.Boxes([[1, 2, 3, 4], [5, 6]]), r"Boxes\(\[\[1, 2, 3, 4\], \[5, 6\]\]\): give numbers"),
        (fastpipe.Boxes([[1, 2, 3]]), r"Boxes of shape \(1, 3\): give numbers of shape \(…, 4\)"),
        (fastpipe.Boxes([[1, 2, 3, 4]], "XYWHR"), r"Boxes of shape \(1, 4\): give numbers of shape \(…, 5\)"),
        (fastpipe.KeyPoints(5), r"KeyPoints of shape \(\): give numbers of shape \(…, 2\)"),
        (fastpipe.KeyPoints([[1, 2, 3]]), r"KeyPoints of shape \(1, 3\)"),
    ],
)
def test_values_that_are_no_boxes_or_points_are_told(voc: Path, target: Any, message: str) -> None:
    _of_number.root = voc / "VOCdevkit" / "VOC2012"
    path = _of_number(0)[0]
    with pytest.raises(fastpipe.errors.DatasetError, match=message):
        fastpipe.SampleDataset(lambda index: (path, target), 1, v2.RandomHorizontalFlip())[0]


def test_an_image_without_objects_has_an_empty_list(voc: Path) -> None:
    _of_number.root = voc / "VOCdevkit" / "VOC2012"
    path = _of_number(0)[0]
    points = [fastpipe.KeyPoints([])] if _HAS_POINTS else []
    dataset = fastpipe.SampleDataset(lambda index: (path, fastpipe.Boxes([]), *points), 1, v2.RandomHorizontalFlip(1.0))
    _, boxes, *points = dataset[0]
    assert type(boxes) is tv_tensors.BoundingBoxes
    assert [boxes.shape, *(one.shape for one in points)] == [(0, 4), (0, 2)][: 1 + _HAS_POINTS]


def test_what_an_older_torchvision_lacks_is_told(voc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _of_number.root = voc / "VOCdevkit" / "VOC2012"
    path = _of_number(0)[0]
    monkeypatch.delattr(tv_tensors, "KeyPoints", raising=False)
    formats = [name for name in tv_tensors.BoundingBoxFormat.__members__ if len(name) < 7]
    monkeypatch.setattr(tv_tensors, "BoundingBoxFormat", Enum("BoundingBoxFormat", formats))
    rotated = fastpipe.Boxes([range(8)], "XYXYXYXY")
    for value, message in (
        (fastpipe.KeyPoints([[1, 2]]), "key points take"),
        (rotated, "boxes of the format XYXYXYXY take"),
    ):
        with pytest.raises(fastpipe.errors.DatasetError, match=rf"{message} torchvision 0\.23 or later"):
            fastpipe.SampleDataset(lambda index, value=value: (path, value), 1, v2.RandomHorizontalFlip())[0]


@pytest.mark.parametrize("transforms", [None, v2.Compose([v2.RandomHorizontalFlip(1.0)]), lambda *sample: sample])
@pytest.mark.parametrize("given", ["path", None, np.zeros((3, 4, 3)), torch.tensor(3)])
def test_a_loader_that_gives_no_image_is_told(voc: Path, given: Any, transforms: Any) -> None:
    _of_number.root = voc / "VOCdevkit" / "VOC2012"
    dataset = fastpipe.SampleDataset(_of_number, 4, transforms, loader=lambda path: given, on_error="replace")
    with pytest.raises(fastpipe.errors.DatasetError, match=f"loader=.* returned {type(given).__name__} for .*p2.jpg"):
        dataset[2]


def _as_tensor(path: str) -> torch.Tensor:
    return T.functional.pil_to_tensor(Image.open(path).convert("RGB"))


def test_a_loader_may_give_tensors(voc: Path) -> None:
    _of_number.root = voc / "VOCdevkit" / "VOC2012"
    image, target, _ = fastpipe.SampleDataset(_of_number, 4, loader=_as_tensor)[1]
    assert target["boxes"].canvas_size == image.shape[-2:]


@pytest.mark.parametrize("more", [(), ({"a": 3},)])
def test_a_function_s_targets_are_collated_as_torch_does(voc: Path, more: tuple[Any, ...]) -> None:
    photo = voc / "VOCdevkit/VOC2012/JPEGImages/p0.jpg"
    resize = T.Compose([T.Resize((8, 9)), T.ToTensor()])
    transforms = fastpipe.datasets.StandardTransform(resize)
    dataset = fastpipe.SampleDataset(lambda index: (photo, index, *more), 4, transforms)
    for ours, expected in zip(fastpipe.DataLoader(dataset, 2), DataLoader(dataset, 2), strict=True):
        assert same(ours, expected)


def test_a_mask_file_has_torchvisions_shape_and_pixels(voc: Path) -> None:
    root = voc / "VOCdevkit" / "VOC2012"
    photo, path = root / "JPEGImages" / "p0.jpg", root / "SegmentationClass" / "p0.png"
    mask = tv_tensors.Mask(Image.open(path))
    transform = v2.Resize((64, 50))
    made = fastpipe.SampleDataset(lambda _: (photo, fastpipe.MaskFile(path)), 1, v2.ToImage())[0][1]
    resized = fastpipe.SampleDataset(lambda _: (photo, fastpipe.MaskFile(path)), 1, transform)[0][1]
    width, height = Image.open(photo).size
    assert made.shape == mask.shape == (1, height, width)
    rows, columns = np.arange(64) * height // 64, np.arange(50) * width // 50  # docs/v2.md: torch's floor(i * scale)
    expected = np.asarray(Image.open(path))[np.ix_(rows, columns)]
    assert np.array_equal(resized[0].numpy(), expected)
    assert not np.array_equal(expected, np.asarray(Image.open(path).resize((50, 64), Image.Resampling.NEAREST)))
