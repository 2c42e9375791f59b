"""Boxes, points and masks on the pictures of a preview."""

from __future__ import annotations

from pathlib import Path

import corpus
import numpy as np
import torch
import torchvision_here
from PIL import Image

import fastpipe
from fastpipe.tools.preview import marked

tv_tensors = torchvision_here.module("torchvision.tv_tensors")
v2 = torchvision_here.module("fastpipe.transforms.v2")


def test_what_is_drawn_where() -> None:
    picture = Image.new("RGB", (60, 40))
    boxes = tv_tensors.BoundingBoxes([[10, 5, 20, 10], [0, 0, 0, 0]], format="XYWH", canvas_size=(40, 60))
    mask = torch.zeros(2, 40, 60, dtype=torch.uint8)
    mask[1, 30:, 50:] = 1
    made = np.asarray(marked(picture, {"boxes": boxes, "masks": [tv_tensors.Mask(mask)], "labels": torch.ones(2)}))
    assert made[5, 15].any()
    assert made[15, 30].any()
    assert not made[10, 20].any()
    assert (made[30:, 50:] == made[35, 55]).all()
    assert made[35, 55].any()
    assert not np.asarray(picture).any()


def test_others_are_left_out() -> None:
    picture = Image.new("RGB", (60, 40))
    elsewhere = tv_tensors.BoundingBoxes([[1, 1, 9, 9]], format="XYXY", canvas_size=(10, 10))
    assert not np.asarray(
        marked(picture, (elsewhere, tv_tensors.Mask(torch.ones(1, 10, 10, dtype=torch.uint8)), 3))
    ).any()
    classes = torch.zeros(1, 40, 60, dtype=torch.uint8)
    classes[0, :10] = 7
    classes[0, 10:20] = 9
    made = np.asarray(marked(picture, tv_tensors.Mask(classes)))
    assert made[0, 0].tolist() != made[15, 0].tolist()
    assert not made[30].any()
    if hasattr(tv_tensors, "KeyPoints"):  # torchvision 0.23 or later
        points = tv_tensors.KeyPoints([[30.0, 20.0]], canvas_size=(40, 60))
        assert np.asarray(marked(picture, points))[20, 30].any()


def test_a_preview_of_boxes(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(corpus.jpeg(80, 100))
    for seed in (None, 3):
        sheets = []
        for boxes in ([[10.0, 10.0, 60.0, 50.0]], [[0.0, 0.0, 0.0, 0.0]]):
            target = {"boxes": fastpipe.Boxes(boxes)}
            dataset = fastpipe.SampleDataset(
                lambda index, target=target: (path, target), 1, v2.Compose([v2.CenterCrop(70), v2.ToImage()]), seed=seed
            )
            sheets.append(np.asarray(fastpipe.preview(dataset, views=1)))
        assert sheets[0].shape == sheets[1].shape
        assert (sheets[0] != sheets[1]).any()
