"""A context keeps scratch memory, and the tables of the last file and the last resize, from one job to the next.
None of it shows: a job gives what it gives in a context of its own."""

from __future__ import annotations

import random
from collections.abc import Callable

import core_jobs
import corpus
import numpy as np
import pytest

from fastpipe import core
from fastpipe.core import Filter, Status

Work = Callable[[core.Context], tuple[int, bytes]]


def jpegs() -> list[bytes]:
    """Files that share Huffman codes or don't, in one scan, in several, and progressive."""
    made = [
        corpus.save(corpus.photo(40, 56, seed), "JPEG", quality=quality, optimize=optimize, progressive=progressive)
        for seed in (1, 2)
        for quality, optimize in ((60, False), (90, True))
        for progressive in (False, True)
    ]
    empty = bytearray(made[0])  # of the first code no symbol is left
    at = empty.index(b"\xff\xc4") + 5
    empty[at : at + 16] = bytes(16)
    return [*made, bytes(empty), *core_jobs.JPEGS.values()]


def decoding(data: bytes, box: tuple[int, int, int, int] | None) -> Work:
    def work(context: core.Context) -> tuple[int, bytes]:
        status, image = core_jobs.decode(context, data, box)
        return status, b"" if image is None else image.tobytes()

    return work


def resizing(image: np.ndarray, out: tuple[int, int], filter: Filter, flips: str, max_bytes: int) -> Work:
    def work(context: core.Context) -> tuple[int, bytes]:
        job = core.Job()
        job.read_pixels(image)
        job.limit(max_bytes=max_bytes)
        if "before" in flips:
            job.flip()
        size = image.shape[:2]
        job.resize(size, (0, 0), out, (1, 1, out[0] - 1, out[1] - 1), filter, core_jobs.vertical_first(*size, *out))
        if "after" in flips:
            job.flip()
        pixels = np.empty((out[0] - 1, out[1] - 1, image.shape[2]), np.uint8)
        job.write_array(pixels)
        status = context.run(job)
        return status, b"" if status else pixels.tobytes()

    return work


def works() -> list[Work]:
    found = [decoding(data, box) for data in jpegs() for box in (None, (3, 5, 11, 17))]
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (70, 90, 3), np.uint8)
    # Rows that are read where they lie, the last one excepted, and rows that aren't.
    images = [image, image[::-1], image[:, ::-1], image[5:60, 7:80], image[:, :20].copy(), image[:, :, :1], image[:1]]
    for number, one in enumerate(images):
        for out in ((33, 41), (90, 100), (33, 90)):
            for filter in (Filter.NEAREST, Filter.BILINEAR, Filter.BICUBIC):
                flips = ("", "before", "after", "before after")[number % 4]
                found += [resizing(one, out, filter, flips, limit) for limit in (0, 0, 300)]
    return found


@pytest.mark.needs_core
def test_what_is_kept_doesnt_show() -> None:
    jobs = works()
    expected = [work(core.Context()) for work in jobs]
    assert {status for status, _ in expected} > {Status.OK, Status.TOO_LARGE}
    for isa in core_jobs.isas():
        context = core.Context(isa)
        shuffled = list(range(len(jobs)))
        random.Random(7).shuffle(shuffled)
        for number in [*range(len(jobs)), *shuffled, *shuffled[::-1]]:  # neighbours with the same tables, and others
            assert jobs[number](context) == expected[number], (isa.name, number)
