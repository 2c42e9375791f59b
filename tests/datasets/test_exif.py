"""A file that EXIF turns, in a batch with others: one tensor, each file read once, decoded in a region, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from torchvision_here import torchvision

import fastpipe
import fastpipe.errors
from fastpipe import core, readers
from fastpipe import transforms as T
from fastpipe.executor import BatchSpec, ImageBatch

R = torchvision.transforms
CROP = [("RandomResizedCrop", (24,)), ("RandomHorizontalFlip", ()), ("ToTensor", ())]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a").mkdir()
    noise = np.random.default_rng(0)
    for number in range(8):
        exif = Image.Exif()
        exif[0x0112] = number + 1
        small = Image.fromarray(noise.integers(0, 256, (9, 12, 3), dtype=np.uint8))
        small.resize((97, 61)).save(tmp_path / "a" / f"{number}.jpg", exif=exif, quality=90)
    return tmp_path


def batch_of(dataset: Any) -> ImageBatch:
    batch = dataset.batch(range(len(dataset)), BatchSpec())
    assert isinstance(batch, ImageBatch)
    return batch


@pytest.mark.parametrize("steps", [CROP, [("Resize", (40,)), ("CenterCrop", (24,)), ("ToTensor", ())]])
def test_turned_files_are_torchvisions_on_the_upright_image(root: Path, steps: Any) -> None:
    dataset = fastpipe.ImageFolder(root, T.Compose([getattr(T, name)(*a) for name, a in steps]), apply_exif=True)
    theirs = R.Compose([getattr(R, name)(*a) for name, a in steps])
    torch.manual_seed(0)
    images = batch_of(dataset).images
    torch.manual_seed(0)
    for image, (path, _) in zip(images, dataset.samples, strict=True):
        upright = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
        assert torch.equal(image, theirs(upright))


@pytest.mark.needs_core
def test_nothing_is_read_or_decoded_twice_and_regions_alone(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boxes: list[tuple[int, int]] = []
    read: list[int] = []
    run, read_files = core.Pool.run, core.Files.load

    def counted(self: Any, batch: Any, count: int | None = None) -> Any:
        boxes.extend((job.raw.box.height, job.raw.box.width) for job in list(batch)[:count])
        return run(self, batch, count)

    def noted(self: Any, sources: Any, *options: Any, **others: Any) -> Any:
        read.append(len(sources))
        return read_files(self, sources, *options, **others)

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("read or decoded another time")

    monkeypatch.setattr(core.Pool, "run", counted)
    monkeypatch.setattr(core.Files, "load", noted)
    monkeypatch.setattr(core, "run", never)
    monkeypatch.setattr(readers, "decode", never)
    monkeypatch.setattr(readers, "read_file", never)
    dataset = fastpipe.ImageFolder(root, T.Compose([T.CenterCrop(20), T.ToTensor()]), apply_exif=True)
    assert batch_of(dataset).images.shape == (8, 3, 20, 20)
    assert read == [8]
    assert boxes == [(20, 20)] * 8


@pytest.mark.parametrize("limit", [5916, 2958])
def test_the_limit_of_pixels_holds_in_batches_as_it_does_for_a_sample(root: Path, limit: int) -> None:
    """The files have 5,917: one more than the limit is warned about, more than twice as many are refused."""
    transform = T.Compose([T.CenterCrop(20), T.ToTensor()])
    dataset = fastpipe.ImageFolder(root, transform, max_pixels=limit)
    expected: Any
    if limit == 2958:
        expected = pytest.raises(fastpipe.errors.DecodeError, match="exceeds limit")
    else:
        expected = pytest.warns(Image.DecompressionBombWarning)
    with expected:
        dataset[0]
    with expected:
        batch_of(dataset)
