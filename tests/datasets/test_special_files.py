"""Paths of FIFOs, devices, sockets and folders where a file is meant: an error that names the path, and no waiting."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import corpus
import pytest
from special_files import SPECIAL, THERE, needs_special_files

import fastpipe
from fastpipe import readers
from fastpipe import transforms as T
from fastpipe.config import MachineConfig
from fastpipe.errors import FastpipeError

pytestmark = needs_special_files

OPENERS: dict[str, Callable[[str], object]] = {
    "a.parquet": lambda path: fastpipe.ImageTable(path, index=None),
    "a.tar": lambda path: fastpipe.ImageShards(path, index=None),
    "b.zip": lambda path: fastpipe.ImageShards([path], index=None),
    "c.zip": lambda path: fastpipe.ImageFolder(path, index=None),
    "root": lambda path: fastpipe.ImageFolder(path, index=None),
    "a.txt": fastpipe.ImageList,
    "a.csv": fastpipe.ImageList,
    "b.parquet": fastpipe.ImageList,
    "a.jpg": readers.read_image,
    "b.jpg": readers.read_header,
    "c.jpg": fastpipe.open_image,
    "d.jpg": lambda path: fastpipe.load_batch([path], T.ToTensor()),
    "a.json": lambda path: fastpipe.CocoDetection(os.path.dirname(path), path),
    "a.toml": MachineConfig.load,
    "source": lambda path: fastpipe.pack(path, f"{path}.zip"),
    "source.tar": lambda path: fastpipe.pack(path, f"{path}.zip"),
    "d.parquet": lambda path: fastpipe.pack(path, f"{path}.zip"),
    "source.txt": lambda path: fastpipe.pack(path, f"{path}.zip"),
}


@pytest.mark.parametrize("kind", THERE)
@pytest.mark.parametrize("name", OPENERS)
def test_what_is_no_file_is_told(kind: str, name: str, tmp_path: Path) -> None:
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    path = tmp_path / name
    THERE[kind](path)
    with pytest.raises((OSError, FastpipeError)) as caught:
        OPENERS[name](str(path))
    assert str(path) in str(caught.value)


def test_a_mask_that_is_no_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(corpus.jpeg(30, 40))
    os.mkfifo(tmp_path / "mask.png")
    samples = fastpipe.SampleDataset(lambda _: (tmp_path / "a.jpg", fastpipe.MaskFile(tmp_path / "mask.png")), 1)
    with pytest.raises(OSError, match=r"a FIFO \(named pipe\) \(sample 0 of the dataset, .*a\.jpg\): .*mask\.png"):
        samples[0]


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("name", ["ImageSets/Main/train.txt", "Annotations/1.xml", "SegmentationClass/1.png"])
def test_files_of_pascal_voc(kind: str, name: str, tmp_path: Path) -> None:
    base = tmp_path / "VOCdevkit/VOC2012"
    for one in ("ImageSets/Main", "ImageSets/Segmentation", "Annotations", "SegmentationClass", "JPEGImages"):
        (base / one).mkdir(parents=True)
    (base / "JPEGImages/1.jpg").write_bytes(corpus.jpeg(30, 40))
    for layout in ("Main", "Segmentation"):
        if name != f"ImageSets/{layout}/train.txt":
            (base / "ImageSets" / layout / "train.txt").write_text("1\n")
    SPECIAL[kind](base / name)
    opened = fastpipe.VOCSegmentation if "Segmentation" in name else fastpipe.VOCDetection
    with pytest.raises(OSError, match=name):
        opened(tmp_path)[0]


def test_no_config_is_the_null_device() -> None:
    assert MachineConfig.load(os.devnull) == MachineConfig()
