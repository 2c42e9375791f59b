"""Headers that the core reads: what Pillow says of a file, or a refusal."""

from __future__ import annotations

import io
import re

import corpus
import pytest
from fuzz.check import described_of
from fuzz.mutate import mutation
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from fastpipe import core
from fastpipe.core import Status
from fastpipe.types import Header

pytestmark = [
    pytest.mark.needs_core,
    pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning", "ignore:.*:UserWarning:PIL"),
]


def compare(header: Header, data: bytes, name: str) -> bool:
    """Asserts that a header is Pillow's; False where Pillow doesn't identify the file."""
    described = described_of(data)
    if described is None:
        return False
    format, *rest = described
    assert header.format == format or header.format == "JPEG or MPO", name
    assert [header.height, header.width, header.orientation] == rest, name
    with Image.open(io.BytesIO(data)) as image:
        assert header.bit_depth == 16 or header.channels == len(image.getbands()), name
        assert header.progressive == bool(image.info.get("progressive") or image.info.get("interlace")), name
    return True


@given(st.lists(st.sampled_from([0, 1, 0xCF, 0xD0, 0xD7, 0xD8, 0xD9, 0xFE, 0xFF, 0xFF, 0xFF]), max_size=12).map(bytes))
@example(bytes(100_000) + b"\xff\xd9")
def test_the_end_of_a_scan(bits: bytes) -> None:
    head = corpus.files()["jpeg-420"][: core.read_header(corpus.files()["jpeg-420"]).data_offset]  # type: ignore[union-attr]
    data = head + bits
    marker = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]").search(data, len(head))
    ends = marker is not None and marker.group() == b"\xff\xd9"
    assert core.jpeg_end(data) == (marker.end() if marker is not None and ends else 0)


def test_the_corpus() -> None:
    read = 0
    for name, data in corpus.files().items():
        header = core.read_header(data)
        if isinstance(header, Header):
            read += compare(header, data, name)
        else:
            assert header in (Status.UNKNOWN_FORMAT, Status.TRUNCATED, Status.UNUSUAL_HEADER, Status.TOO_LARGE), name
            sound = name.startswith(("jpeg", "png")) and corpus.reference(name) is not None
            odd = ("fill", "absurd", "cut", "empty", "twice", "xmp", "factors", "cmyk", "ycck", "large", "exif-9")
            assert not sound or any(word in name for word in odd), (name, header)
    assert read > 60


@pytest.mark.parametrize("kind", [*corpus.SUBSAMPLINGS, "gray", "progressive", "rgb", "exif-6", "icc", "restart-rows"])
def test_plain_jpegs_are_plain(kind: str) -> None:
    header = core.read_header(corpus.files()[f"jpeg-{kind}"])
    assert isinstance(header, Header)
    assert header.plain
    assert header.bit_depth == 8


def test_orientations() -> None:
    for orientation in range(1, 9):
        for big_endian in (False, True):
            data = corpus.with_segment(corpus.jpeg(40, 70), 0xE1, corpus.exif(orientation, big_endian))
            header = core.read_header(data)
            assert isinstance(header, Header)
            assert header.orientation == orientation


def test_an_orientation_in_xmp_that_isn_t_utf_8_is_left_to_pillow() -> None:
    """Some of Pillow's versions raise for it."""
    for text, known in ((b"\xef\xbb\xbf \xc3\xa9 \xf0\x9f\x90\x88", 6), (b"\xfe", None), (b"\xed\xa0\x80", None)):
        xmp = b"http://ns.adobe.com/xap/1.0/\0<x " + text + b' tiff:Orientation="6"/>'
        header = core.read_header(corpus.with_segment(corpus.jpeg(40, 70), 0xE1, xmp))
        assert getattr(header, "orientation", None) == known
        assert known is not None or header == Status.UNUSUAL_HEADER


def test_the_first_bytes_are_enough() -> None:
    """And with fewer, more are asked for."""
    for name in ("jpeg-420", "jpeg-progressive", "jpeg-exif-6", "jpeg-gray", "jpeg-icc"):
        data = corpus.files()[name]
        whole = core.read_header(data)
        assert isinstance(whole, Header)
        assert core.read_header(data[: whole.data_offset]) == whole
        for length in range(3, whole.data_offset):
            assert core.read_header(data[:length]) == Status.TRUNCATED, (name, length)


@pytest.mark.parametrize("seed", [3, 4])
def test_mutated_files(seed: int) -> None:
    read = 0
    for number in range(4000):
        _, data = mutation(seed, number, ("jpeg", "png"))
        header = core.read_header(data)
        if isinstance(header, Header):
            read += compare(header, data, f"input {number} of seed {seed}")
    assert read > 2000
