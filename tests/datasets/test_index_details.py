"""ImageIndex with sizes and headers: read when asked for, kept, and read again for what changed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from PIL import Image

from fastpipe.datasets import ImageIndex
from fastpipe.sources.threads import map_in_threads


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


def test_headers(photos, settled):
    index = ImageIndex.from_folder(photos, headers=True)
    table = index.table
    assert [index.formats[number] for number in table.formats] == ["JPEG", "JPEG", "JPEG", "PNG", "JPEG", ""]
    rows = list(zip(table.widths.tolist(), table.heights.tolist(), table.flags.tolist(), strict=True))
    assert rows == [(20, 10, 2), (31, 17, 0), (9, 300, 1), (5, 6, 0), (7, 8, 0), (0, 0, 128)]
    assert table.orientations.tolist() == [1, 1, 1, 1, 6, 1]
    assert table.sizes.tolist() == [os.path.getsize(path) for path in sorted(photos.glob("*/*"))]
    assert ImageIndex.from_folder(photos, headers=True).origin == "opened"


def test_only_new_files_are_read_and_numbers_of_formats_stay(photos, settled):
    ImageIndex.from_folder(photos, headers=True)
    time.sleep(0.02)
    Image.new("RGB", (3, 4)).save(photos / "a/0.webp")
    index = ImageIndex.from_folder(photos)
    names = [index.formats[number] for number in index.table.formats]
    assert names == ["WEBP", "JPEG", "JPEG", "JPEG", "PNG", "JPEG", ""]
    assert index.table.widths.tolist() == [3, 20, 31, 9, 5, 7, 0]


def test_asked_for_later(photos, settled):
    assert ImageIndex.from_folder(photos).sizes is None
    sizes = ImageIndex.from_folder(photos, sizes=True)
    assert sizes.table.heights is None
    assert sizes.origin == "built: it had no sizes of the files"
    headers = ImageIndex.from_folder(photos, headers=True)
    assert headers.origin == "built: it had no headers of the files"
    assert headers.sizes.tolist() == sizes.sizes.tolist()
    assert ImageIndex.from_folder(photos, sizes=True).generation == headers.generation


def test_a_rewritten_file_is_seen_by_a_refresh(photos, settled):
    before = ImageIndex.from_folder(photos, headers=True)
    with open(photos / "b/zero.png", "r+b") as file:
        Image.new("RGB", (2, 1)).save(file, format="PNG")
    assert ImageIndex.from_folder(photos).generation == before.generation
    after = ImageIndex.from_folder(photos, headers=True, refresh=True)
    assert (after.table.widths[-1], after.table.flags[-1]) == (2, 0)


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_threads_give_results_in_order_and_take_few_items_ahead(threads):
    taken = []

    def items():
        for number in range(100):
            taken.append(number)
            yield number

    results = map_in_threads(lambda number: (time.sleep(number % 3 / 1000), -number)[1], items(), threads)
    assert next(results) == (0, 0)
    assert len(taken) <= 4 * threads + 1
    assert list(results) == [(number, -number) for number in range(1, 100)]
    with pytest.raises(ZeroDivisionError):
        list(map_in_threads(lambda number: 1 // number, [2, 1, 0, 1], threads))
