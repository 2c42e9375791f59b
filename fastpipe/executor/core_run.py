"""Images that the core is making, and the places of a batch that they are made in."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

import torch

from fastpipe import core
from fastpipe.core import ThreadResources
from fastpipe.executor.batch import ImageBatch
from fastpipe.executor.tasks import SampleTask


class CoreRun:
    """Images that the core is making.

    Args:
        rejected: tasks that it doesn't take.
        claimed: tasks that it does, one for each of the first jobs.
        unfinished: those of them to which something is to be done when the core has made them, by position.
        jobs: room for jobs, filled; None where nothing is claimed.
        keep: whatever has the memory that jobs write to: it lives until they have run.
        resources: runs them: its threads, or the caller in `wait` where it has none.
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
        """Waits for the jobs; tasks that aren't finished, without an image where the core didn't make it."""
        jobs, resources, self._jobs = self._jobs, self._resources, None
        left = self._rejected
        if jobs is None or resources is None:
            return left
        statuses = resources.pool.run(jobs, len(self._claimed)) if self._run is None else self._run.wait()
        resources.give_back(jobs)
        for task, status in zip(self._claimed, statuses, strict=True):
            if status:  # refused: `execute` asks the next reader, or says what is wrong
                task.image = None
                left.append(task)
            elif task.slot in self._unfinished:
                left.append(task)
        return left


class SlotAllocator(Protocol):
    """The places of a batch that is made in one tensor; `BatchBuilder` has them."""

    @property
    def images(self) -> torch.Tensor | None:
        """The tensor, once a task was accepted."""

    def accept(self, task: SampleTask) -> bool:
        """Gives a task the place of its position; False where its result doesn't fit beside those before."""

    def place(self, position: int) -> torch.Tensor:
        """The tensor that a result goes into."""

    def finish(self, targets: list[Any], positions: Sequence[int]) -> ImageBatch:
        """The batch of these places, which are filled; the others are left out."""
