"""A sample in progress, with the results of each stage; and the policy for samples that fail."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from fastpipe.core import JobArray
from fastpipe.program.program import Program
from fastpipe.types import Generators, ImageShape, Step, Target


@dataclass(slots=True)
class SampleTask:
    """A sample in progress; each stage adds its results.

    Attributes:
        source_index: the index of the sample that is read, not negative.
        requested_index: the index of the sample that was asked for, which the random numbers belong to; differs if this
            task is a substitute.
        path: the file's path, for errors.
        target: the target of the sample that is read; transformed after `draw`, unless the transform has unplanned
            parts.
        source: the file's path, or its bytes.
        slot: the position in the batch.
        for_own_code: the user's code gets the image and may need only a part of it: it may be a lazy image.
        needs_pixels: its file has to be decoded before it is handed out, as nothing could replace it later.
        epoch: the epoch; None if the dataset has no seed.
        key: the key of the random numbers; None to draw from the generators.
        generators: keyed generators, if some transforms aren't drawn ahead and will draw from them later.
        encoded: the file, once it is read: an `Encoded`, or another object for stages that read no images.
        shape: the shape of the upright image, once the file is read.
        orientation: the EXIF orientation to apply; 1 for none.
        steps: the drawn steps.
        program: the lowered steps.
        image: the result so far; None before there is one, and for an image made in a batch's tensor.
        error: why the sample can't be made; None if there is no error.
        finished: an ``(image, target)`` that needs no work; None for any other sample.
    """

    source_index: int
    requested_index: int
    path: str
    target: Target
    source: str | bytes
    epoch: int | None = None
    key: int | None = None
    generators: Generators | None = None
    encoded: Any = None
    shape: ImageShape | None = None
    orientation: int = 1
    steps: tuple[Step, ...] | None = None
    program: Program | None = None
    image: object = None
    error: Exception | None = None
    finished: tuple[object, object] | None = None
    slot: int = 0
    for_own_code: bool = False
    needs_pixels: bool = False


@dataclass(slots=True)
class CoreTasks:
    """The tasks of one chunk, divided into those that the core takes and the others.

    Attributes:
        rejected: tasks that the core doesn't take.
        claimed: tasks that the core takes, one for each of the first jobs.
        unfinished: slots of claimed tasks that need further work after the core.
        jobs: the filled jobs; None if no task was offered to the core.
        memory: the tensor that the jobs write to; None if each writes to its own.
    """

    rejected: list[SampleTask]
    claimed: Sequence[SampleTask] = ()
    unfinished: Collection[int] = ()
    jobs: JobArray | None = None
    memory: torch.Tensor | None = None


class FailurePolicy(Protocol):
    """Decides about samples that can't be made; `fastpipe.datasets.BadFilePolicy` implements it."""

    def failed(self, task: SampleTask, error: Exception) -> None:
        """Notes the error in the task; raises it if the policy is to raise, or if the file isn't to blame."""

    def in_user_code(self, task: SampleTask, error: Exception) -> Exception:
        """An error that names the sample, for an error in a transform of the user's."""

    def substitutes(self, task: SampleTask) -> Iterator[SampleTask]:
        """Samples to make in place of one that failed, until one succeeds; without any the sample is left out."""

    @property
    def forgives(self) -> bool:
        """True if a sample may fail without an error that ends the epoch."""

    @property
    def draws(self) -> bool:
        """True if substitutes draw random numbers."""
