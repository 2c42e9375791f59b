"""Each thread's own jobs, reused for one image after the other, and checks of their status."""

from __future__ import annotations

from fastpipe.core.jobs import Job, PreparedJob
from fastpipe.core.library import done, status_text
from fastpipe.core.native_object import PerThread
from fastpipe.core.pool import run, thread_context
from fastpipe.core.structs import Status
from fastpipe.errors import CoreError

_free = PerThread(list[Job])


def thread_job() -> Job:
    """Lends an empty job until `run_thread_job`; no signal handler or greenlet of the thread shares it."""
    job = _borrowed()
    job.clear()
    return job


def _borrowed() -> Job:
    """A job of this thread, with the content of its last use."""
    try:
        return _free.value.pop()
    except IndexError:
        return Job()


def run_prepared(prepared: PreparedJob, source: int, sink: int, keep: object) -> int:
    """Runs a prepared job in this thread and returns its `Status` as a plain int; see `Job.fill` for the arguments."""
    job = _borrowed()
    job.fill(prepared, source, sink, keep)
    return run_thread_job(job)


def run_thread_job(job: Job) -> int:
    """Runs a job of `thread_job`, gives it back and returns its `Status` as a plain int."""
    status = run(job)
    give_back(job)
    return status


def run_thread_series(job: Job, count: int, in_step: int, out_step: int) -> int:
    """Runs a job of `thread_job` on `count` images in memory (see `Context.run_series`), and gives it back."""
    status = thread_context().run_series(job, count, in_step, out_step)
    give_back(job)
    return status


def give_back(job: Job) -> None:
    """Gives back a job of `thread_job` without running it."""
    job.let_go()
    _free.value.append(job)


def refused(status: int) -> bool:
    """True if the core refused the file itself, so that another reader has to decide about the file."""
    return Status.OK < status < Status.BAD_REGION


def check_or_unsure(status: int) -> bool:
    """True if a job is done; False if torch has to do its work, because torch rounds the same pixels in two ways.

    Raises:
        MemoryError, CoreError: see `check`.
    """
    if status == Status.UNSURE:
        return False
    check(status)
    return True


def check(status: int) -> None:
    """Raises if a job failed.

    Raises:
        MemoryError: out of memory.
        CoreError: any other failure, a bug in fastpipe.
    """
    if not done(status):
        raise CoreError(f"the core didn't do what it was asked for: {status_text(status)}")
