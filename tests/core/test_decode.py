"""Decoded pixels: Pillow's, or a refusal; of whole files and of boxes, for every instruction set."""

from __future__ import annotations

import os
import random
from pathlib import Path

import core_jobs
import corpus
import numpy as np
import pytest
from fuzz.mutate import mutation
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpipe import core
from fastpipe.core import Status

pytestmark = pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning", "ignore:.*:UserWarning:PIL")

# What the core leaves to others: other colours, headers that Pillow may read otherwise, damage that Pillow forgives.
LEFT = ("cmyk", "ycck", "adobe-2", "factors", "mpo", "exif-absurd", "exif-cut", "exif-empty", "exif-twice", "xmp")
DAMAGED = ("-claims-", "-flipped-", "-inside", "-missing", "-cut-")


@pytest.mark.parametrize("name", core_jobs.JPEGS)
def test_pillows_pixels_or_a_refusal(context: core.Context, name: str) -> None:
    data, expected = corpus.files()[name], corpus.reference(name)
    status, image = core_jobs.decode(context, data)
    if status != Status.OK:
        assert status in core_jobs.REFUSALS
        assert expected is None or any(word in name for word in (*LEFT, *DAMAGED)), core.status_text(status)
        return
    assert image is not None
    assert expected is not None, "Pillow refuses it"
    np.testing.assert_array_equal(image, expected)


def test_other_formats(context: core.Context) -> None:
    for name, data in corpus.files().items():
        if not name.startswith(("jpeg", "mpo", "png")):
            status, _ = core_jobs.decode(context, data)
            assert status in (Status.UNKNOWN_FORMAT, Status.TRUNCATED), name


def test_boxes_of_the_corpus(context: core.Context) -> None:
    rng = np.random.default_rng(5)
    seen = 0
    for name, data in core_jobs.JPEGS.items():
        expected = corpus.reference(name)
        if expected is None or core_jobs.decode(context, data)[0] != Status.OK:
            continue
        height, width = expected.shape[:2]
        for _ in range(4):
            top, left = int(rng.integers(height)), int(rng.integers(width))
            box = (top, left, int(rng.integers(1, height - top + 1)), int(rng.integers(1, width - left + 1)))
            status, image = core_jobs.decode(context, data, box)
            assert status == Status.OK, (name, box, core.status_text(status))
            part = expected[top : top + box[2], left : left + box[3]]
            np.testing.assert_array_equal(image, part, err_msg=f"{name} {box}")
            seen += 1
    assert seen > 200


def test_a_damaged_files_box_is_refused_like_the_file(context: core.Context) -> None:
    for name, data in core_jobs.JPEGS.items():
        if corpus.reference(name) is None:  # although these pixels are undamaged in most of these files
            assert core_jobs.decode(context, data, (0, 0, 1, 1))[0] != Status.OK, name


def test_boxes_that_are_none(context: core.Context) -> None:
    data = corpus.files()["jpeg-420"]
    for box in [(0, 0, 98, 131), (0, 0, 97, 132), (-1, 0, 5, 5), (0, -1, 5, 5), (97, 0, 1, 1), (0, 131, 1, 1)]:
        job, out = core.Job(), np.empty((box[2], box[3], 3), np.uint8)
        job.read(data)
        job.box(*box)
        job.write_array(out)
        assert context.run(job) == Status.BAD_REGION, box


def test_a_sink_of_another_size(context: core.Context) -> None:
    data = corpus.files()["jpeg-420"]
    for shape in [(96, 131, 3), (97, 130, 3), (97, 131, 1), (98, 131, 3), (0, 0, 3)]:
        job = core.Job()
        job.read(data)
        job.write_array(np.empty(shape, np.uint8))
        assert context.run(job) == Status.BAD_OPERATION, shape


def test_limits(context: core.Context) -> None:
    data = corpus.files()["jpeg-420"]
    assert core_jobs.decode(context, data, max_pixels=97 * 131)[0] == Status.OK
    assert core_jobs.decode(context, data, max_pixels=97 * 131 - 1)[0] == Status.TOO_LARGE
    assert core_jobs.decode(context, corpus.files()["jpeg-progressive"], max_bytes=10_000)[0] == Status.TOO_LARGE
    job, out = core.Job(), np.empty((97, 131, 3), np.uint8)
    job.read(data)
    job.write_array(out)
    job.raw.expected_height, job.raw.expected_width = 97, 131
    assert context.run(job) == Status.OK
    job.raw.expected_height, job.raw.expected_width = 131, 97
    assert context.run(job) == Status.UNUSUAL_HEADER


@pytest.mark.needs_core
def test_memory_grows_with_the_width_alone() -> None:
    held = []
    for height in (64, 1024):
        context = core.Context()
        assert core_jobs.decode(context, corpus.jpeg(height, 64))[0] == Status.OK
        held.append(core_jobs.context_bytes(context))
    assert held[1] < held[0] + (64 << 10)  # the data's own copy grows


def test_from_a_file(context: core.Context, tmp_path: Path) -> None:
    data, expected = corpus.files()["jpeg-420"], corpus.reference("jpeg-420")
    assert expected is not None
    path = tmp_path / "ein Bild é.jpg"
    path.write_bytes(b"before" + data + b"behind")
    job, out = core.Job(), np.zeros_like(expected)
    job.write_array(out)
    core_jobs.read_path(job, path, 6, len(data))
    assert context.run(job) == Status.OK
    np.testing.assert_array_equal(out, expected)
    path.write_bytes(data)
    out[:] = 0
    core_jobs.read_path(job, path)
    assert context.run(job) == Status.OK
    np.testing.assert_array_equal(out, expected)
    core_jobs.read_path(job, tmp_path / "missing.jpg")
    assert context.run(job) == Status.IO_ERROR
    assert job.raw.os_error == 2
    core_jobs.read_path(job, tmp_path)
    assert context.run(job) == Status.IO_ERROR
    core_jobs.read_path(job, path, len(data) - 4, 100)
    assert context.run(job) in (Status.IO_ERROR, Status.TRUNCATED, Status.UNKNOWN_FORMAT)
    if os.path.exists("/dev/null"):
        core_jobs.read_path(job, "/dev/null")
        assert context.run(job) != Status.OK


def test_no_source_or_two(context: core.Context) -> None:
    job = core.Job()
    job.write_array(np.empty((4, 4, 3), np.uint8))
    assert context.run(job) == Status.BAD_OPERATION
    job.read(b"")
    assert context.run(job) in (Status.UNKNOWN_FORMAT, Status.TRUNCATED)


@pytest.mark.needs_core
@given(data=core_jobs.jpegs(), seed=st.integers(0, 1 << 20))
@settings(max_examples=3 * settings.default.max_examples)
def test_made_files(data: bytes, seed: int) -> None:
    expected = core_jobs.pillows_verdict(data)
    assert expected is not None
    rng = random.Random(seed)
    height, width = expected.shape[:2]
    top, left = rng.randrange(height), rng.randrange(width)
    box = (top, left, rng.randint(1, height - top), rng.randint(1, width - left))
    for isa in core_jobs.isas():
        context = core.Context(isa)
        status, image = core_jobs.decode(context, data)
        assert status == Status.OK, core.status_text(status)
        np.testing.assert_array_equal(image, expected)
        status, image = core_jobs.decode(context, data, box)
        assert status == Status.OK, core.status_text(status)
        np.testing.assert_array_equal(image, expected[top : top + box[2], left : left + box[3]])


@pytest.mark.parametrize("seed", [1, 2])
def test_mutated_files(context: core.Context, seed: int) -> None:
    """A share of what ``tests/fuzz/core.py`` runs by the million."""
    decoded = 0
    for number in range(1500):
        _, data = mutation(seed, number, ("jpeg",))
        status, image = core_jobs.decode(context, data)
        if status == Status.OK:
            expected = core_jobs.pillows_verdict(data)
            assert expected is not None, f"input {number} of seed {seed}: Pillow refuses it"
            np.testing.assert_array_equal(image, expected, err_msg=f"input {number} of seed {seed}")
            decoded += 1
    assert decoded > 300


@pytest.mark.parametrize("kind", ["420", "444", "progressive", "restart"])
def test_every_cut(context: core.Context, kind: str) -> None:
    """Cut off at any byte: never decoded, unless Pillow decodes it too."""
    data = {
        "progressive": lambda: corpus.save(corpus.photo(19, 23), "JPEG", progressive=True),
        "restart": lambda: corpus.save(corpus.photo(19, 23), "JPEG", restart_marker_blocks=1),
    }.get(kind, lambda: corpus.jpeg(19, 23, kind))()
    for length in range(len(data)):
        status, image = core_jobs.decode(context, data[:length])
        if status == Status.OK:
            np.testing.assert_array_equal(image, core_jobs.pillows_verdict(data[:length]), err_msg=str(length))


@pytest.mark.parametrize(
    ("name", "warned"),
    [("jpeg-420", 0), ("jpeg-restart", 0), ("jpeg-progressive", 0), ("left over", 1), ("scan", 1), ("fill", 0)],
)
def test_what_libjpeg_warns_about(context: core.Context, name: str, warned: int) -> None:
    files = [data for known, data in core_jobs.JPEGS.items() if known.startswith(name)] or [corpus.jpeg(30, 47)]
    data = files[0]
    if name == "left over":
        data = data[:-2] + bytes(9) + data[-2:]
    elif name == "fill":  # 0xFF may stand in front of any marker
        data = data[:-2] + b"\xff\xff" + data[-2:]
    elif name == "scan":
        at = data.index(b"\xff\xda")
        data = data[: at + 13] + b"\x20" + data[at + 14 :]
    assert core_jobs.decode(context, data)[0] == Status.OK
    header = core.read_header(data)
    assert not isinstance(header, Status)
    job, out = core.Job(), np.empty((*header.size, 3), np.uint8)
    job.read(data)
    job.write_array(out)
    assert context.run(job) == Status.OK
    assert job.raw.warned == warned
