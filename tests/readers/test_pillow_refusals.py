"""JPEGs whose header is all that is wrong with them: what Pillow refuses, no reader of fastpipe gives pixels of."""

from __future__ import annotations

import io
import itertools
import struct
from collections.abc import Iterator

import corpus
import numpy as np
import pytest
from PIL import Image

from fastpipe import core
from fastpipe.errors import DecodeError
from fastpipe.readers import read_image
from fastpipe.types import Header

X_RESOLUTION, RESOLUTION_UNIT = 0x011A, 0x0128
TYPES = (*range(1, 14), 16)
LENGTHS = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8}


def entry(order: str, tag: int, kind: int, count: int, value: bytes = b"55\0\0") -> bytes:
    if count * LENGTHS[kind] > 4:
        value = struct.pack(order + "I", 0)  # the beginning of the data
    return struct.pack(order + "HHI", tag, kind, count) + value


def exif(order: str, *entries: bytes, name: bytes = b"Exif\0\0") -> bytes:
    mark = b"II*\0" if order == "<" else b"MM\0*"
    return name + mark + struct.pack(order + "IH", 8, len(entries)) + b"".join(entries) + bytes(80)


def without_density() -> bytes:
    data = corpus.jpeg(9, 11)
    return data[:2] + data[4 + struct.unpack_from(">H", data, 4)[0] :]


def resolutions() -> Iterator[tuple[str, bytes]]:
    """A resolution of each type and of several lengths, with its unit or not, where JFIF gives one or not."""
    bare = without_density()
    bodies = {
        "bare": bare,
        "pixels": corpus.with_segment(bare, 0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0"),
        "inches": corpus.with_segment(bare, 0xE0, b"JFIF\0\1\1\1\0\1\0\1\0\0"),
    }
    for order, kind, count in itertools.product("<>", TYPES, (0, 1, 2, 3, 8)):
        unit = entry(order, RESOLUTION_UNIT, 3, 1, struct.pack(order + "HH", 3, 0))
        for value, units, (name, body) in itertools.product(
            (b"55\0\0", b"5\0\0\0", b"x\0\0\0"), (0, 1), bodies.items()
        ):
            resolution = entry(order, X_RESOLUTION, kind, count, value)
            made = exif(order, *[unit] * units, resolution)
            yield f"{order} {kind} {count} {value!r} {units} {name}", corpus.with_segment(body, 0xE1, made)
    for order in "<>":
        unit = entry(order, RESOLUTION_UNIT, 3, 1)
        lone, pair = (entry(order, X_RESOLUTION, 7, count) for count in (1, 2))
        cut = entry(order, 0x0132, 2, 0xFFFF)  # Pillow stops there
        for name, entries in {
            "cut": (unit, lone, cut),
            "second": (unit, pair, lone),
            "first": (unit, lone, pair),
        }.items():
            yield f"{order} {name}", corpus.with_segment(bare, 0xE1, exif(order, *entries))
        twice = exif(order, unit, lone, name=b"Exif\0\0Exif\0\0")
        yield f"{order} named twice", corpus.with_segment(bare, 0xE1, twice)
        whole = exif(order, unit, lone)
        for at in (10, 16, 20, 30, 38, 45):
            second = corpus.with_segment(bare, 0xE1, b"Exif\0\0" + whole[at:])
            yield f"{order} in two, {at}", corpus.with_segment(second, 0xE1, whole[:at])


def others() -> Iterator[tuple[str, bytes]]:
    bare = without_density()
    for length in (0, 1, 64, 65, 66, 129, 130, 194, 195):
        for first in (0x00, 0x10, 0xF3):
            yield f"tables {length} {first}", corpus.with_segment(bare, 0xDB, (bytes((first,)) + b"\1" * 200)[:length])
    resource = b"Photoshop 3.0\x008BIM\x03\xed\0\0\0\0\0\x10" + bytes(16)
    for marker, body in (
        (0xED, resource),
        (0xE2, b"ICC_PROFILE\0\1\1abc"),
        (0xE0, b"JFIF\0\1\1\1\0\1"),
        (0xEE, b"Adobe\0d\0\0"),
    ):
        for end in range(4, len(body)):
            yield f"{marker:x} {end}", corpus.with_segment(bare, marker, body[:end])


FILES = dict(itertools.chain(resolutions(), others()))


def pillow(data: bytes) -> np.ndarray | None:
    try:
        with Image.open(io.BytesIO(data)) as image:
            return np.asarray(image.convert("RGB"))
    except Exception:
        return None


@pytest.mark.filterwarnings("ignore")
def test_what_pillow_does_not_identify_is_refused() -> None:
    """And what it identifies isn't: header, core and reader agree with it, file by file."""
    refused = 0
    for name, data in FILES.items():
        expected = pillow(data)
        refused += expected is None
        header = core.read_header(data) if core.available() else None
        try:
            got = read_image(data)
        except DecodeError:
            assert expected is None, name
        else:
            assert expected is not None, name
            np.testing.assert_array_equal(got, expected, err_msg=name)
        if expected is None:
            assert not isinstance(header, Header), name
    assert refused > 60


@pytest.mark.needs_core
@pytest.mark.filterwarnings("ignore")
def test_the_core_by_itself_refuses_them() -> None:
    for name, data in FILES.items():
        job, out = core.Job(), np.empty((9, 11, 3), np.uint8)
        job.read(data)
        job.write_array(out)
        if core.run(job) == core.Status.OK:
            expected = pillow(data)
            assert expected is not None, name
            np.testing.assert_array_equal(out, expected, err_msg=name)


@pytest.mark.needs_core
@pytest.mark.parametrize("kind", [5, 10, 3])
def test_an_ordinary_resolution_is_no_reason(kind: int) -> None:
    count = 2 if kind == 3 else 1
    body = exif("<", entry("<", X_RESOLUTION, kind, count), entry("<", RESOLUTION_UNIT, 3, 1))
    header = core.read_header(corpus.with_segment(without_density(), 0xE1, body))
    assert isinstance(header, Header)
    assert header.plain
