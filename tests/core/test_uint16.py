"""PNGs of 16 bits a sample through the core: each against a decoder in plain Python, in every instruction set."""

from __future__ import annotations

import io
import struct

import core_jobs
import corpus
import numpy as np
import pytest
from deep_png import END, GRAY, RGB, file_of, samples_of
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from fastpipe import core
from fastpipe.core import Status

pytestmark = pytest.mark.needs_core


def decoded(
    context: core.Context, data: bytes, shape: tuple[int, ...], top: int = 0, left: int = 0
) -> tuple[int, object]:
    out = np.full(shape, 0xABCD, np.uint16)
    return core.decode_uint16(data, top, left, out, context=context), out


@settings(deadline=None, max_examples=200)
@given(
    st.integers(1, 40),
    st.integers(1, 75),
    st.sampled_from((GRAY, RGB)),
    st.sampled_from((1, 50, 65536)),
    st.lists(st.integers(0, 4), min_size=1, max_size=9),
    st.data(),
)
def test_any_file(height: int, width: int, kind: int, noise: int, filters: list[int], more: st.DataObject) -> None:
    samples = samples_of(height, width, kind, noise)
    data = file_of(samples, filters)
    top, left = more.draw(st.integers(0, height - 1)), more.draw(st.integers(0, width - 1))
    part = samples[top : top + more.draw(st.integers(1, height)), left : left + more.draw(st.integers(1, width))]
    for context in (core.Context(isa) for isa in core_jobs.isas()):
        status, out = decoded(context, data, samples.shape)
        assert status == Status.OK, core.status_text(status)
        np.testing.assert_array_equal(out, samples)
        status, out = decoded(context, data, part.shape, top, left)
        assert status == Status.OK, core.status_text(status)
        np.testing.assert_array_equal(out, part)


def test_pillow_gives_the_same() -> None:
    samples = samples_of(33, 57, GRAY, 900)
    data = corpus.save(Image.fromarray(samples), "PNG")
    out = np.empty(samples.shape, np.uint16)
    assert core.decode_uint16(data, 0, 0, out) == Status.OK
    with Image.open(io.BytesIO(data)) as image:
        assert image.mode == "I;16"
        np.testing.assert_array_equal(out, np.asarray(image))
    colours = samples_of(33, 57, RGB, 900)
    with Image.open(io.BytesIO(file_of(colours))) as image:  # Pillow has 8 bits for RGB: the high bytes
        np.testing.assert_array_equal(colours >> 8, np.asarray(image))


SAMPLES = samples_of(6, 9, GRAY, 99)
WHOLE = file_of(SAMPLES, (0, 1, 2, 3, 4))


def ihdr(depth: int, kind: int, interlace: int = 0) -> bytes:
    start = corpus.chunk(b"IHDR", struct.pack(">IIBBBBB", 9, 6, depth, kind, 0, 0, interlace))
    return WHOLE[:8] + start + WHOLE[33:]


REFUSED = {
    "8 bits": (corpus.save(Image.new("L", (9, 6)), "PNG"), Status.UNSUPPORTED_MODE),
    "gray and alpha": (ihdr(16, 4), Status.UNSUPPORTED_MODE),
    "RGB and alpha": (ihdr(16, 6), Status.UNSUPPORTED_MODE),
    "three channels": (file_of(samples_of(6, 9, RGB, 99)), Status.UNSUPPORTED_COLOR),
    "interlaced": (ihdr(16, 0, 1), Status.UNSUPPORTED_MODE),
    "a JPEG": (corpus.files()["jpeg-420"], Status.UNSUPPORTED_MODE),
    "nothing": (b"", Status.UNSUPPORTED_MODE),
    "a cut-off stream": (WHOLE[:-20], Status.TRUNCATED),
    "a wrong checksum": (WHOLE[:-14] + bytes((WHOLE[-14] ^ 1,)) + WHOLE[-13:], Status.BAD_CHECKSUM),
    "fewer rows": (
        file_of(SAMPLES[:5]).replace(struct.pack(">II", 9, 5), struct.pack(">II", 9, 6)),
        Status.BAD_CHECKSUM,
    ),
    "an APNG": (WHOLE[:-12] + corpus.chunk(b"fcTL", bytes(26)) + END, Status.UNSUPPORTED_MODE),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    data, expected = REFUSED[name]
    for context in (core.Context(isa) for isa in core_jobs.isas()):
        assert decoded(context, data, (6, 9))[0] == expected


def test_boxes_and_limits() -> None:
    context = core.thread_context()
    assert decoded(context, WHOLE, (6, 9))[0] == Status.OK
    for shape, top, left in (((7, 9), 0, 0), ((6, 9), 1, 0), ((6, 9), 0, 1), ((1, 1), -1, 0), ((1, 1), 6, 0)):
        assert decoded(context, WHOLE, shape, top, left)[0] == Status.BAD_REGION
    assert decoded(context, WHOLE, (0, 9))[0] == Status.BAD_REGION
    out = np.empty((6, 9), np.uint16)
    assert core.decode_uint16(WHOLE, 0, 0, out, max_bytes=1000) == Status.TOO_LARGE
    for array in (np.empty((6, 9), np.int16), np.empty((6, 18), np.uint16)[:, ::2], np.empty((6, 9), ">u2")):
        with pytest.raises(TypeError, match="contiguous writeable arrays of uint16"):
            core.decode_uint16(WHOLE, 0, 0, array)


def test_large_ones() -> None:
    """Windows that move, and rows that are longer than a window."""
    for height, width, kind in ((300, 601, RGB), (7, 40_000, GRAY), (40_000, 3, GRAY), (900, 700, GRAY)):
        for noise in (1, 65536):
            samples = samples_of(height, width, kind, noise)
            data = file_of(samples, (1, 4))
            for context in (core.Context(isa) for isa in core_jobs.isas()):
                status, out = decoded(context, data, samples.shape)
                assert status == Status.OK, core.status_text(status)
                np.testing.assert_array_equal(out, samples)


def test_chunks_that_change_no_sample() -> None:
    """Significant bits, gamma and a transparent level, which no library applies to the samples themselves."""
    chunks = (b"sBIT", b"\x0c"), (b"gAMA", struct.pack(">I", 45455)), (b"tRNS", b"\0\7"), (b"pHYs", bytes(9))
    for name, content in chunks:
        data = file_of(SAMPLES, before=corpus.chunk(name, content))
        status, out = decoded(core.thread_context(), data, (6, 9))
        assert status == Status.OK, core.status_text(status)
        with Image.open(io.BytesIO(data)) as image:
            np.testing.assert_array_equal(out, np.asarray(image))
        np.testing.assert_array_equal(out, SAMPLES)
