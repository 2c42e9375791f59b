"""PNGs with chunks beside their pixels by ``cv2.imdecode``: OpenCV's pixels, and no warning that isn't given."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import corpus
import numpy as np
import pytest
from deep_png import GRAY, RGB, file_of, samples_of
from PIL import ImageCms

import fastpipe
from fastpipe.hooks.ledger import LEDGER
from fastpipe.hooks.png_chunks import is_quiet
from fastpipe.plain_way import plainly

cv2 = pytest.importorskip("cv2")
pytestmark = pytest.mark.needs_core

FLAGS = (-1, 0, 1, 2, 4, 129, 256)
PRIMARIES = (31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000)
NEWEST = (1, 6, 58)


def profile(space: str = "sRGB") -> bytes:
    return ImageCms.ImageCmsProfile(ImageCms.createProfile(space)).tobytes()


def changed(place: int, content: bytes) -> bytes:
    whole = profile()
    return whole[:place] + content + whole[place + len(content) :]


def icc(content: bytes, before: bytes = b"ICC\0\0", after: bytes = b"") -> tuple[bytes, bytes]:
    return b"iCCP", before + zlib.compress(content) + after


def gamma(value: int) -> tuple[bytes, bytes]:
    return b"gAMA", struct.pack(">I", value)


def primaries(*values: int) -> tuple[bytes, bytes]:
    return b"cHRM", struct.pack(">8I", *values)


def time(*values: int) -> tuple[bytes, bytes]:
    return b"tIME", struct.pack(">HBBBBB", *values)


SRGB = b"sRGB", b"\0"
TEXT = b"tEXt", b"Software\0by hand"
QUIET = {
    "profile": [icc(profile())],
    "profile and gamma": [icc(profile()), gamma(45455)],
    "gamma": [gamma(45455)],
    "gamma of 1": [gamma(100000)],
    "gamma and primaries": [gamma(45455), primaries(*PRIMARIES)],
    "sRGB and gamma": [SRGB, gamma(45455), (b"pHYs", struct.pack(">IIB", 3780, 3780, 1))],
    "sRGB and primaries": [SRGB, primaries(*PRIMARIES)],
    "texts": [TEXT, TEXT, (b"tEXt", b"Comment\0")],
    "compressed text": [(b"zTXt", b"Comment\0\0" + zlib.compress(b"a text"))],
    "international text": [(b"iTXt", b"Comment\0\0\0en\0Kommentar\0Text")],
    "XMP": [(b"iTXt", b'XML:com.adobe.xmp\0\0\0\0\0<x tiff:Orientation="6"/>')],
    "time": [time(2020, 2, 29, 23, 59, 59)],
    "offset": [(b"oFFs", struct.pack(">iiB", 3, -4, 0))],
    "private": [(b"vpAg", bytes(9)), (b"prVt", b"abc"), (b"caBX", bytes(40)), (b"iDOT", bytes(28))],
}
"""Chunks before the pixels, of which libpng says nothing in an RGB file."""
OTHERS = {
    "of Lab": [icc(profile("LAB"))],
    "of XYZ": [icc(profile("XYZ"))],
    "no profile": [icc(b"junk" * 100)],
    "cut profile": [icc(profile()[:-4])],
    "long profile": [icc(profile() + bytes(4))],
    "profile with more": [icc(profile(), after=b"more")],
    "profile without a name": [icc(profile(), b"\0\0")],
    "profile of another compression": [icc(profile(), b"ICC\0\1")],
    "profile that isn't inflated": [(b"iCCP", b"ICC\0\0" + bytes(200))],
    "profile with another intent": [icc(changed(64, struct.pack(">I", 7)))],
    "profile with another white": [icc(changed(68, bytes(12)))],
    "profile of a link": [icc(changed(12, b"link"))],
    "profile without a signature": [icc(changed(36, b"xxxx"))],
    "profile of another connection": [icc(changed(20, b"CMYK"))],
    "profile with too many tags": [icc(changed(128, struct.pack(">I", 5000)))],
    "profile with a tag outside": [icc(changed(136, struct.pack(">I", 1 << 20)))],
    "profile with an odd tag": [icc(changed(136, struct.pack(">I", 133)))],
    "two profiles": [icc(profile()), icc(profile())],
    "profile and sRGB": [icc(profile()), SRGB],
    "gamma of 0": [gamma(0)],
    "two gammas": [gamma(45455), gamma(45455)],
    "sRGB and another gamma": [SRGB, gamma(100000)],
    "short gamma": [(b"gAMA", b"\0")],
    "sRGB of another intent": [(b"sRGB", b"\7")],
    "other primaries": [primaries(*(2 * one for one in PRIMARIES))],
    "empty text": [(b"tEXt", b"")],
    "text without an end": [(b"tEXt", b"Software")],
    "text with a long name": [(b"tEXt", b"x" * 80 + b"\0")],
    "EXIF as text": [(b"tEXt", b"Raw profile type exif\0\nexif\n       0\n")],
    "compressed text that isn't": [(b"zTXt", b"Comment\0\0xxxxxxxx")],
    "compressed text of another kind": [(b"zTXt", b"Comment\0\1" + zlib.compress(b"a"))],
    "large text": [(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(9_000_000)))],
    "cut international text": [(b"iTXt", b"Comment\0\0\0en\0")],
    "compressed international text": [(b"iTXt", b"Comment\0\1\0\0\0" + zlib.compress(b"a text"))],
    "another month": [time(2020, 13, 1, 0, 0, 0)],
    "histogram": [(b"hIST", b"\0\1")],
    "EXIF": [(b"eXIf", corpus.exif(6)[6:])],
    "light level": [(b"cLLI", bytes(8))],
    "unknown": [(b"ABCD", b"what")],
    "transparency": [(b"tRNS", struct.pack(">HHH", 1, 2, 3))],
    "background": [(b"bKGD", struct.pack(">HHH", 1, 2, 3))],
    "bright background": [(b"bKGD", struct.pack(">HHH", 256, 2, 3))],
    "background of gray": [(b"bKGD", b"\0\7")],
    "background of an index": [(b"bKGD", b"\0")],
    "significant bits": [(b"sBIT", bytes((5, 6, 5)))],
    "significant bits of gray": [(b"sBIT", bytes((5,)))],
    "no significant bits": [(b"sBIT", bytes((0, 6, 5)))],
}
CHUNKS = QUIET | OTHERS
RNG = np.random.default_rng(59)


def with_palette() -> bytes:
    image = corpus.Image.fromarray(RNG.integers(0, 16, (20, 30), np.uint8))
    image.putpalette(RNG.integers(0, 256, 48, np.uint8).tobytes())
    return corpus.save(image, "PNG")


FILES = {
    "RGB": corpus.save(corpus.photo(20, 30), "PNG"),
    "gray": corpus.save(corpus.photo(20, 30)[..., 0], "PNG"),
    "palette": with_palette(),
    "16 bits gray": file_of(samples_of(20, 30, GRAY, 65536)),
    "16 bits RGB": file_of(samples_of(20, 30, RGB, 65536)),
}


def inserted(data: bytes, where: str, chunks: list[tuple[bytes, bytes]]) -> bytes:
    """A PNG with chunks after IHDR, before the pixels, or at the end."""
    place = {"first": 33, "before": data.index(b"IDAT") - 4, "last": len(data) - 12}[where]
    return data[:place] + b"".join(corpus.chunk(*one) for one in chunks) + data[place:]


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    with fastpipe.install(check=0):
        yield


def taken(data: bytes, flags: int, capfd: pytest.CaptureFixture[str]) -> bool:
    """Decodes as OpenCV does, both ways, with its messages, and says whether it was the core that did it."""
    site = LEDGER.site("function", "cv2.imdecode")
    before, decode = site.images, partial(cv2.imdecode, np.frombuffer(data, np.uint8), flags)
    ours, our_message = decode(), capfd.readouterr()
    is_taken = site.images > before
    with plainly():
        expected, message = decode(), capfd.readouterr()
    np.testing.assert_array_equal(ours, expected, strict=True)
    assert our_message == message
    return is_taken


@pytest.mark.parametrize("where", ["first", "before", "last"])
@pytest.mark.parametrize("name", FILES)
def test_opencvs_pixels_and_warnings(name: str, where: str, capfd: pytest.CaptureFixture[str]) -> None:
    for chunks in CHUNKS.values():
        for flags in FLAGS:
            taken(inserted(FILES[name], where, chunks), flags, capfd)


def test_quiet_chunks_are_the_cores(capfd: pytest.CaptureFixture[str]) -> None:
    assert {name: taken(inserted(FILES["RGB"], "first", QUIET[name]), 1, capfd) for name in QUIET} == dict.fromkeys(
        QUIET, True
    )
    for name, more in (("texts", FLAGS), ("time", FLAGS), ("profile", (-1, 1, 4))):
        for file in ("RGB", "palette"):
            for flags in more:
                with_chunks = taken(inserted(FILES[file], "first", QUIET[name]), flags, capfd)
                assert with_chunks == taken(FILES[file], flags, capfd), (name, file, flags)


def test_grays_of_a_palette_with_colours_are_opencvs(capfd: pytest.CaptureFixture[str]) -> None:
    """libpng converts to gray by the file's gamma."""
    assert taken(FILES["palette"], 0, capfd)
    for chunk in (SRGB, gamma(45455)):
        assert not taken(inserted(FILES["palette"], "first", [chunk]), 0, capfd)


def test_significant_bits_and_backgrounds_of_each_kind(capfd: pytest.CaptureFixture[str]) -> None:
    found = {
        (file, name): taken(
            inserted(FILES[file], "before" if "background" in name else "first", OTHERS[name]), 1, capfd
        )
        for file in ("RGB", "gray", "palette", "16 bits gray", "16 bits RGB")
        for name in OTHERS
        if "background" in name or "significant" in name
    }
    assert {key for key, by_core in found.items() if by_core} == {
        *(("RGB", name) for name in ("background", "significant bits")),
        *(("gray", name) for name in ("background of gray", "significant bits of gray")),
        *(("16 bits gray", name) for name in ("background of gray", "significant bits of gray")),
        *(("16 bits RGB", name) for name in ("background", "bright background", "significant bits")),
    }


@pytest.mark.parametrize("length", [3024, 3144])
def test_profiles_that_older_versions_know(length: int) -> None:
    whole = profile()
    whole = struct.pack(">I", length) + whole[4:] + bytes(length - len(whole))
    data = inserted(FILES["RGB"], "first", [icc(whole)])
    assert is_quiet(data, NEWEST)
    assert is_quiet(data, (1, 6, 47))
    assert not is_quiet(data, (1, 6, 46))
    assert not is_quiet(data, ())


def test_a_wrong_checksum(capfd: pytest.CaptureFixture[str]) -> None:
    data = inserted(FILES["RGB"], "first", [TEXT])
    place = data.index(b"by hand")
    assert not taken(data[:place] + b"my" + data[place + 2 :], 1, capfd)


def test_mutations(capfd: pytest.CaptureFixture[str]) -> None:
    """Bytes of chunks are changed, with their checksums."""
    random = np.random.default_rng(60)
    by_core = 0
    for number in range(150):
        chunks: list[tuple[bytes, bytes]] = []
        for name, content in QUIET[list(QUIET)[number % len(QUIET)]]:
            array: Any = np.frombuffer(content, np.uint8).copy()
            if array.size and random.random() < 0.7:
                array[random.integers(0, min(array.size, 12))] = random.integers(0, 256)
            chunks.append((name, array.tobytes()))
        by_core += taken(inserted(FILES["RGB"], "first", chunks), 1, capfd)
    assert by_core > 20
