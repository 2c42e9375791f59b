"""ImageIndex with sizes: asked for when they are wanted, kept, and asked for again of what changed."""

from __future__ import annotations

import functools
import os
import time
from pathlib import Path

import pytest
from PIL import Image

from fastpipe.datasets import ImageIndex
from fastpipe.index import local_scan
from fastpipe.sources import threads


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    root = tmp_path / "photos"
    (root / "a").mkdir(parents=True)
    (root / "b").mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (31, 17)).save(root / "a/plain.jpg")
    Image.new("RGB", (9, 300)).save(root / "a/progressive.jpg", progressive=True)
    Image.new("CMYK", (20, 10)).save(root / "a/cmyk.jpg")
    Image.new("RGB", (5, 6)).save(root / "b/really a png.jpg", format="PNG")
    Image.new("RGB", (7, 8)).save(root / "b/turned.jpg", exif=exif)
    (root / "b/zero.png").write_bytes(b"")
    return root


@pytest.mark.parametrize("patience_s", [threads._PATIENCE_S, 0.0], ids=["quick disk", "slow disk"])
def test_sizes(photos, settled, monkeypatch, patience_s):
    monkeypatch.setattr(threads, "_PATIENCE_S", patience_s)
    index = ImageIndex.from_folder(photos, sizes=True)
    assert index.sizes.tolist() == [os.path.getsize(path) for path in sorted(photos.glob("*/*"))]
    assert ImageIndex.from_folder(photos, sizes=True).origin == "opened"


def test_only_files_of_folders_that_changed_are_asked_for_theirs(photos, settled, monkeypatch):
    ImageIndex.from_folder(photos, sizes=True)
    time.sleep(0.02)
    Image.new("RGB", (3, 4)).save(photos / "a/0.webp")
    asked = []
    size_of = local_scan._size_of
    monkeypatch.setattr(local_scan, "_size_of", lambda path: asked.append(path) or size_of(path))
    index = ImageIndex.from_folder(photos)
    assert sorted(asked) == sorted(map(str, photos.glob("a/*")))
    assert index.sizes.tolist() == [os.path.getsize(path) for path in sorted(photos.glob("*/*"))]


def test_asked_for_later(photos, settled):
    assert ImageIndex.from_folder(photos).sizes is None
    sizes = ImageIndex.from_folder(photos, sizes=True)
    assert sizes.origin == "built: it had no sizes of the files"
    assert ImageIndex.from_folder(photos).generation == sizes.generation


def test_a_rewritten_file_is_seen_by_a_refresh(photos, settled):
    before = ImageIndex.from_folder(photos, sizes=True)
    with open(photos / "b/zero.png", "r+b") as file:
        Image.new("RGB", (2, 1)).save(file, format="PNG")
    assert ImageIndex.from_folder(photos).generation == before.generation
    after = ImageIndex.from_folder(photos, sizes=True, refresh=True)
    assert (before.sizes[-1], after.sizes[-1]) == (0, os.path.getsize(photos / "b/zero.png"))


@pytest.mark.parametrize("number_of_threads", [0, 1, 3, None])
def test_threads_give_results_in_order_and_take_few_items_ahead(number_of_threads, monkeypatch):
    taken = []

    def items():
        for number in range(100):
            taken.append(number)
            yield number

    if number_of_threads is None:  # as the disk proves slow, in the middle of it
        monkeypatch.setattr(threads, "_PATIENCE_S", 0.01)
        mapped = threads.map_patiently
    else:
        mapped = functools.partial(threads.map_in_threads, threads=number_of_threads)
    results = mapped(lambda number: (time.sleep(number % 3 / 1000), -number)[1], items())
    assert next(results) == (0, 0)
    assert len(taken) <= 4 * (number_of_threads or 0) + 1
    assert list(results) == [(number, -number) for number in range(1, 100)]
    with pytest.raises(ZeroDivisionError):
        list(mapped(lambda number: 1 // number, [2, 1, 0, 1]))
