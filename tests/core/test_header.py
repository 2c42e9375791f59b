"""Headers: what `fastpipe.readers` says of a file, or a refusal."""

from __future__ import annotations

import corpus
import pytest
from fuzz.mutate import mutation

from fastpipe import core
from fastpipe.core import Status
from fastpipe.errors import DecodeError
from fastpipe.readers._containers import parse_png
from fastpipe.readers._jpeg import parse_jpeg
from fastpipe.types import Header

pytestmark = pytest.mark.usefixtures("needs_core")


def parsed(data: bytes) -> Header | None:
    """By the parser in Python; None where it leaves the file to Pillow or refuses it."""
    if data.startswith(b"\x89PNG"):
        return parse_png(data)
    if not data.startswith(b"\xff\xd8\xff"):
        return None
    try:
        return parse_jpeg(data)
    except DecodeError:
        return None


def test_the_corpus() -> None:
    read = 0
    for name, data in corpus.files().items():
        header = core.read_header(data)
        expected = parsed(data)
        if isinstance(header, Header):
            assert header == expected, name
            read += 1
        else:
            assert header in (Status.UNKNOWN_FORMAT, Status.TRUNCATED, Status.UNUSUAL_HEADER) or expected is None, name
            sound = name.startswith(("jpeg", "png")) and corpus.reference(name) is not None
            # What is left to the parser in Python is odd.
            odd = ("fill", "absurd", "cut", "empty", "twice", "xmp", "factors", "cmyk", "ycck", "large", "exif-9")
            assert not sound or expected is None or any(word in name for word in odd), (name, header)
    assert read > 60


def test_orientations() -> None:
    for orientation in range(1, 9):
        for big_endian in (False, True):
            data = corpus.with_segment(corpus.jpeg(40, 70), 0xE1, corpus.exif(orientation, big_endian))
            header = core.read_header(data)
            assert isinstance(header, Header)
            assert header.orientation == orientation


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
            assert header == parsed(data), f"input {number} of seed {seed}"
            read += 1
    assert read > 2000
