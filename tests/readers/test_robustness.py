"""Threads, forks, bad paths, other libraries, and memory that must not be shared."""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import os
import pickle
import subprocess
import sys
from pathlib import Path

import corpus
import numpy as np
import pytest
from PIL import Image

from fastpipe import core, readers
from fastpipe.errors import DecodeError
from fastpipe.types import Box

pytestmark = pytest.mark.filterwarnings("ignore:Corrupt EXIF data:UserWarning")  # Pillow's

REGION = (11, 23, 60, 71)


def _region_is_right(name: str) -> bool:
    top, left, height, width = REGION
    expected = corpus.reference(name)[top : top + height, left : left + width]
    return np.array_equal(readers.read_image(corpus.files()[name], region=REGION), expected)


def test_eight_threads() -> None:
    names = [f"jpeg-{kind}" for kind in (*corpus.SUBSAMPLINGS, "gray", "progressive")] * 40
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(_region_is_right, names))


@pytest.mark.needs_fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_forked_children_decode_on() -> None:
    assert _region_is_right("jpeg-420")
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert all(pool.map(_region_is_right, ["jpeg-420", "jpeg-444", "jpeg-411", "jpeg-progressive"] * 5))
    assert _region_is_right("jpeg-422")


def test_results_of_read_image_share_no_memory() -> None:
    for name in ("jpeg-420", "png-rgb", "webp", "gif", "jpeg-exif-6"):
        if name not in corpus.files():
            continue
        data = corpus.files()[name]
        for options in ({}, {"region": (2, 3, 20, 25)}, {"apply_exif": True}):
            first, second = readers.read_image(data, **options), readers.read_image(data, **options)
            before = first.copy()
            assert not np.shares_memory(first, second)
            assert first.flags.c_contiguous
            assert first.flags.writeable
            second[:] = 0
            readers.decode(data)
            np.testing.assert_array_equal(first, before)


def test_a_small_region_does_not_keep_the_whole_image_alive() -> None:
    pixels = readers.read_image(corpus.files()["png-rgb"], region=(1, 1, 2, 2))
    assert pixels.base is None or pixels.base.nbytes <= 2 * pixels.nbytes


@pytest.mark.parametrize("name", ["empty", "text", "jpeg-420-cut-half", "png-rgb-cut-third"])
@pytest.mark.parametrize("reader", [None, *readers.available_readers()])
def test_a_bad_files_error_names_file_format_reader_and_reason(tmp_path: Path, name: str, reader: str | None) -> None:
    path = tmp_path / f"{name}.jpg"
    path.write_bytes(corpus.files()[name])
    with pytest.raises(DecodeError) as caught:
        readers.read_image(path, reader=reader)
    error = caught.value
    assert error.source == str(path)
    assert error.reader == "pil"
    assert error.reason
    assert error.format == {"j": "JPEG", "p": "PNG"}.get(name[0])
    assert str(path) in str(error)
    assert isinstance(error, OSError)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    for function in (readers.read_image, readers.read_header):
        with pytest.raises(FileNotFoundError, match=r"nowhere\.jpg"):
            function(tmp_path / "nowhere.jpg")
        with pytest.raises(OSError, match=tmp_path.name):
            function(tmp_path)
        with pytest.raises(TypeError, match="int"):
            function(3)


def test_names_that_lie(tmp_path: Path) -> None:
    written = corpus.write_folder(tmp_path, sound_only=True)
    assert readers.read_header(written["jpeg-420-misnamed"]).format == "JPEG"
    assert readers.read_header(written["png-rgb-misnamed"]).format == "PNG"
    for name in ("jpeg-420", "png-rgb"):
        np.testing.assert_array_equal(readers.read_image(written[f"{name}-misnamed"]), corpus.reference(name))


def test_pillows_pixel_limit_holds_for_every_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 5000)
    data = corpus.files()["jpeg-420"]  # 12,707 pixels: more than twice the limit
    for reader in readers.available_readers():
        with pytest.raises(DecodeError, match="exceeds limit"):
            readers.read_image(data, reader=reader)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10000)
    for reader in readers.available_readers():
        with pytest.warns(Image.DecompressionBombWarning):
            readers.read_image(data, reader=reader)


def test_a_damaged_file_does_not_spoil_the_next() -> None:
    for name in ("jpeg-420-cut-half", "jpeg-420-zeros-inside", "jpeg-420-marker-inside", "jpeg-exif-absurd"):
        with contextlib.suppress(DecodeError):
            readers.decode(corpus.files()[name], Box(10, 40, 20, 20))
        assert _region_is_right("jpeg-420")
        assert _region_is_right("jpeg-444")


@pytest.mark.parametrize("reader", readers.available_readers())
def test_a_refused_header_does_not_spoil_the_readers_next(reader: str) -> None:
    good = corpus.jpeg(40, 70)
    chosen = readers.get_reader(reader)
    tables = good[: good.index(b"\xff\xc0")] + b"\xff\xd9"
    for broken in (good[:2] + bytes(9) + good[2:], good[:4] + good[2:], good[:40], good[:-200], good[:2], b"", tables):
        with contextlib.suppress(DecodeError, *chosen.refusals):
            chosen.decode(broken)
        np.testing.assert_array_equal(chosen.decode(good), corpus.pillow_pixels(good))


@pytest.mark.parametrize("reader", readers.available_readers())
def test_sampling_factors_without_a_name_are_refused_or_read(reader: str) -> None:
    data = corpus.jpeg(40, 70, "444")
    odd = corpus.patched(data, data.index(b"\xff\xc0") + 11, 0x14)
    chosen = readers.get_reader(reader)
    with contextlib.suppress(DecodeError, *chosen.refusals):
        chosen.decode(odd)
    np.testing.assert_array_equal(readers.read_image(odd, reader=reader), corpus.pillow_pixels(odd))


@pytest.mark.parametrize(
    ("marker", "body"),
    [
        (0xE0, b"JFIF\0"),
        (0xE0, b"JFIF"),
        (0xE0, b"JFIF\0\1"),
        (0xEE, b"Adobe"),
        (0xEE, b"Adobe\0"),
        (0xE2, b"ICC_PROFILE\0"),
        (0xE2, b"ICC_PROFILE\0\1"),
        (0xED, b"Photoshop 3.0\0" + b"8BIM\4\4"),
        (0xED, b"Photoshop 3.0\0" + b"8BIM\4\4\0\0\0\0\0\2ab" + b"8BIM\4\4"),
    ],
)
def test_segments_too_short_for_pillow_are_refused(marker: int, body: bytes) -> None:
    good = corpus.jpeg(40, 70)
    data = corpus.with_segment(good, marker, body)
    expected = corpus.pillow_pixels(data)  # None; another version may take what this one refuses
    for reader in readers.available_readers():
        if expected is None:
            with pytest.raises(DecodeError):
                readers.read_image(data, reader=reader)
        else:
            np.testing.assert_array_equal(readers.read_image(data, reader=reader), expected)


@pytest.mark.parametrize(
    ("marker", "body"),
    [
        (0xE0, b"JFIF\0\1\1"),
        (0xEE, b"Adobe\0\1"),
        (0xE2, b"ICC_PROFILE\0\1\1"),
        (0xED, b"Photoshop 3.0\0" + b"8BIM\4\4\0\0\0\0\0\2ab"),
        (0xED, b"Photoshop 3.0\0" + b"8BIM\4"),
    ],
)
def test_short_segments_that_pillow_takes_are_read_fast(marker: int, body: bytes) -> None:
    data = corpus.with_segment(corpus.jpeg(40, 70), marker, body)
    assert readers.parse_header(data).plain == core.available()
    for reader in readers.available_readers():
        np.testing.assert_array_equal(readers.read_image(data, reader=reader), corpus.pillow_pixels(data))


def _run(script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(corpus.__file__).parent), str(Path(readers.__file__).parents[2])])
    environment = {**os.environ, "PYTHONPATH": path, **variables}
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], env=environment, capture_output=True, text=True
    )


def test_importing_the_readers_loads_no_library() -> None:
    done = _run(
        "import sys, fastpipe.readers\n"
        "heavy = {'cv2', 'imageio', 'turbojpeg', 'torch'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert done.stdout.strip() == "[]", done.stderr
