"""A small data set of Pascal VOC's."""

from __future__ import annotations

from pathlib import Path

import corpus
import numpy as np
import pytest
from PIL import Image

SIZES = [(90, 121), (64, 80), (133, 71), (101, 99)]


@pytest.fixture(scope="module")
def voc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("voc")
    base = root / "VOCdevkit" / "VOC2012"
    for folder in ("JPEGImages", "Annotations", "SegmentationClass", "ImageSets/Main", "ImageSets/Segmentation"):
        (base / folder).mkdir(parents=True)
    for number, (height, width) in enumerate(SIZES):
        (base / "JPEGImages" / f"p{number}.jpg").write_bytes(corpus.jpeg(height, width, seed=number))
        values = np.random.default_rng(number).integers(0, 21, (height // 8 + 1, width // 8 + 1), dtype=np.uint8)
        mask = Image.fromarray(values.repeat(8, 0).repeat(8, 1)[:height, :width])
        mask.putpalette(list(range(256)) * 3)
        mask.save(base / "SegmentationClass" / f"p{number}.png")
        objects = "".join(
            f"<object><name>{name}</name><bndbox><xmin>{3 + i}</xmin><ymin>{4 + i}</ymin><xmax>{40 + i}</xmax>"
            f"<ymax>{50 + i}</ymax></bndbox></object>"
            for i, name in enumerate(["dog", "person", "tvmonitor"][: number % 3 + 1])
        )
        (base / "Annotations" / f"p{number}.xml").write_text(
            f"<annotation><filename>p{number}.jpg</filename><size><width>{width}</width></size>{objects}</annotation>"
        )
    for folder in ("Main", "Segmentation"):
        (base / "ImageSets" / folder / "train.txt").write_text("p0\np1\np2\np3\n")
    return root
