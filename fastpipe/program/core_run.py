"""Images that the core makes: files that it reads, jobs that are filled here and run by its threads."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from typing import TypeAlias

from fastpipe import core, readers
from fastpipe.program.execute import WHOLE, Encoded, add_steps
from fastpipe.program.profiling import mark, profiled
from fastpipe.program.program import Program
from fastpipe.program.tasks import SampleTask
from fastpipe.types import ImageShape


class Workspace:
    """A thread's own: the core's threads that work for it, and memory for jobs and files that is used again."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.pool = core.Pool(max(threads, 1))
        self._jobs: list[core.Batch] = []
        self._files: list[core.Files] = []

    def jobs(self, count: int) -> core.Batch:
        """Room for so many jobs; `give_back` takes it."""
        batch = self._jobs.pop() if self._jobs else None
        return core.Batch(count) if batch is None or len(batch) < count else batch

    def read(self, sources: Sequence[str | bytes], max_bytes: int) -> core.Files:
        """Reads files and looks at their headers; `give_back` takes their memory.

        Args:
            sources: paths of files, and what is in others.
            max_bytes: longer files aren't read; 0 for no limit.
        """
        files = self._files.pop() if self._files else core.Files()
        files.load(sources, max_bytes, self.pool)
        return files

    def give_back(self, memory: core.Batch | core.Files) -> None:
        """Takes memory that nobody needs any more, for the next ones who ask."""
        if isinstance(memory, core.Files):
            self._files.append(memory)
        else:
            self._jobs.append(memory)


_local = threading.local()


def workspace(threads: int | None = None) -> Workspace:
    """The calling thread's own; with another number of threads than before it is made anew. None for any number."""
    found: Workspace | None = getattr(_local, "workspace", None)
    if found is None or threads not in (None, found.threads):
        end_threads()
        found = _local.workspace = Workspace(threads or 0)
    return found


def end_threads() -> None:
    """Ends the core's threads that work for the calling thread; the next batch starts its own."""
    found: Workspace | None = getattr(_local, "workspace", None)
    if found is not None:
        found.pool.close()
        _local.workspace = None


def runs_in_core() -> bool:
    """Whether there is a core; not while somebody profiles, who wants to hear of each image's steps."""
    return core.available() and not profiled()


PlacedTask: TypeAlias = "tuple[int, SampleTask]"
"""A task and its position in the batch."""


class CoreRun:
    """Images that the core is making.

    Args:
        rejected: tasks that it doesn't take.
        claimed: tasks that it does, one for each of the first jobs.
        unfinished: positions of those of them to which something is to be done when the core has made them.
        jobs: room for jobs, filled; None where nothing is claimed.
        keep: whatever has the memory that jobs write to: it lives until they have run.
        threads: how many run them; with 0 the caller does, in `wait`.
    """

    def __init__(
        self,
        rejected: list[PlacedTask],
        claimed: Sequence[PlacedTask] = (),
        unfinished: Collection[int] = (),
        jobs: core.Batch | None = None,
        keep: object = None,
        threads: int = 0,
    ) -> None:
        self._rejected, self._claimed, self._unfinished = rejected, claimed, unfinished
        self._jobs, self._keep, self._threads = jobs, keep, threads
        self._run: core.Run | None = None
        if jobs is not None and claimed and threads:
            self._run = workspace(threads).pool.start(jobs, len(claimed), (claimed, keep))

    def wait(self) -> list[PlacedTask]:
        """Waits for the jobs; tasks that aren't finished, without an image where the core didn't make it."""
        jobs, self._jobs = self._jobs, None
        if jobs is None:
            return self._rejected
        here = workspace(self._threads)
        statuses = here.pool.run(jobs, len(self._claimed)) if self._run is None else self._run.wait()
        here.give_back(jobs)
        left = self._rejected
        for placed, status in zip(self._claimed, statuses, strict=True):
            if status:  # refused: `execute` asks the next reader, or says what is wrong
                placed[1].image = None
                left.append(placed)
            elif placed[0] in self._unfinished:
                left.append(placed)
        mark("decode")
        return left


def fill(job: core.Job, program: Program, encoded: Encoded, limits: tuple[int, int]) -> bool:
    """Fills a job with all of a program but its sink; False where the core doesn't have all of its steps."""
    box = program.request.box
    shape = program.shape if box is None else ImageShape(box.height, box.width)
    job.clear()
    if add_steps(job, program.steps, shape)[1] != len(program.steps):
        return False
    if encoded.held is None:
        job.read(encoded.data, box or WHOLE, limits)
    else:
        job.read_address(*encoded.place, box or WHOLE, limits)
    return True


def limits_of(max_pixels: readers.MaxPixels) -> tuple[int, int]:
    """A job's limits of pixels and of scratch memory; what is beyond is refused, and left to `execute`."""
    limit = readers.pixel_limit(max_pixels)
    return limit or 0, readers.most_scratch(limit)
