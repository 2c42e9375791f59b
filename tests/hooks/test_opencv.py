"""OpenCV's `imread` and `imdecode` by the core: OpenCV's own results, messages and refusals."""

from __future__ import annotations

import copy
import inspect
import io
import os
import pickle
import re
import struct
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import corpus
import cv2
import numpy as np
import pytest
from deep_png import GRAY, RGB, file_of, samples_of
from fuzz.mutate import mutation
from PIL import Image

import fastpipe
from fastpipe.errors import FastpipeWarning
from fastpipe.hooks import opencv
from fastpipe.hooks.ledger import LEDGER
from fastpipe.hooks.patches import Patches
from fastpipe.plain_way import plainly

pytestmark = pytest.mark.needs_core

HAS_RGB = hasattr(cv2, "IMREAD_COLOR_RGB")  # since OpenCV 4.11
FLAGS = (-1, 0, 1, 2, 3, 4, 5, 6, 7, 16, 128, 129, 256, 257, 384)


def images_of_imdecode() -> int:
    """The number of images in the account."""
    return LEDGER.site("function", "cv2.imdecode").images


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    with fastpipe.install(check=0):
        yield


def outcome(function: Any, *args: Any, **kwargs: Any) -> Any:
    """A function's result, or the text of OpenCV's error."""
    try:
        return function(*args, **kwargs)
    except cv2.error as error:
        return str(error)


def assert_same(made: Any, expected: Any, what: object = None) -> None:
    assert type(made) is type(expected), what
    if isinstance(expected, np.ndarray):
        assert np.array_equal(made, expected), what
        assert made.dtype == expected.dtype, what
        assert made.strides == expected.strides, what
        assert made.flags.owndata == expected.flags.owndata, what
        assert made.flags.writeable == expected.flags.writeable, what
    else:
        assert made == expected, what


def taken(data: bytes, flags: int = 1) -> bool:
    """Decodes as OpenCV does, both ways, and says whether it was the core that did it."""
    before = images_of_imdecode()
    array = np.frombuffer(data, np.uint8)
    made = outcome(cv2.imdecode, array, flags)
    with plainly():
        assert_same(made, outcome(cv2.imdecode, array, flags), flags)
    return images_of_imdecode() > before


def test_all_kinds_of_files(tmp_path: Path) -> None:
    path = tmp_path / "image"
    by_core = set()
    for name, data in corpus.files().items():
        path.write_bytes(data)
        for flags in (1,) if any(word in name for word in ("-cut-", "-claims-", "-flipped-")) else FLAGS:
            if taken(data, flags):
                by_core.add((name, flags))
        made = outcome(cv2.imread, str(path))
        with plainly():
            assert_same(made, outcome(cv2.imread, str(path)), name)
    assert {("jpeg-444", 0), ("jpeg-420", 0), ("jpeg-progressive", 0)} <= by_core
    for name in ("jpeg-444", "jpeg-420", "jpeg-progressive", "jpeg-gray", "png-rgb", "png-palette"):
        assert any(one.startswith(name) for one, _ in by_core), name
    assert {flags for _, flags in by_core} == set(FLAGS) - {5, 7, 16, 257} - (set() if HAS_RGB else {256, 384})


def _captured(capfd: pytest.CaptureFixture[str], data: bytes, flags: int) -> tuple[Any, str]:
    capfd.readouterr()
    made = outcome(cv2.imdecode, np.frombuffer(data, np.uint8), flags)
    return made, re.sub(r"@\d+\.\d+", "", capfd.readouterr().err)  # the time in OpenCV's messages


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.slow if seed else ()) for seed in range(6)])
def test_damaged_files_give_the_same_messages(seed: int, capfd: pytest.CaptureFixture[str]) -> None:
    count = 0
    for number in range(500):
        _, data = mutation(38 + seed, number, ("jpeg", "png"))
        before = images_of_imdecode()
        flags = number % 2
        made, messages = _captured(capfd, data, flags)
        if images_of_imdecode() == before:
            continue  # OpenCV's own: of some damaged files each call gives others
        count += 1
        with plainly():
            expected, plain_messages = _captured(capfd, data, flags)
        assert_same(made, expected, number)
        assert messages == plain_messages, number
    assert count > 20


@pytest.mark.parametrize("text", ["scan", "data", "revision", "second"])
def test_what_libjpeg_warns_about(text: str, capfd: pytest.CaptureFixture[str]) -> None:
    data = corpus.jpeg(30, 40)
    scan = data.index(b"\xff\xda")
    end = scan + 2 + int.from_bytes(data[scan + 2 : scan + 4], "big")
    data = {
        "scan": data[: end - 2] + b"\x3e" + data[end - 1 :],
        "data": data[:-2] + bytes(20) + data[-2:],
        "revision": data.replace(b"JFIF\0\1", b"JFIF\0\5"),
        "second": data[:20] + data[2:20].replace(b"JFIF\0\1", b"JFIF\0\5") + data[20:],
    }[text]
    before = images_of_imdecode()
    _, messages = _captured(capfd, data, 1)
    assert images_of_imdecode() == before
    assert messages


def _with_exif(tiff: bytes) -> bytes:
    return corpus.with_segment(corpus.jpeg(30, 47), 0xE1, b"Exif\0\0" + tiff)


@pytest.mark.parametrize("big_endian", [False, True])
@pytest.mark.parametrize("orientation", range(10))
def test_orientations(orientation: int, big_endian: bool) -> None:
    data = corpus.with_segment(corpus.jpeg(30, 47), 0xE1, corpus.exif(orientation, big_endian))
    for flags in (0, 1, 129, 256, -1, 4):
        assert taken(data, flags) == (flags != 256 or HAS_RGB)
    upright = cv2.imdecode(np.frombuffer(data, np.uint8), 1)
    assert upright.shape == ((47, 30, 3) if 5 <= orientation <= 8 else (30, 47, 3))


def test_orientations_of_gray_images() -> None:
    for orientation in range(1, 9):
        for flags in (0, 1, 4):
            assert taken(corpus.with_segment(corpus.jpeg(30, 47, "gray"), 0xE1, corpus.exif(orientation)), flags)


def _entries(*entries: tuple[int, int, int, int]) -> bytes:
    """EXIF data of these entries: tag, type, number of values, value."""
    return b"II*\0" + struct.pack("<IH", 8, len(entries)) + b"".join(struct.pack("<HHII", *one) for one in entries)


@pytest.mark.parametrize(
    ("tiff", "by_core"),
    [
        (_entries((0x010E, 2, 3, 0), (0x0112, 3, 1, 6), (0x011A, 5, 1, 8)), True),
        (_entries((0x010E, 2, 9, 8), (0x0112, 3, 1, 6)), True),
        (_entries((0x0100, 3, 1, 9), (0x0112, 3, 1, 6)), True),  # a tag that OpenCV doesn't know
        (_entries((0x0112, 3, 1, 200)), True),
        (_entries((0x0110, 2, 3, 0), (0x011A, 5, 1, 8), (0x0131, 2, 3, 0)), True),
        (_entries((0x010E, 3, 900, 0), (0x0112, 3, 1, 6)), False),  # the text isn't there
        (_entries((0x010E, 99, 900, 0), (0x0112, 3, 1, 6)), False),  # nor of any type
        (_entries((0x011A, 5, 1, 8), (0x0112, 3, 1, 6)), False),  # in no order
        (_entries((0x0112, 4, 1, 6)), False),
        (_entries((0x0112, 3, 1, 6), (0x0112, 3, 1, 3)), False),
        (_entries((0x0112, 3, 1, 6))[:-5], False),
        (b"II*\0", False),
        (b"", False),
        (b"XX*\0" + bytes(20), False),
    ],
)
def test_odd_exif_data(tiff: bytes, by_core: bool) -> None:
    assert taken(_with_exif(tiff)) == by_core


def test_xmp_turns_no_image() -> None:
    xmp = b'http://ns.adobe.com/xap/1.0/\0<x tiff:Orientation="6"/>'
    plain = corpus.jpeg(30, 47)
    assert taken(corpus.with_segment(plain, 0xE1, xmp))
    both = corpus.with_segment(corpus.with_segment(plain, 0xE1, corpus.exif(3)), 0xE1, xmp)
    assert not taken(both)  # the first segment is XMP: not all versions of OpenCV look at the second
    assert not taken(corpus.with_segment(plain, 0xE1, b"Other\0" + corpus.exif(6)[6:]))
    assert not taken(corpus.with_segment(plain, 0xE1, b"Exif\0\1" + corpus.exif(6)[6:]))


@pytest.mark.parametrize("name", [b"eXIf", b"tEXt", b"iCCP", b"zzzz"])
def test_chunks_of_pngs_that_opencv_may_speak_of(name: bytes) -> None:
    data = corpus.save(corpus.photo(20, 30), "PNG")
    assert taken(data)
    assert not taken(corpus.with_chunk(data, name, b"Raw profile type exif\0\nexif\n       0\n"))


@pytest.mark.parametrize("flags", FLAGS)
def test_sixteen_bits(flags: int) -> None:
    """Depth maps and X-rays; OpenCV makes 8 bits of them without IMREAD_ANYDEPTH, and gray of colours itself."""
    known = flags not in (5, 7, 16, 257) and (HAS_RGB or flags not in (256, 384))
    for height, width in ((13, 27), (1, 1), (1, 9), (9, 1)):
        assert taken(file_of(samples_of(height, width, GRAY, 65536), (0, 1, 2, 3, 4)), flags) == known
        in_colours = taken(file_of(samples_of(height, width, RGB, 65536), (0, 1, 2, 3, 4)), flags)
        assert in_colours == (known and flags not in (0, 2, 128))


def test_sixteen_bits_that_opencv_may_read_otherwise(tmp_path: Path) -> None:
    samples = samples_of(20, 30, GRAY, 999)
    for flags in (-1, 0, 1):
        assert not taken(file_of(samples, before=corpus.chunk(b"tRNS", b"\0\7")), flags)
    data = file_of(samples)
    assert taken(data, -1)
    for damaged in (data[:-20], data[:50], data[:-14] + b"x" + data[-13:]):
        taken(damaged, -1)
    path = tmp_path / "depth.png"
    path.write_bytes(data)
    np.testing.assert_array_equal(cv2.imread(str(path), cv2.IMREAD_UNCHANGED), samples, strict=True)


def _with_palette(colors: int, largest: int, size: tuple[int, int] = (13, 27)) -> bytes:
    """A PNG of random indices up to `largest`, with a palette of random colours."""
    random = np.random.default_rng(colors)
    image = Image.fromarray(random.integers(0, largest + 1, size, np.uint8))
    image.putpalette(random.integers(0, 256, 3 * colors, np.uint8).tobytes())
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize("flags", [0, 2, 128, 130])
@pytest.mark.parametrize("colors", [2, 4, 16, 256])
def test_masks_with_a_palette_are_gray(colors: int, flags: int) -> None:
    for size in ((13, 27), (1, 1), (1, 9), (9, 1)):
        assert taken(_with_palette(colors, colors - 1, size), flags), size


@pytest.mark.parametrize("colors", [1, 3, 9, 255])
def test_indices_may_have_no_colour(colors: int) -> None:
    taken(_with_palette(colors, colors), 0)


@pytest.mark.parametrize("change", [lambda palette: b"", lambda palette: 2 * palette], ids=["none", "two"])
def test_palettes_that_are_missing_or_there_twice_are_opencvs_to_read(change: Any) -> None:
    data = _with_palette(16, 15)
    start = data.index(b"PLTE") - 4
    end = start + 12 + 48
    assert not taken(data[:start] + change(data[start:end]) + data[end:], 0)


def test_names(tmp_path: Path) -> None:
    site = LEDGER.site("function", "cv2.imread")
    data = corpus.jpeg(20, 30)
    expected = cv2.imdecode(np.frombuffer(data, np.uint8), 1)
    for name in ("plain.jpg", "Köln 上海 ✓.jpg", "no ending", "png.png"):
        (tmp_path / name).write_bytes(data)
        before = site.images
        np.testing.assert_array_equal(cv2.imread(str(tmp_path / name)), expected)
        np.testing.assert_array_equal(cv2.imread(filename=str(tmp_path / name), flags=cv2.IMREAD_COLOR), expected)
        assert site.images == before + 2
    (tmp_path / "empty").touch()
    for other in (
        tmp_path / "none.jpg",
        tmp_path,
        tmp_path / "empty",
        "",
        "a\0b",
        b"x",
        tmp_path / "plain.jpg",
        3,
        None,
    ):
        name_of: Any = str(other) if isinstance(other, Path) and other.suffix != ".jpg" else other
        made = _outcome_of_any(name_of)
        with plainly():
            assert_same(made, _outcome_of_any(name_of), other)


def _outcome_of_any(name: Any) -> Any:
    try:
        return outcome(cv2.imread, name)
    except Exception as error:
        return type(error).__name__, str(error)


def test_arguments(tmp_path: Path) -> None:
    data = corpus.jpeg(20, 30)
    array = np.frombuffer(data, np.uint8)
    path = tmp_path / "x.jpg"
    path.write_bytes(data)
    out = np.zeros((20, 30, 3), np.uint8)
    for args, kwargs in (
        ((array, 1, out), {}),
        ((array, 1), {"dst": out}),
        ((array,), {"flags": np.int64(1)}),
        ((array[None], 1), {}),
        ((array[:, None], 1), {}),
        ((array.view(np.int8), 1), {}),
        ((array[::-1], 1), {}),
        ((np.repeat(array, 2)[::2], 1), {}),
        ((data, 1), {}),
        ((bytearray(data), 1), {}),
        ((array, True), {}),
        ((array, 1.0), {}),
        ((array, "1"), {}),
        ((array,), {}),
        ((), {}),
        ((array[:0], 1), {}),
        ((array, 1), {"flags": 1}),
        ((array, 1), {"nothing": 1}),
    ):
        made = _outcome_or_error(cv2.imdecode, args, kwargs)
        with plainly():
            assert_same(made, _outcome_or_error(cv2.imdecode, args, kwargs), (args[1:], kwargs))
    made = _outcome_or_error(cv2.imread, (str(path), out), {})
    with plainly():
        assert_same(made, _outcome_or_error(cv2.imread, (str(path), out), {}), "a place for the image")


def _outcome_or_error(function: Any, args: Any, kwargs: Any) -> Any:
    try:
        return outcome(function, *args, **kwargs)
    except TypeError as error:
        return str(error)


def test_it_passes_for_opencvs_own() -> None:
    with plainly():
        pass
    ours = cv2.imread
    assert isinstance(ours, types.BuiltinFunctionType)
    assert inspect.isbuiltin(ours)
    assert repr(ours) == "<built-in function imread>"
    assert (ours.__name__, ours.__qualname__, ours.__module__) == ("imread", "imread", None)
    assert str(ours.__doc__).startswith("imread(filename")
    assert pickle.loads(pickle.dumps(ours)) is ours
    assert copy.deepcopy(ours) is ours
    kept = pickle.dumps(ours)
    fastpipe.uninstall()
    plain = cv2.imread
    assert type(plain) is types.BuiltinFunctionType
    assert pickle.dumps(plain) == kept
    assert ours("none.jpg") is None  # where others hold it, it does what OpenCV's does


def test_as_the_attribute_of_a_class(tmp_path: Path) -> None:
    class Reader:
        read = cv2.imread

    path = tmp_path / "x.jpg"
    path.write_bytes(corpus.jpeg(20, 30))
    assert Reader().read(str(path)).shape == (20, 30, 3)


def test_a_difference_is_said_and_the_plain_image_taken(fresh_ledger: None, monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.frombuffer(corpus.jpeg(20, 30), np.uint8)
    right = opencv.decode
    with plainly():
        expected = cv2.imdecode(data, 1)
    fastpipe.uninstall()
    with fastpipe.install(check=1):
        # One that is right is counted as checked.
        np.testing.assert_array_equal(cv2.imdecode(data, 1), expected)
        site = LEDGER.site("function", "cv2.imdecode")
        assert (site.images, site.checked, site.differed) == (1, 1, 0)
    monkeypatch.setattr(LEDGER, "_sites", {})
    monkeypatch.setattr(
        opencv, "decode", lambda data, wanted: np.ascontiguousarray(255 - np.asarray(right(data, wanted)))
    )
    with fastpipe.install(check=1):
        with pytest.warns(FastpipeWarning, match="cv2.imdecode gave other values than the library itself"):
            np.testing.assert_array_equal(cv2.imdecode(data, 1), expected)
        np.testing.assert_array_equal(cv2.imdecode(data, 1), expected)
        site = LEDGER.site("function", "cv2.imdecode")
        assert (site.images, site.differed, site.is_off) == (1, 1, True)


def test_limits_of_opencvs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENCV_IO_MAX_IMAGE_PIXELS", "100")
    module, patches = types.ModuleType("cv2"), Patches()
    vars(module).update(imread=lambda *given: given, imdecode=lambda *given: given)
    opencv.hook(module, patches)
    assert module.imread("x", 1) == ("x", 1)
    assert module.imdecode(b"x", 1) == (b"x", 1)


def test_a_process_without_torch(tmp_path: Path) -> None:
    path = tmp_path / "x.jpg"
    path.write_bytes(corpus.jpeg(20, 30))
    code = f"""
import sys, types
import fastpipe
fastpipe.install()
import cv2
from fastpipe.hooks.ledger import LEDGER
for _ in range(3):
    assert cv2.imread({str(path)!r}).shape == (20, 30, 3)
site = LEDGER.site("function", "cv2.imread")
assert (site.images, site.checked, site.differed) == (3, 2, 0), site
assert not {{"torch", "PIL", "torchvision"}} & set(sys.modules)
fastpipe.uninstall()
assert type(cv2.imread) is types.BuiltinFunctionType
assert type(sys.modules["cv2"].imdecode) is types.BuiltinFunctionType
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ)
