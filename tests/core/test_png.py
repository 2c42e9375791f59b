"""PNGs through the core: every kind against Pillow, bit for bit, and refusals with their reasons."""

from __future__ import annotations

import io
import itertools
import struct
import zlib
from collections.abc import Sequence

import core_jobs
import corpus
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from fastpipe import core
from fastpipe.core import Status
from fastpipe.core.structs import Isa
from fastpipe.errors import UnsupportedRequestError
from fastpipe.readers import read_image

pytestmark = pytest.mark.needs_core

KINDS = ((0, 1), (0, 2), (0, 4), (0, 8), (2, 8), (3, 1), (3, 2), (3, 4), (3, 8), (4, 8), (6, 8))
"""IHDR's color type and bit depth."""
SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
END = corpus.chunk(b"IEND", b"")


def head(height: int, width: int, depth: int, kind: int, interlace: int = 0) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + corpus.chunk(
        b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlace)
    )


def rows(height: int, width: int, depth: int, kind: int, filters: Sequence[int], body: bytes) -> bytes:
    """The content of the stream: filters, which repeat, and bytes, which do so, too."""
    length = (width * SAMPLES[kind] * depth + 7) // 8
    enough = (body * (length * height // len(body) + 1))[: length * height]
    return b"".join(bytes((filters[y % len(filters)],)) + enough[y * length : (y + 1) * length] for y in range(height))


def deflated(data: bytes, level: int = 6, strategy: int = 0, window: int = 15) -> bytes:
    deflate = zlib.compressobj(level, zlib.DEFLATED, window, 9, strategy)
    return deflate.compress(data) + deflate.flush()


def pieces(stream: bytes, cuts: Sequence[float]) -> bytes:
    """IDAT chunks, cut at shares of the stream; empty ones among them."""
    places = [0, *sorted(round(cut * len(stream)) for cut in cuts), len(stream)]
    return b"".join(corpus.chunk(b"IDAT", stream[a:b]) for a, b in itertools.pairwise(places))


def pillow(data: bytes) -> np.ndarray:
    expected = core_jobs.pillows_verdict(data)
    assert expected is not None
    return expected


def indices(data: bytes) -> np.ndarray:
    header = core.read_header(data)
    assert not isinstance(header, Status)
    job = core.Job()
    job.read(data)
    job.raw.indices = 1
    out = np.empty(header.size, np.uint8)
    job.write_array(out)
    assert core.run(job) == Status.OK
    return out


BEFORE = (
    corpus.chunk(b"gAMA", struct.pack(">I", 45455)),
    corpus.chunk(b"cHRM", bytes(32)),
    corpus.chunk(b"sRGB", b"\0"),
    corpus.chunk(b"sBIT", b"\5\5\5"),
    corpus.chunk(b"bKGD", b"\0\1\0\1\0\1"),
    corpus.chunk(b"hIST", bytes(8)),
    corpus.chunk(b"sPLT", b"name\0\x08" + bytes(6)),
    corpus.chunk(b"prVt", b"of somebody's own"),
    corpus.chunk(b"iCCP", b"profile\0\0" + zlib.compress(bytes(3000))),
)
ANYWHERE = (
    corpus.chunk(b"tIME", bytes((7, 208, 1, 1, 0, 0, 0))),
    corpus.chunk(b"pHYs", struct.pack(">IIB", 2835, 2835, 1)),
    corpus.chunk(b"tEXt", b"Title\0a picture"),
    corpus.chunk(b"zTXt", b"Comment\0\0" + zlib.compress(b"long " * 100)),
    corpus.chunk(b"iTXt", b"Author\0\0\0\0\0somebody"),
    corpus.chunk(b"eXIf", corpus.exif(6)[6:]),
)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Any file in scope: each kind, odd sizes, all filters, chunks in any order, palettes of all lengths."""
    kind, depth = draw(st.sampled_from(KINDS))
    height, width = draw(st.integers(1, 40)), draw(st.integers(1, 75))
    filters = draw(st.lists(st.integers(0, 4), min_size=1, max_size=9))
    body = draw(st.one_of(st.binary(min_size=1, max_size=300), st.just(corpus.photo(40, 75).tobytes())))
    made = rows(height, width, depth, kind, filters, body)
    stream = deflated(made, draw(st.sampled_from((0, 1, 6, 9))), draw(st.sampled_from((0, 1, 2, 3, 4))))
    before = [*draw(st.lists(st.sampled_from(BEFORE + ANYWHERE), max_size=4, unique=True))]
    if kind == 3:
        colors = draw(st.integers(1, 256))
        before.insert(0, corpus.chunk(b"PLTE", np.random.default_rng(colors).bytes(3 * colors)))
        if draw(st.booleans()):
            before.insert(1, corpus.chunk(b"tRNS", draw(st.binary(min_size=1, max_size=colors))))
    elif kind in (0, 2) and draw(st.booleans()):
        before.append(corpus.chunk(b"tRNS", struct.pack(">3H", 3, 2, 1)[: 2 if kind == 0 else 6]))
    after = b"".join(draw(st.lists(st.sampled_from(ANYWHERE), max_size=2, unique=True)))
    cuts = draw(st.lists(st.floats(0, 1), max_size=4))
    return head(height, width, depth, kind) + b"".join(before) + pieces(stream, cuts) + after + END


def in_palette(data: bytes) -> bool:
    """Whether each index has a color."""
    with Image.open(io.BytesIO(data)) as image:
        if image.mode != "P":
            return True
        position = data.index(b"PLTE") - 4
        return int(np.asarray(image).max()) < int.from_bytes(data[position : position + 4], "big") // 3


@pytest.mark.filterwarnings("ignore:Palette images with Transparency")
@settings(deadline=None, max_examples=400)
@given(files(), st.data())
def test_any_file(data: bytes, more: st.DataObject) -> None:
    expected = pillow(data)
    contexts = [core.Context(isa) for isa in core_jobs.isas()]
    height, width = expected.shape[:2]
    top, left = more.draw(st.integers(0, height - 1)), more.draw(st.integers(0, width - 1))
    box = (top, left, more.draw(st.integers(1, height - top)), more.draw(st.integers(1, width - left)))
    for context in contexts:
        status, image = core_jobs.decode(context, data)
        if not in_palette(data):
            assert status == Status.BAD_TABLE
            continue
        assert status == Status.OK, core.status_text(status)
        np.testing.assert_array_equal(image, expected)
        status, image = core_jobs.decode(context, data, box)
        assert status == Status.OK, core.status_text(status)
        np.testing.assert_array_equal(image, expected[top : top + box[2], left : left + box[3]])
    with Image.open(io.BytesIO(data)) as picture:
        if picture.mode in ("P", "L"):
            np.testing.assert_array_equal(indices(data), np.asarray(picture))


def test_large_ones(context: core.Context) -> None:
    """Windows that move, and rows that are longer than a window."""
    noise = np.random.default_rng(0).integers(0, 256, (300, 601, 3), np.uint8)
    pictures = [
        Image.fromarray(corpus.photo(500, 333)),
        Image.fromarray(noise),
        Image.new("RGB", (900, 700), (1, 2, 3)),
    ]
    pictures += [Image.fromarray(corpus.photo(7, 40_000)), Image.fromarray(corpus.photo(40_000, 3))]
    for picture in pictures:
        for mode in ("RGB", "RGBA", "L", "LA", "1"):
            for level in (0, 1, 6, 9):
                data = corpus.save(picture.convert(mode), "PNG", compress_level=level)
                status, image = core_jobs.decode(context, data)
                assert status == Status.OK, core.status_text(status)
                np.testing.assert_array_equal(image, pillow(data))
            height, width = picture.height, picture.width
            box = (height // 3, width // 4, max(height // 2, 1), max(width // 3, 1))
            status, image = core_jobs.decode(context, data, box)
            np.testing.assert_array_equal(image, pillow(data)[box[0] : box[0] + box[2], box[1] : box[1] + box[3]])


@pytest.mark.parametrize("window", range(9, 16))
def test_smaller_windows(context: core.Context, window: int) -> None:
    made = rows(64, 90, 8, 2, (0, 1, 2, 3, 4), corpus.photo(64, 90).tobytes())
    data = head(64, 90, 8, 2) + corpus.chunk(b"IDAT", deflated(made, window=window)) + END
    status, image = core_jobs.decode(context, data)
    assert status == Status.OK
    np.testing.assert_array_equal(image, pillow(data))


MADE = rows(6, 9, 8, 2, (0, 1, 2, 3, 4), corpus.photo(6, 9).tobytes())
STREAM = deflated(MADE)
START = head(6, 9, 8, 2)
WHOLE = START + corpus.chunk(b"IDAT", STREAM) + END


def patched(data: bytes, at: int, change: int = 1) -> bytes:
    at %= len(data)
    return data[:at] + bytes((data[at] ^ change,)) + data[at + 1 :]


def with_stream(stream: bytes) -> bytes:
    return START + corpus.chunk(b"IDAT", stream) + END


REFUSED = {
    "a wrong checksum of the stream": (with_stream(patched(STREAM, -1)), Status.BAD_CHECKSUM),
    "no checksum of the stream": (with_stream(STREAM[:-4]), Status.TRUNCATED),
    "half a checksum": (with_stream(STREAM[:-2]), Status.TRUNCATED),
    "an early end": (with_stream(STREAM[:-12]), Status.TRUNCATED),
    "something behind the stream": (with_stream(STREAM + b"x"), Status.BAD_CODE),
    "too few rows": (with_stream(deflated(MADE[:-1])), Status.TRUNCATED),
    "too many rows": (with_stream(deflated(MADE + b"\0")), Status.BAD_CODE),
    "a bomb": (with_stream(deflated(MADE + bytes(10_000_000))), Status.BAD_CODE),
    "an unknown filter": (with_stream(deflated(b"\5" + MADE[1:])), Status.BAD_CODE),
    "gzip": (with_stream(deflated(MADE, window=31)), Status.BAD_CODE),
    "bare deflate": (with_stream(deflated(MADE, window=-15)), Status.BAD_CODE),
    "a wrong checksum of IHDR": (patched(WHOLE, 8 + 24), Status.BAD_CHECKSUM),
    "a wrong checksum of IDAT": (patched(WHOLE, -13), Status.BAD_CHECKSUM),
    "a wrong checksum of IEND": (patched(WHOLE, -1), Status.BAD_CHECKSUM),
    "no IEND": (WHOLE[:-12], Status.TRUNCATED),
    "part of IEND": (WHOLE[:-1], Status.TRUNCATED),
    "no IDAT": (START + END, Status.UNUSUAL_HEADER),
    "a chunk between IDATs": (
        START + corpus.chunk(b"IDAT", STREAM[:9]) + ANYWHERE[2] + corpus.chunk(b"IDAT", STREAM[9:]) + END,
        Status.BAD_MARKER,
    ),
    "an unknown critical chunk": (START + corpus.chunk(b"ABCD", b"") + WHOLE[33:], Status.UNSUPPORTED_MODE),
    "an odd name": (START + corpus.chunk(b"ab d", b"") + WHOLE[33:], Status.BAD_MARKER),
    "two headers": (START + START[8:] + WHOLE[33:], Status.UNUSUAL_HEADER),
    "interlaced": (head(6, 9, 8, 2, 1) + WHOLE[33:], Status.UNSUPPORTED_MODE),
    "16 bits": (head(6, 9, 16, 2) + WHOLE[33:], Status.UNSUPPORTED_MODE),
    "an APNG's chunk": (WHOLE[:-12] + corpus.chunk(b"fcTL", bytes(26)) + END, Status.UNSUPPORTED_MODE),
    "no palette": (head(6, 9, 8, 3) + WHOLE[33:], Status.BAD_TABLE),
    "a long palette": (head(6, 9, 8, 3) + corpus.chunk(b"PLTE", bytes(771)) + WHOLE[33:], Status.BAD_MARKER),
    "two palettes": (head(6, 9, 8, 3) + 2 * corpus.chunk(b"PLTE", bytes(768)) + WHOLE[33:], Status.BAD_MARKER),
    "a palette behind the pixels": (WHOLE[:-12] + corpus.chunk(b"PLTE", bytes(9)) + END, Status.BAD_MARKER),
    "a long profile": (
        START + corpus.chunk(b"iCCP", b"p\0\0" + zlib.compress(bytes(1 << 20))) + WHOLE[33:],
        Status.TOO_LARGE,
    ),
    "a broken profile": (START + corpus.chunk(b"iCCP", b"p\0\0" + b"none") + WHOLE[33:], Status.UNUSUAL_HEADER),
    "texts like what Pillow knows": (
        START + corpus.chunk(b"tEXt", b"interlace\x001") + WHOLE[33:],
        Status.UNUSUAL_HEADER,
    ),
    "a claim that the data can't keep": (head(60_000, 60_000, 8, 2) + WHOLE[33:], Status.TRUNCATED),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(context: core.Context, name: str) -> None:
    """Each is refused; what Pillow makes of it is left to Pillow."""
    data, expected = REFUSED[name]
    job = core.Job()
    job.read(data)
    out = np.empty((6, 9, 3), np.uint8)
    job.write_array(out)
    status = context.run(job)
    assert status == expected, (core.status_text(status), core.status_text(expected))
    assert core.refused(status)
    verdict = core_jobs.pillows_verdict(data) if "can't keep" not in name else None
    if verdict is not None:
        np.testing.assert_array_equal(read_image(data, reader="core"), verdict)


def test_a_crop_ends_above_what_it_does_not_show(context: core.Context) -> None:
    """Below its last row nothing is inflated, where the checksums say that the file is as it was written."""
    image = corpus.photo(90, 70)
    made = rows(90, 70, 8, 2, (1,), image.tobytes())
    at = 60 * (70 * 3 + 1)
    broken = deflated(made[:at] + b"\5" + made[at + 1 :])
    data = head(90, 70, 8, 2) + corpus.chunk(b"IDAT", broken) + END
    assert core_jobs.pillows_verdict(data) is None
    assert core_jobs.decode(context, data)[0] == Status.BAD_CODE
    sound = head(90, 70, 8, 2) + corpus.chunk(b"IDAT", deflated(made)) + END
    for bottom in (1, 37, 60):
        status, part = core_jobs.decode(context, data, (0, 3, bottom, 60))
        assert status == Status.OK
        np.testing.assert_array_equal(part, pillow(sound)[:bottom, 3:63])
    assert core_jobs.decode(context, data, (0, 0, 61, 70))[0] == Status.BAD_CODE
    for at in (-13, len(data) // 2):
        assert core_jobs.decode(context, patched(data, at), (0, 0, 1, 1))[0] == Status.BAD_CHECKSUM
    assert core_jobs.decode(context, data[:-12], (0, 0, 1, 1))[0] == Status.TRUNCATED


def test_limits(context: core.Context) -> None:
    assert core_jobs.decode(context, WHOLE, max_pixels=54)[0] == Status.OK
    assert core_jobs.decode(context, WHOLE, max_pixels=53)[0] == Status.TOO_LARGE
    assert core_jobs.decode(context, WHOLE, max_bytes=50_000)[0] == Status.TOO_LARGE
    job = core.Job()
    job.read(WHOLE)
    job.box(0, 5, 6, 5)
    job.write_array(np.empty((6, 5, 3), np.uint8))
    assert context.run(job) == Status.BAD_REGION


def test_memory_is_given_back() -> None:
    """A row of many megabytes isn't held on to."""
    context = core.Context(Isa.PORTABLE)
    wide = corpus.save(Image.new("RGB", (5_000_000, 2)), "PNG")
    assert core_jobs.decode(context, wide)[0] == Status.OK
    assert core_jobs.context_bytes(context) < 1 << 20


def test_checksums_of_all_lengths(context: core.Context) -> None:
    """Chunks of each length, whose checksums Python works out."""
    rng = np.random.default_rng(1)
    for length in (*range(200), 255, 256, 257, 1000, 4099, 65_537):
        data = START + corpus.chunk(b"teXt", rng.bytes(length)) + WHOLE[33:]
        assert core_jobs.decode(context, data)[0] == Status.OK, length
        assert core_jobs.decode(context, patched(data, 33 + 8 + length + 2))[0] == Status.BAD_CHECKSUM, length


def test_masks() -> None:
    values = np.random.default_rng(3).integers(0, 20, (31, 45)).astype(np.uint8)
    mask = Image.fromarray(values).convert("L")
    palette = Image.frombytes("P", mask.size, values.tobytes())
    palette.putpalette(np.random.default_rng(4).bytes(60))
    sources = {
        "palette": corpus.save(palette, "PNG"),
        "4 bits": corpus.save(Image.fromarray(values % 16).quantize(16), "PNG", bits=4),
        "gray": corpus.save(mask, "PNG"),
        "gif": corpus.save(palette, "GIF"),
        "jpeg": corpus.save(mask, "JPEG"),
        "turned": corpus.with_chunk(corpus.save(palette, "PNG"), b"eXIf", corpus.exif(6)[6:]),
    }
    for name, data in sources.items():
        with Image.open(io.BytesIO(data)) as image:
            expected = np.asarray(image)
        for reader in (None, "pil", "core"):
            got = read_image(data, mode="P", reader=reader)
            assert got.dtype == np.uint8
            assert got.flags.c_contiguous
            assert got.flags.writeable
            np.testing.assert_array_equal(got, expected, err_msg=name)
            part = read_image(data, mode="P", reader=reader, region=(3, 5, 20, 7))
            np.testing.assert_array_equal(part, expected[3:23, 5:12], err_msg=name)
    np.testing.assert_array_equal(
        read_image(sources["turned"], mode="P", apply_exif=True), np.rot90(values, -1), strict=True
    )


def test_masks_of_colors_are_refused(tmp_path: object) -> None:
    for data in (corpus.files()["png-rgb"], corpus.files()["jpeg-420"], corpus.files()["png-1-bit"]):
        with pytest.raises(UnsupportedRequestError, match="mode='RGB'"):
            read_image(data, mode="P")
    with pytest.raises(UnsupportedRequestError, match="'RGB' or 'P', not 'L'"):
        read_image(corpus.files()["png-gray"], mode="L")


def test_a_refusal_does_not_depend_on_the_file_before(context: core.Context) -> None:
    """Behind a stream of several chunks its end is looked beyond: at bytes that are always the same."""
    stream = deflated(rows(20, 24, 8, 2, (0,), bytes(range(7))), strategy=zlib.Z_FIXED)
    rng = np.random.default_rng(0)
    reasons: dict[int, set[int]] = {}
    for _ in range(6):
        # Not compressed: its bytes stay where the next stream ends.
        before = deflated(rows(8, 2000, 8, 0, (0,), rng.bytes(8 * 2000)), level=0)
        for end in range(10, len(stream)):
            status, _ = core_jobs.decode(context, head(8, 2000, 8, 0) + pieces(before, (0.5,)) + END)
            assert status == Status.OK
            damaged = head(20, 24, 8, 2) + pieces(stream[:end], (0.5,)) + END
            reasons.setdefault(end, set()).add(core_jobs.decode(context, damaged)[0])
    assert {end: found for end, found in reasons.items() if len(found) > 1} == {}
