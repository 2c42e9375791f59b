"""One sample on its way, with what each stage has found; and the policy for those that fail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from fastpipe.program.program import Program
from fastpipe.types import Generators, ImageShape, Step


@dataclass(slots=True)
class SampleTask:
    """One sample on its way: each stage adds what it has found.

    Attributes:
        source_index: the sample that is read, counted from the front.
        requested_index: the sample that was asked for, whose random numbers are used: another one where this replaces
            it.
        path: of the file; what errors call it.
        target: of the sample that is read; transformed once `draw` is done, where nothing foreign is in the transforms.
        source: the file's path, or what is in it.
        slot: in the batch.
        for_own_code: the image goes to code of the user's that may take a part of it: it may be a lazy one.
        is_substitute: it takes another one's place: whether its file is good has to be known before it is handed out.
        epoch: None where the dataset has no seed.
        key: what keys the random numbers; None for those of the generators.
        generators: keyed ones, where the sample's transforms aren't all drawn ahead: the others go on with them.
        encoded: the file, once it is read: an `Encoded`; of other stages than those of images an object of their own.
        shape: of the upright image, once the file is read.
        orientation: the EXIF orientation that is applied; 1 for none.
        steps: what was drawn.
        program: what is to be done.
        image: the result, or what is there of it; None while there is nothing, and for one made in a batch's tensor.
        error: why it can't be made, None as long as it can.
        finished: an ``(image, target)`` to hand out as it stands; None where there is work to do.
    """

    source_index: int
    requested_index: int
    path: str
    target: Any
    source: str | bytes
    epoch: int | None = None
    key: int | None = None
    generators: Generators | None = None
    encoded: Any = None
    shape: ImageShape | None = None
    orientation: int = 1
    steps: tuple[Step, ...] | None = None
    program: Program | None = None
    image: Any = None
    error: Exception | None = None
    finished: tuple[object, object] | None = None
    slot: int = 0
    for_own_code: bool = False
    is_substitute: bool = False


class FailurePolicy(Protocol):
    """Decides what becomes of samples that can't be made; `fastpipe.datasets.BadFilePolicy` is one."""

    def failed(self, task: SampleTask, error: Exception) -> None:
        """Notes the error in the task; raises it where errors are raised, or where it isn't the file's fault."""

    def in_user_code(self, task: SampleTask, error: Exception) -> Exception:
        """The error of a transform of the user's, which names the sample."""

    def substitutes(self, task: SampleTask) -> Iterator[SampleTask]:
        """Samples to make in place of one that failed, until one succeeds; none to leave it out."""

    @property
    def forgives(self) -> bool:
        """True if a sample may fail without an error that ends the epoch."""

    @property
    def draws(self) -> bool:
        """Whether substitutes draw random numbers."""
