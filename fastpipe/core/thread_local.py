"""A thread's own jobs, used for one image after the other, and what their outcome means."""

from __future__ import annotations

import threading

from fastpipe.core.jobs import Job
from fastpipe.core.library import status_text
from fastpipe.core.pool import run
from fastpipe.core.structs import Status
from fastpipe.errors import CoreError


class _Local(threading.local):
    def __init__(self) -> None:
        self.free: list[Job] = []


_local = _Local()


def thread_job(empty: bool = True) -> Job:
    """A job that nobody else fills before `run_thread_job` takes it back: no signal handler or greenlet of this thread.

    Args:
        empty: without operations, box and limits; else as it was left, for `Job.read` and `Job.work`.
    """
    try:
        job = _local.free.pop()
    except IndexError:
        job = Job()
    if not empty:
        return job
    job.clear()
    job.box()
    job.limit()
    return job


def run_thread_job(job: Job) -> int:
    """Runs a job of `thread_job` and gives it back; its `Status`, as a plain int."""
    status = run(job)
    give_back(job)
    return status


def give_back(job: Job) -> None:
    """Gives a job of `thread_job` back that isn't run."""
    _local.free.append(job)


def refused(status: int) -> bool:
    """Whether a job came to nothing because of what the file is: another reader decides about it then."""
    return Status.OK < status < Status.BAD_REGION


def check(status: int) -> None:
    """Nothing for a job that was done.

    Raises:
        MemoryError: there was no memory.
        CoreError: anything else: a mistake of fastpipe's.
    """
    if status == Status.OK:
        return
    if status == Status.NO_MEMORY:
        raise MemoryError("the core found no memory for an image")
    raise CoreError(f"the core didn't do what it was asked for: {status_text(status)}")
