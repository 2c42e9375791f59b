"""The benchmark's images: deterministic, photo-like in size, and found in a user's folder."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from fastpipe.errors import ConfigError, DatasetError
from fastpipe.rng import keyed_globals
from fastpipe.tools.bench.samples import KINDS, encode, made_samples, make_folder, photo, read_sample, sample_folder
from fastpipe.transforms import RandomResizedCrop


def test_photos_are_reproducible_and_differ() -> None:
    assert np.array_equal(photo(3, 31, 45), photo(3, 31, 45))
    assert not np.array_equal(photo(3, 31, 45), photo(4, 31, 45))
    assert photo(0, 7, 1).shape == (7, 1, 3)
    assert photo(0).dtype == np.uint8


def test_a_photo_compresses_as_a_photo_does() -> None:
    kilobytes = [len(encode(photo(seed), "jpeg-444")) / 1000 for seed in range(4)]
    assert 70 < np.mean(kilobytes) < 150  # ImageNet's mean is about 110


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_what_its_name_says(kind: str) -> None:
    data = encode(photo(1, 33, 47), kind)
    with Image.open(io.BytesIO(data)) as image:
        assert image.size == (47, 33)
        assert image.format == kind.partition("-")[0].upper()
        assert bool(image.info.get("progressive")) == (kind == "jpeg-progressive")
        assert image.mode == ("L" if kind == "jpeg-gray" else "RGB")


@given(st.integers(1, 700), st.integers(1, 700), st.integers(0, 2**32))
def test_regions_are_those_that_the_crop_draws(height: int, width: int, key: int) -> None:
    box = read_sample("made.png", encode(np.zeros((height, width, 3), np.uint8), "png"), key).box
    with keyed_globals(key):
        assert tuple(box) == RandomResizedCrop.get_params(torch.zeros(1, height, width), [0.08, 1.0], [3 / 4, 4 / 3])


def test_a_made_folder_is_an_image_folder(tmp_path: Path) -> None:
    files = make_folder(tmp_path, 2, 3, kinds=("jpeg-420", "png"), sizes=((20, 30), (9, 17)))
    names = [file.relative_to(tmp_path).as_posix() for file in files]
    assert names == [
        *("class00/000.jpg", "class00/001.png", "class00/002.jpg"),
        *("class01/000.png", "class01/001.jpg", "class01/002.png"),
    ]
    again = make_folder(tmp_path / "again", 2, 3, kinds=("jpeg-420", "png"), sizes=((20, 30), (9, 17)))
    assert [file.read_bytes() for file in files] == [file.read_bytes() for file in again]
    # Each kind comes in each size.
    shapes = {(file.suffix, Image.open(file).size) for file in files}
    assert len(shapes) == 4


@pytest.mark.needs_core
def test_made_samples_are_mixed() -> None:
    samples = made_samples(["jpeg", "webp"], 16)
    jpeg = [sample.header for sample in samples if sample.format == "jpeg"]
    assert {header.subsampling for header in jpeg} >= {"4:4:4", "4:2:0"}
    assert any(header.progressive for header in jpeg)
    assert sum(sample.format == "webp" for sample in samples) == 16
    with pytest.raises(ConfigError, match="can't make 'gif'"):
        made_samples(["gif"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("photos")
    make_folder(root, 2, 6, kinds=("jpeg-420", "png", "jpeg-444"), sizes=((24, 33),))
    (root / "notes.txt").write_text("not an image")
    (root / "class00" / "cut.jpg").write_bytes(encode(photo(0, 40, 40), "jpeg-420")[:300])
    (root / "empty.png").write_bytes(b"")
    return root


def test_a_sample_of_a_folder(folder: Path) -> None:
    samples = sample_folder(folder)
    assert [sample.format for sample in samples] == ["jpeg"] * 8 + ["png"] * 4
    assert not any("cut.jpg" in sample.name for sample in samples)
    assert [sample.name for sample in samples] == [sample.name for sample in sample_folder(folder)]
    assert len(sample_folder(folder, count=3)) == 6
    assert {sample.format for sample in sample_folder(folder, ["PNG"])} == {"png"}


def test_one_file_is_a_sample(folder: Path) -> None:
    (sample,) = sample_folder(folder / "class00" / "001.png")
    assert sample.box.inside(sample.header.size)


def test_nothing_to_sample_is_said(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="there is no"):
        sample_folder(tmp_path / "missing")
    with pytest.raises(DatasetError, match="no image is found there"):
        sample_folder(tmp_path)
    with pytest.raises(DatasetError, match="holds no image of format webp"):
        sample_folder(folder, ["webp"])
