"""Many programs at once: one call of the core runs all that it can claim whole, on threads of its own.

What it doesn't claim, or refuses, is handed back for `execute`, one by one.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from fastpipe import core, readers
from fastpipe.program.execute import DIRECT, WHOLE, Encoded, add_steps
from fastpipe.program.laps import lap, listening
from fastpipe.program.program import Program
from fastpipe.types import ImageShape


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


class Engine:
    """The threads that run jobs, and what is filled again and again: files and jobs that nobody needs any more.

    Whoever fills something has taken it away before, so that a signal handler or greenlet of this thread takes another.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.pool = core.Pool(max(threads, 1))
        self.batches: list[core.Batch] = []
        self.models: list[core.Batch] = []
        self.files: list[core.Files] = []

    def jobs(self, count: int) -> core.Batch:
        batch = self.batches.pop() if self.batches else None
        return core.Batch(count) if batch is None or len(batch) < count else batch

    def read(self, sources: Sequence[str | bytes], max_bytes: int) -> core.Files:
        files = self.files.pop() if self.files else core.Files()
        files.load(sources, max_bytes, self.pool)
        return files


_mine = threading.local()


def engine_of(threads: int) -> Engine:
    """The calling thread's own."""
    engine: Engine | None = getattr(_mine, "engine", None)
    if engine is None or engine.threads != threads:
        end_threads()
        engine = _mine.engine = Engine(threads)
    return engine


class Started:
    """Images of a batch that are being made; see `start_together`.

    Args:
        left: what is left to do in any case.
        taken: what the jobs do; it is asked for what the core refuses, and lives until they have run.
        engine: runs them; None for none.
        batch: the jobs, one for each of `taken`.
    """

    def __init__(
        self, left: list[Work], taken: Sequence[Work], engine: Engine | None, batch: core.Batch | None
    ) -> None:
        self._left, self._taken, self._engine, self._batch = left, taken, engine, batch
        self._run: core.Run | None = None
        if engine is not None and batch is not None and taken:
            self._run = engine.pool.start(batch, len(taken), taken) if engine.threads else None

    def left(self) -> list[Work]:
        """Waits for them, and gives back what is left to do: what the core didn't claim, or refused."""
        engine, batch, self._batch = self._engine, self._batch, None
        if engine is None or batch is None:
            return self._left
        count = len(self._taken)
        statuses = engine.pool.run(batch, count) if self._run is None else self._run.wait()
        engine.batches.append(batch)
        # Refused: `execute` asks the next reader, or says what is wrong.
        self._left += [self._taken[number] for number, status in enumerate(statuses) if status]
        if count:
            lap("decode")
        return self._left


def works_together() -> bool:
    """Whether there is a core; not while somebody listens, who wants to hear each image's pieces."""
    return core.available() and not listening()


def read_together(sources: Sequence[str | bytes], threads: int, max_bytes: int) -> core.Files:
    """Reads files, and looks at their headers, by the threads that `run_together` has.

    Args:
        sources: paths of files, and what is in others.
        threads: how many read.
        max_bytes: longer files aren't read; 0 for no limit.

    Returns:
        The files, as `core.Files.load` leaves them. `done_with` takes them back, to read others into their memory.
    """
    return engine_of(threads).read(sources, max_bytes)


def done_with(files: core.Files) -> None:
    """Nobody needs what was read into these files any more, in the thread that read them."""
    engine: Engine | None = getattr(_mine, "engine", None)
    if engine is not None:
        engine.files.append(files)


def pool_of(threads: int) -> core.Pool:
    """The calling thread's own pool, which `run_together` has."""
    return engine_of(threads).pool


def end_threads() -> None:
    """Ends the threads that the calling thread's batches were made by; the next batch starts its own."""
    engine: Engine | None = getattr(_mine, "engine", None)
    if engine is not None:
        engine.pool.close()
        _mine.engine = None


def run_together(works: Sequence[Work], threads: int) -> list[Work]:
    """Runs what the core claims whole; gives back what is left to do. As `start_together`."""
    return start_together(works, threads).left()


def start_together(works: Sequence[Work], threads: int) -> Started:
    """Has the core make what it claims whole, while Python does other things.

    Args:
        works: images of one batch, of one dataset: what they may have of pixels is the same.
        threads: how many make them; with 0 the caller does, where he waits.
    """
    if not works_together() or not works or works[0].images.dtype not in DIRECT:
        return Started(list(works), [], None, None)
    engine = engine_of(threads)
    batch = engine.jobs(len(works))
    jobs = [*batch]
    places = core.Places(works[0].images)
    left: list[Work] = []
    taken: list[Work] = []
    by_core: dict[tuple[str, bool, int, bool, bool], bool] = {}
    sinks: dict[int, tuple[Any, ...]] = {}
    limits = limits_of(works[0].encoded)
    for work in works:
        program, encoded, _, number = work
        header, conversion = encoded.header, program.conversion
        kind = header.format, header.plain, header.bit_depth, header.progressive, header.animated
        claimed = by_core.get(kind)
        if claimed is None:
            claimed = readers.choose(header, program.request, encoded.reader, encoded.config).name == "core"
            by_core[kind] = claimed
        if not claimed or conversion is None or program.after or program.request.scale != 1:
            left.append(work)
            continue
        sink = sinks.get(id(conversion))
        if sink is None:
            sink = sinks[id(conversion)] = places.sink(*conversion.arithmetic)
        address = places.first + number * places.step
        (taken if _fill(jobs[len(taken)], program, encoded, limits, address, sink) else left).append(work)
    return Started(left, taken, engine, batch)


def limits_of(encoded: Encoded) -> tuple[int, int]:
    """What `core.Job.limit` takes; what is beyond is refused, and `execute` says what becomes of it."""
    limit = readers.pixel_limit(encoded.max_pixels)
    return limit or 0, readers.most_scratch(limit)


def _fill(
    job: core.Job,
    program: Program,
    encoded: Encoded,
    limits: tuple[int, int],
    address: int,
    sink: tuple[Any, ...],
) -> bool:
    """A job for the whole program; False where the core can't run all of it."""
    shape, steps, box = program.shape, program.steps, program.request.box or WHOLE
    place = None if encoded.held is None else encoded.held[0].place(encoded.held[1])
    memory = getattr(steps, "memory", None)
    known = None if memory is None else memory.get(shape.channels)
    if known is not None and place is not None:
        job.whole(place, box, limits, known[0], address, sink)
        return True
    job.clear()
    if box is not WHOLE:
        shape = ImageShape(box.height, box.width)
    if add_steps(job, steps, shape)[1] != len(steps):
        return False
    if place is None:
        job.read(encoded.data, box, limits)
    else:
        job.read_address(*place, box, limits)
    job.write_to(address, sink)
    return True
