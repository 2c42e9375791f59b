"""Many programs at once: one call of the core runs all that it can claim whole, on threads of its own.

What it doesn't claim, or refuses, is handed back for `execute`, one by one.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

import torch

from fastpipe import core, readers
from fastpipe.program.execute import DIRECT, Encoded, add_steps, normalization_of
from fastpipe.program.laps import lap, listening
from fastpipe.program.program import Program
from fastpipe.types import Box, Header, ImageShape


class Work(NamedTuple):
    """One image of a batch.

    Attributes:
        program: what to do; it has a conversion.
        encoded: the file.
        images: the batch, ``(N, C, H, W)``.
        number: the image's place in it.
    """

    program: Program
    encoded: Encoded
    images: torch.Tensor
    number: int

    @property
    def out(self) -> torch.Tensor:
        """Where the result goes, as `execute`'s."""
        return self.images[self.number]


class _Engine:
    """Jobs to fill again and again, and the threads that run them."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.pool = core.Pool(threads)
        self.batch = core.Batch(0)
        self.files = core.Files()

    def jobs(self, count: int) -> core.Batch:
        if len(self.batch) < count:
            self.batch = core.Batch(count)
        return self.batch


_mine = threading.local()


def _engine(threads: int) -> _Engine:
    """The calling thread's own."""
    engine: _Engine | None = getattr(_mine, "engine", None)
    if engine is None or engine.threads != threads:
        end_threads()
        engine = _mine.engine = _Engine(threads)
    return engine


def works_together() -> bool:
    """Whether there is a core; not while somebody listens, who wants to hear each image's pieces."""
    return core.available() and not listening()


def read_together(paths: Sequence[str], threads: int, max_bytes: int) -> tuple[core.Files, list[Header | core.Status]]:
    """Reads files, and looks at their headers, by the threads that `run_together` has.

    Args:
        paths: of the files.
        threads: how many read.
        max_bytes: longer files aren't read; 0 for no limit.

    Returns:
        The files, and of each its header or why it has none, as `core.Files.read` gives them. They are the calling
        thread's until it reads others.
    """
    engine = _engine(max(threads, 1))
    return engine.files, engine.files.read(paths, max_bytes, engine.pool)


def pool_of(threads: int) -> core.Pool:
    """The calling thread's own pool, which `run_together` has."""
    return _engine(max(threads, 1)).pool


def end_threads() -> None:
    """Ends the threads that the calling thread's batches were made by; the next batch starts its own."""
    engine: _Engine | None = getattr(_mine, "engine", None)
    if engine is not None:
        engine.pool.close()
        _mine.engine = None


def run_together(works: Sequence[Work], threads: int) -> list[Work]:
    """Runs what the core claims whole; gives back what is left to do.

    Args:
        works: images of one batch, of one dataset: what they may have of pixels is the same.
        threads: how many run them; 0 is 1, the caller's own.
    """
    if not works_together() or not works or works[0].images.dtype not in DIRECT:
        return list(works)
    engine = _engine(max(threads, 1))
    batch = engine.jobs(len(works))
    places = core.Places(works[0].images)
    left: list[Work] = []
    taken: list[Work] = []
    by_core: dict[tuple[str, bool], bool] = {}
    # What is beyond it is refused here, and `execute` says what becomes of it.
    limit = readers.pixel_limit(works[0].encoded.max_pixels)
    limits = limit or 0, readers.most_scratch(limit)
    for work in works:
        program, encoded, _, number = work
        header = encoded.header
        kind = header.format, header.plain
        claimed = by_core.get(kind)
        if claimed is None:
            claimed = readers.choose(header, program.request, encoded.reader, encoded.config).name == "core"
            by_core[kind] = claimed
        job = batch[len(taken)]
        if claimed and _fill(job, program, encoded, limits):
            places.write(job, number, *normalization_of(program.conversion))
            taken.append(work)
        else:
            left.append(work)
    if taken:
        for work, status in zip(taken, engine.pool.run(batch, len(taken)), strict=True):
            if status != core.Status.OK:
                left.append(work)  # refused: `execute` asks the next reader, or says what is wrong
        lap("decode")
    return left


def _fill(job: core.Job, program: Program, encoded: Encoded, limits: tuple[int, int]) -> bool:
    """A job for the whole program, but for where it writes to; False where the core can't run all of it."""
    shape, (box, scale), steps, conversion, after, *_ = program
    if after or scale != 1 or conversion is None:
        return False
    job.clear()
    if box is None:
        box = _WHOLE
    else:
        shape = ImageShape(box[2], box[3])
    if add_steps(job, steps, shape)[1] != len(steps):
        return False
    if encoded.held is None:
        job.read(encoded.data, box, limits)
    else:
        files, number = encoded.held
        job.read_address(*files.place(number), box, limits)
    return True


_WHOLE = Box(0, 0, 0, 0)
