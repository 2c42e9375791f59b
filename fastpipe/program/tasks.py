"""One sample on its way: its file, and what each stage has found; and the policy for those that fail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from fastpipe import core, readers
from fastpipe.config import MachineConfig
from fastpipe.program.program import Program
from fastpipe.readers import MaxPixels
from fastpipe.types import Header, ImageShape, Recipe


@dataclass(slots=True)
class Encoded:
    """A file's bytes, and how they are to be decoded.

    Attributes:
        data: the whole file; empty where `held` has it.
        header: of it.
        source: what an error calls it.
        reader: a reader's name; None for the config's choice.
        config: the machine's config; None for the current one.
        max_pixels: what an image may have, as `fastpipe.readers.read_image` says.
        held: the files that the core has read, and the number of this one among them; until they are read anew.
        place: address and length of the bytes, where `held` has them.
    """

    data: bytes
    header: Header
    source: str = "<bytes>"
    reader: str | None = None
    config: MachineConfig | None = None
    max_pixels: MaxPixels = "auto"
    held: tuple[core.Files, int] | None = None
    place: tuple[int, int] = (0, 0)

    @property
    def content(self) -> bytes:
        """The whole file as an object of its own."""
        if self.held is not None and not self.data:
            files, number = self.held
            self.data = files.bytes(number)
        return self.data

    @classmethod
    def of(cls, data: bytes, source: str = "<bytes>", **options: Any) -> Encoded:
        """With the header parsed."""
        return cls(data, readers.parse_header(data, source), source, **options)


@dataclass(slots=True)
class SampleTask:
    """One sample on its way: each stage adds what it has found.

    Attributes:
        index: the sample that is read, counted from the front.
        place: the sample that was asked for, whose random numbers are used: another one where this replaces it.
        path: of the file; what errors call it.
        target: of the sample that is read; transformed once `draw` is done, where nothing foreign is in the transforms.
        source: the file's path, or what is in it.
        position: in the batch.
        epoch: None where the dataset has no seed.
        key: what keys the random numbers; None for those of the generators.
        encoded: the file, once it is read: an `Encoded`, or what other stages read.
        shape: of the upright image, once the file is read.
        orientation: the EXIF orientation that is applied; 1 for none.
        recipe: what was drawn.
        program: what is to be done.
        image: the result, or what is there of it; None while there is nothing, and for one made in a batch's tensor.
        error: why it can't be made, None as long as it can.
        finished: an ``(image, target)`` to hand out as it stands; None where there is work to do.
    """

    index: int
    place: int
    path: str
    target: Any
    source: Any
    epoch: int | None = None
    key: int | None = None
    encoded: Any = None
    shape: ImageShape | None = None
    orientation: int = 1
    recipe: Recipe | None = None
    program: Program | None = None
    image: Any = None
    error: Exception | None = None
    finished: tuple[Any, Any] | None = None
    position: int = 0


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
        """Whether a sample that fails isn't the end."""

    @property
    def draws(self) -> bool:
        """Whether substitutes draw random numbers."""
