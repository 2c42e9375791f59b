"""max_pixels: Pillow's limit with Pillow's meaning, the same through every reader; no memory on a header's word."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import warnings
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import corpus
import numpy as np
import pytest
from PIL import Image

from fastpipe import readers
from fastpipe.errors import ConfigError, DecodeError
from fastpipe.types import Box

NAMES = ("jpeg-420", "jpeg-progressive", "jpeg-cmyk", "png-rgb", "png-palette", "webp", "gif", "bmp", "tiff")
READERS = readers.available_readers()


def _pixels(name: str) -> int:
    expected = corpus.reference(name)
    assert expected is not None
    return expected.shape[0] * expected.shape[1]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", NAMES)
def test_above_the_limit_is_warned_about_and_above_twice_refused(reader: str, name: str) -> None:
    data, count = corpus.files()[name], _pixels(name)
    for limit in (count, count * 2):
        np.testing.assert_array_equal(readers.read_image(data, reader=reader, max_pixels=limit), corpus.reference(name))
    for limit in (count - 1, -(-count // 2)):
        with pytest.warns(Image.DecompressionBombWarning, match=f"{count} pixels.* limit of {limit} pixels") as caught:
            pixels = readers.read_image(data, reader=reader, max_pixels=limit)
        np.testing.assert_array_equal(pixels, corpus.reference(name))
        assert len(caught) == 1
        assert caught[0].filename == __file__
    for box in (None, (0, 0, 1, 1)):  # the image counts, not what is asked for of it
        with pytest.raises(DecodeError, match=r"exceeds limit.*max_pixels") as refused:
            readers.read_image(data, reader=reader, region=box, max_pixels=(count - 1) // 2)
        assert isinstance(refused.value.__cause__, Image.DecompressionBombError)
        with pytest.raises(DecodeError, match="exceeds limit"):
            readers.decode(data, box and Box(*box), reader=reader, max_pixels=(count - 1) // 2)


def test_it_is_pillows_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow's own answer, under the same limit, for limits around every corner."""
    data, count = corpus.files()["bmp"], _pixels("bmp")

    def outcome(read: Callable[[], object]) -> str:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                read()
            except (DecodeError, Image.DecompressionBombError):
                return "refused"
        return "warned about" if caught else "read"

    for limit in (1, count // 2 - 1, count // 2, count // 2 + 1, count - 1, count, count + 1, None):
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        pillows = outcome(lambda: Image.open(io.BytesIO(data)).convert("RGB"))
        assert outcome(lambda: readers.read_image(data)) == pillows
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10**9)
        assert outcome(partial(readers.read_image, data, max_pixels=limit)) == pillows


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("error")
def test_a_limit_above_pillows_own(monkeypatch: pytest.MonkeyPatch, reader: str, name: str) -> None:
    expected, data = corpus.reference(name), corpus.files()[name]
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 500)
    for limit in (None, 10**6):
        for box in (None, Box(3, 5, 40, 50)):
            wanted = expected if box is None else expected[box.top : box.bottom, box.left : box.right]
            # Two of Pillow's plugins hold to Pillow's own limit by themselves.
            may_refuse = name == "tiff" or (name == "webp" and reader != "cv2")
            try:
                pixels = readers.decode(data, box, reader=reader, max_pixels=limit)
            except DecodeError as error:
                if not may_refuse or "PIL.Image.MAX_IMAGE_PIXELS" not in str(error):
                    raise
            else:
                np.testing.assert_array_equal(pixels, wanted)
    assert Image.MAX_IMAGE_PIXELS == 500


def test_the_default_follows_the_variable_or_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    data = corpus.files()["jpeg-420"]
    assert readers.pixel_limit() == Image.MAX_IMAGE_PIXELS
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 4000)
    assert readers.pixel_limit() == 4000
    with pytest.raises(DecodeError, match="exceeds limit of 8000"):
        readers.read_image(data)
    monkeypatch.setenv("FASTPIPE_MAX_PIXELS", "5000")
    with pytest.raises(DecodeError, match="exceeds limit of 10000"):
        readers.read_image(data)
    assert readers.read_image(data, max_pixels=20_000).shape == (97, 131, 3)
    monkeypatch.setenv("FASTPIPE_MAX_PIXELS", "None")
    assert readers.pixel_limit() is None
    assert readers.read_image(data).shape == (97, 131, 3)
    for text in ("many", "0", "-5", "1.5"):
        monkeypatch.setenv("FASTPIPE_MAX_PIXELS", text)
        with pytest.raises(ConfigError, match=f"FASTPIPE_MAX_PIXELS='{text}'"):
            readers.read_image(data)
        assert readers.read_image(data, max_pixels=None).shape == (97, 131, 3)


@pytest.mark.parametrize("limit", [0, -1, 1.5, "all"])
def test_a_limit_that_is_none(limit: object) -> None:
    with pytest.raises(ValueError, match="max_pixels"):
        readers.read_image(corpus.files()["bmp"], max_pixels=limit)


@pytest.mark.filterwarnings("error")
def test_a_header_only_tells_what_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {name: corpus.reference(name).shape[:2] for name in ("jpeg-420", "png-rgb", "gif", "bmp", "tiff", "ppm")}
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    for name, size in sizes.items():
        assert readers.read_header(corpus.files()[name]).size == size


def _claiming(data: bytes, height: int, width: int) -> bytes:
    """A JPEG with another size in its frame."""
    frame = next(at for marker, at in corpus._segments(data).items() if 0xC0 <= marker <= 0xC2)
    return data[: frame + 5] + struct.pack(">HH", height, width) + data[frame + 9 :]


def bombs() -> dict[str, bytes]:
    """Small files that come to gigabytes, or claim to."""
    small, picture = corpus.photo(16, 16), Image.new("P", (8, 8))
    jpeg, progressive = corpus.jpeg(16, 16), corpus.save(small, "JPEG", progressive=True)
    found = {}
    for size in (13_300, 65_500):  # just below Pillow's limit, and far above it
        found[f"jpeg-{size}"] = _claiming(jpeg, size, size)
        found[f"jpeg-{size}-cut"] = _claiming(jpeg, size, size)[:300]
        found[f"jpeg-progressive-{size}"] = _claiming(progressive, size, size)
        found[f"jpeg-cmyk-{size}"] = _claiming(corpus.save(Image.new("CMYK", (16, 16)), "JPEG"), size, size)
        png = corpus.save(small, "PNG")
        head = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
        found[f"png-{size}"] = png[:8] + corpus.chunk(b"IHDR", head) + png[33:]
        bmp = bytearray(corpus.save(small, "BMP"))
        bmp[18:26] = struct.pack("<ii", size, size)
        found[f"bmp-{size}"] = bytes(bmp)
        tiff = bytearray(corpus.save(small, "TIFF"))
        start = int.from_bytes(tiff[4:8], "little")
        for entry in range(start + 2, start + 2 + 12 * int.from_bytes(tiff[start : start + 2], "little"), 12):
            if int.from_bytes(tiff[entry : entry + 2], "little") in (256, 257):
                tiff[entry + 2 : entry + 12] = struct.pack("<HII", 4, 1, size)
        found[f"tiff-{size}"] = bytes(tiff)
    gif = bytearray(corpus.save(picture, "GIF"))
    gif[6:10] = struct.pack("<HH", 65_500, 65_500)
    found["gif-65500"] = bytes(gif)
    try:
        webp = bytearray(corpus.save(small, "WEBP", lossless=True))
        bits = int.from_bytes(webp[21:25], "little") >> 28 << 28 | 16_382 << 14 | 16_382
        webp[21:25] = bits.to_bytes(4, "little")
        found["webp-16383"] = bytes(webp)
    except (OSError, KeyError):  # a Pillow without WebP
        pass
    # A real one: 400 million pixels of nothing, in 50 KB.
    head = struct.pack(">IIBBBBB", 20_000, 20_000, 1, 0, 0, 0, 0)
    deflate = zlib.compressobj(9)
    nothing = b"".join(deflate.compress(bytes(2501 * 100)) for _ in range(200)) + deflate.flush()
    body = corpus.chunk(b"IHDR", head) + corpus.chunk(b"IDAT", nothing) + corpus.chunk(b"IEND", b"")
    return {**found, "png-bomb": b"\x89PNG\r\n\x1a\n" + body}


_REFUSE_ALL = """
import re, sys, warnings
sys.path.insert(0, "tests/readers")
import test_limits
from fastpipe import readers
from fastpipe.errors import DecodeError

warnings.simplefilter("ignore")
def peak():
    try:
        return int(re.search(rb"VmHWM:\\s+(\\d+)", open("/proc/self/status", "rb").read())[1]) >> 10
    except OSError:
        import resource
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> (20 if sys.platform == "darwin" else 10)

found = test_limits.bombs()
for reader in readers.available_readers():
    readers.read_image(test_limits.corpus.files()["jpeg-420"], reader=reader)
before = peak()
for name, data in found.items():
    for reader in readers.available_readers():
        for region in (None, (0, 0, 8, 8)):
            try:
                readers.read_image(data, reader=reader, region=region)
            except DecodeError:
                continue
            print("taken", name, reader, region)
print("grew", peak() - before)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no way to ask for a process's peak memory there")
def test_bombs_take_no_memory() -> None:
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root / "tests"), str(root)])
    done = subprocess.run(
        [sys.executable, "-c", _REFUSE_ALL],
        env={**os.environ, "PYTHONPATH": path},
        cwd=root,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "taken" not in done.stdout
    assert int(done.stdout.split()[-1]) < 100, done.stdout  # MiB; the smallest of these images has 500


@pytest.mark.skipif("core" not in READERS, reason="no core")
def test_without_a_limit_of_pixels_scratch_memory_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A progressive JPEG says that it has 3.6 billion pixels, whose coefficients take 11 GB, to give a crop of 64."""
    monkeypatch.setenv("FASTPIPE_MAX_PIXELS", "none")
    data = bytearray(corpus.files()["jpeg-progressive"])
    at = data.index(b"\xff\xc2") + 5
    data[at : at + 4] = struct.pack(">HH", 60_000, 60_000)
    data[-2:-2] = bytes(4 << 20)  # so that it could have them
    with pytest.raises(DecodeError, match="more pixels, bytes or scans"):
        readers.get_reader("core").decode_region(bytes(data), Box(0, 0, 8, 8))
