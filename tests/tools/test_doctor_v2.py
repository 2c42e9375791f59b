"""Doctor on datasets of images with boxes and masks: the pieces that it measures, in this process."""

from __future__ import annotations

from typing import Any

import corpus
import numpy as np
import pytest
import torch
import torchvision_here
from PIL import Image

import fastpipe
from fastpipe import transforms as T
from fastpipe.tools.doctor.loader_setup import setup_of
from fastpipe.tools.doctor.reencoding import try_reencoding
from fastpipe.tools.doctor.stages import time_stages, try_samples

v2 = torchvision_here.module("fastpipe.transforms.v2")


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> fastpipe.SampleDataset:
    root = tmp_path_factory.mktemp("scenes")
    for number in range(4):
        image = Image.fromarray(corpus.photo(120, 160, number))
        image.save(root / f"{number}.jpg")
        Image.fromarray(np.full((120, 160), number, np.uint8)).save(root / f"{number}.png")

    def sample(index: int) -> Any:
        target = {"boxes": fastpipe.Boxes([[10.0, 10.0, 90.0, 80.0]]), "labels": torch.tensor([index])}
        return root / f"{index}.jpg", {**target, "mask": fastpipe.MaskFile(root / f"{index}.png")}

    members = [v2.RandomPhotometricDistort(), v2.RandomZoomOut(), v2.RandomIoUCrop(), v2.SanitizeBoundingBoxes()]
    return fastpipe.SampleDataset(sample, 4, v2.Compose([*members, v2.ToImage()]))


def test_images_of_many_sizes_are_no_reason_to_refuse(scenes: fastpipe.SampleDataset) -> None:
    subject = setup_of(scenes, None, 2, None)
    assert subject.collate is fastpipe.collate_fn
    assert subject.loader_for([0, 1], 2, 0).collate_fn is fastpipe.collate_fn
    plain = fastpipe.SampleDataset(scenes.function, 4, None)
    assert setup_of(plain, None, 2, None).collate is not fastpipe.collate_fn


def test_stages_of_a_sample_with_boxes_and_masks(scenes: fastpipe.SampleDataset) -> None:
    assert try_samples(scenes, range(4), 5.0).good == [0, 1, 2, 3]
    subject = setup_of(scenes, None, 4, None)
    stages = time_stages(scenes, range(4), 4, subject.options, subject.collate, 0.01, 1e6)
    assert {"read", "draw", "python"} <= set(stages.us)
    assert stages.image_bytes > 1000


@pytest.mark.needs_core
def test_packed_files_are_tried_and_smaller_ones_are_not(scenes: fastpipe.SampleDataset) -> None:
    """Boxes are of the photo's size: a smaller photo would be another sample."""
    found = try_reencoding(scenes, range(4), (8, 8), 0.01)
    assert [(one.kind, one.share) for one in found] == [("packed", 1.0)]
    assert found[0].before_us > 0
    alone = fastpipe.ImageList(([scenes.sample(index)[0] for index in range(4)], [0] * 4), T.RandomResizedCrop(8))
    assert [one.kind for one in try_reencoding(alone, range(4), (8, 8), 0.01)] == ["oversized", "packed"]
