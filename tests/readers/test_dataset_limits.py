"""max_pixels on the datasets: the same limit through every path from a file to a sample."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import corpus
import pytest
import torch
from PIL import Image

import fastpipe
from fastpipe import core, readers
from fastpipe import transforms as T
from fastpipe.errors import DecodeError
from fastpipe.readers import limits


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "images" / "one"
    folder.mkdir(parents=True)
    (folder / "a.jpg").write_bytes(corpus.jpeg(60, 80))
    (folder / "b.jpg").write_bytes(corpus.with_segment(corpus.jpeg(60, 80), 0xE1, corpus.exif(6)))
    (folder / "c.png").write_bytes(corpus.save(corpus.photo(60, 80), "PNG"))
    return folder.parent


TRANSFORMS = {
    "none": None,
    "planned": T.Compose([T.CenterCrop(16), T.ToTensor()]),
    "foreign": T.Compose([lambda image: image.crop((0, 0, 16, 16)), T.ToTensor()]),
}


@pytest.mark.parametrize("apply_exif", [False, True])
@pytest.mark.parametrize("kind", TRANSFORMS)
def test_images_above_are_warned_about_and_far_above_refused(root: Path, kind: str, apply_exif: bool) -> None:
    for limit, refused in ((2399, True), (2400, False), (4799, False)):
        data = fastpipe.ImageFolder(root, TRANSFORMS[kind], max_pixels=limit, apply_exif=apply_exif)
        assert data.max_pixels == limit
        for index in range(3):
            if refused:
                with pytest.raises(DecodeError, match=f"exceeds limit of {2 * limit} pixels"):
                    data[index]
            else:
                with pytest.warns(Image.DecompressionBombWarning):
                    data[index]


def test_in_batches_and_lists(root: Path) -> None:
    paths = sorted(str(path) for path in root.rglob("*.*"))
    few = fastpipe.ImageList((paths, [0, 1, 2]), TRANSFORMS["planned"], max_pixels=1000)
    with pytest.raises(DecodeError, match="exceeds limit"):
        next(iter(fastpipe.DataLoader(few, batch_size=3)))
    some = fastpipe.ImageList((paths, [0, 1, 2]), TRANSFORMS["planned"], max_pixels=None)
    images, targets = next(iter(fastpipe.DataLoader(some, batch_size=3)))
    assert images.shape == (3, 3, 16, 16)
    assert torch.equal(targets, torch.arange(3))


def test_the_variable_holds_for_datasets(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = fastpipe.ImageFolder(root, TRANSFORMS["planned"])
    monkeypatch.setenv("FASTPIPE_MAX_PIXELS", "1000")
    with pytest.raises(DecodeError, match="exceeds limit of 2000"):
        data[0]
    monkeypatch.setenv("FASTPIPE_MAX_PIXELS", "none")
    assert data[0][0].shape == (3, 16, 16)


def test_a_limit_that_is_none_is_told_at_once(root: Path) -> None:
    with pytest.raises(ValueError, match="max_pixels=0"):
        fastpipe.ImageFolder(root, max_pixels=0)


@pytest.mark.needs_core
def test_the_core_takes_no_more_memory_than_the_limit_allows(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A progressive JPEG's coefficients are kept whole: where that is too much the core says so, and Pillow decodes."""
    data = corpus.save(corpus.photo(60, 80), "JPEG", progressive=True)
    (root / "one" / "d.jpg").write_bytes(data)
    expected = [fastpipe.ImageFolder(root, TRANSFORMS["planned"])[index][0] for index in range(4)]
    asked: list[int] = []

    def noting(name: str) -> None:
        read = getattr(core.Job, name)

        def noted(self: core.Job, *where: Any) -> None:
            asked.append(where[-1][1] if isinstance(where[-1], tuple) else 0)  # the limits come last
            read(self, *where)

        monkeypatch.setattr(core.Job, name, noted)

    monkeypatch.setenv("FASTPIPE_MAX_PIXELS", "5000")
    for name in ("read", "read_place"):
        noting(name)
    for least, per_pixel in ((1 << 26, 8), (1, 1)):  # the second ones are too little for 60 x 80 pixels' coefficients
        monkeypatch.setattr(limits, "_LEAST_SCRATCH", least)
        monkeypatch.setattr(limits, "_SCRATCH_A_PIXEL", per_pixel)
        refused = pytest.raises(DecodeError, match="than the limits allow") if least == 1 else nullcontext()
        with refused:
            readers.get_reader("core").decode(data)
        some = fastpipe.ImageFolder(root, TRANSFORMS["planned"], max_pixels=5000)
        asked.clear()
        assert all(torch.equal(some[index][0], expected[index]) for index in range(4))
        assert max(least, 10_000 * per_pixel) in asked
        asked.clear()
        images, _ = next(iter(fastpipe.DataLoader(some, batch_size=4)))
        assert torch.equal(images, torch.stack(expected))
        assert max(least, 10_000 * per_pixel) in asked
    asked.clear()
    assert torch.equal(fastpipe.ImageFolder(root, TRANSFORMS["planned"], max_pixels=None)[3][0], expected[3])
    assert set(asked) == {1 << 32}  # without a limit of pixels, too, there is one
