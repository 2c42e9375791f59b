"""Images that the core makes: files that it reads, jobs that are filled here and run by its threads."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence

from fastpipe import core, readers
from fastpipe.executor.tasks import SampleTask
from fastpipe.program.core_steps import add_steps
from fastpipe.program.encoded import Encoded
from fastpipe.program.profiling import listener
from fastpipe.program.program import Program
from fastpipe.types import Box, ImageShape

_WHOLE = Box(0, 0, 0, 0)  # all of a file, for a job


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
        return core.Batch(count) if batch is None or batch.size < count else batch

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


def workspace(threads: int) -> Workspace | None:
    """The calling thread's own; with another number of threads than before it is made anew.

    None where there is no core, and while somebody profiles, who wants to hear of each image's steps.
    """
    if listener.get() is not None:
        return None
    found: Workspace | None = getattr(_local, "workspace", None)
    if found is None or threads != found.threads:
        end_threads()
        found = _local.workspace = Workspace(threads) if core.available() else None
    return found


def end_threads() -> None:
    """Ends the core's threads that work for the calling thread; the next batch starts its own."""
    found: Workspace | None = getattr(_local, "workspace", None)
    if found is not None:
        found.pool.close()
        _local.workspace = None


class CoreRun:
    """Images that the core is making.

    Args:
        rejected: tasks that it doesn't take.
        claimed: tasks that it does, one for each of the first jobs.
        unfinished: those of them to which something is to be done when the core has made them, by position.
        jobs: room for jobs, filled; None where nothing is claimed.
        keep: whatever has the memory that jobs write to: it lives until they have run.
        here: runs them: its threads, or the caller in `wait` where it has none.
    """

    def __init__(
        self,
        rejected: list[SampleTask],
        claimed: Sequence[SampleTask] = (),
        unfinished: Collection[int] = (),
        jobs: core.Batch | None = None,
        keep: object = None,
        here: Workspace | None = None,
    ) -> None:
        self._rejected, self._claimed, self._unfinished = rejected, claimed, unfinished
        self._jobs, self._keep, self._here = jobs, keep, here
        self._run: core.Run | None = None
        if jobs is not None and here is not None and claimed and here.threads:
            self._run = here.pool.start(jobs, len(claimed), (claimed, keep))

    def wait(self) -> list[SampleTask]:
        """Waits for the jobs; tasks that aren't finished, without an image where the core didn't make it."""
        jobs, here, self._jobs = self._jobs, self._here, None
        left = self._rejected
        if jobs is None or here is None:
            return left
        statuses = here.pool.run(jobs, len(self._claimed)) if self._run is None else self._run.wait()
        here.give_back(jobs)
        for task, status in zip(self._claimed, statuses, strict=True):
            if status:  # refused: `execute` asks the next reader, or says what is wrong
                task.image = None
                left.append(task)
            elif task.position in self._unfinished:
                left.append(task)
        return left


def fill(job: core.Job, program: Program, encoded: Encoded, limits: tuple[int, int]) -> bool:
    """Fills a job with all of a program but its sink; False where the core doesn't have all of its steps."""
    box = program.request.box
    shape = program.shape if box is None else ImageShape(box.height, box.width)
    job.clear()
    if add_steps(job, program.steps, shape)[1] != len(program.steps):
        return False
    if encoded.held is None:
        job.read(encoded.data, box or _WHOLE, limits)
    else:
        job.read_address(*encoded.place, box or _WHOLE, limits)
    return True


def limits_of(max_pixels: readers.MaxPixels) -> tuple[int, int]:
    """A job's limits of pixels and of scratch memory; what is beyond is refused, and left to `execute`."""
    limit = readers.pixel_limit(max_pixels)
    return limit or 0, readers.most_scratch(limit)
