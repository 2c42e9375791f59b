"""Jobs in progress in the core, and the interface of the slots that they write to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import torch

from fastpipe import core
from fastpipe.core import ThreadResources
from fastpipe.executor.batch import ImageBatch
from fastpipe.executor.tasks import SampleTask
from fastpipe.types import Target


class CoreRun:
    """The tasks of one chunk, of which the core runs some.

    Args:
        rejected: tasks that the core doesn't take.
        claimed: tasks that the core takes, one for each of the first jobs.
        unfinished: slots of claimed tasks that need further work after the core.
        jobs: the filled jobs; None if no task is claimed.
        keep: an object that keeps alive the memory that the jobs write to.
        resources: the pool that runs the jobs; without threads the caller runs them in `wait`.
    """

    def __init__(
        self,
        rejected: list[SampleTask],
        claimed: Sequence[SampleTask] = (),
        unfinished: Collection[int] = (),
        jobs: core.JobArray | None = None,
        keep: object = None,
        resources: ThreadResources | None = None,
    ) -> None:
        self._rejected, self._claimed, self._unfinished = rejected, claimed, unfinished
        self._jobs, self._keep, self._resources = jobs, keep, resources
        self._run: core.Run | None = None
        if jobs is not None and resources is not None and claimed and resources.threads:
            self._run = resources.pool.start(jobs, len(claimed), (claimed, keep))

    def wait(self) -> list[SampleTask]:
        """Waits for the jobs; returns the tasks that need further work; ``image`` is None if the core failed."""
        jobs, resources, self._jobs = self._jobs, self._resources, None
        left = self._rejected
        if jobs is None or resources is None:
            return left
        statuses = resources.pool.run(jobs, len(self._claimed)) if self._run is None else self._run.wait()
        resources.give_back(jobs)
        for task, status in zip(self._claimed, statuses, strict=True):
            if status:  # refused: `execute` tries the next reader, or raises
                task.image = None
                left.append(task)
            elif task.slot in self._unfinished:
                left.append(task)
        return left


class SlotAllocator(Protocol):
    """The slots of a batch in one tensor; `BatchBuilder` implements it."""

    @property
    def images(self) -> torch.Tensor | None:
        """The tensor, once a task has been accepted."""

    def accept(self, task: SampleTask) -> bool:
        """Assigns a slot to a task; False if its result doesn't fit into one tensor with those before."""

    def place(self, position: int) -> torch.Tensor:
        """The tensor that a result is written to."""

    def finish(self, targets: list[Target], positions: Sequence[int]) -> ImageBatch:
        """The batch of these filled slots; leaves out all others."""
