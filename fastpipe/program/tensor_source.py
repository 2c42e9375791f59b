"""An image whose pixels pending tensors are made from: an encoded one, or one that was recorded on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from fastpipe import core
from fastpipe.ops import PilToTensor, Resize, RgbToGrayscale, ToPureTensor, interned_once
from fastpipe.program.encoded_image import EncodedImage, ProgramImage
from fastpipe.program.lower import lower
from fastpipe.program.on_image import run_on_image
from fastpipe.program.program import Program
from fastpipe.program.uses import Recorded, is_unused
from fastpipe.readers.base import Pixels
from fastpipe.types import ImageShape, Step

TO_PURE = interned_once(ToPureTensor)
TO_TENSOR = interned_once(PilToTensor), TO_PURE
_GRAY = interned_once(RgbToGrayscale, 1)


class RecordedImage(Recorded, Protocol):
    """The part of an image's record that its tensors concern."""

    def start_of_child(self) -> tuple[ProgramImage, int]:
        """Counts a use by what was recorded on the image; returns its start, and the number of steps done there."""


class TensorSource:
    """An image that pending tensors are made from.

    Args:
        image: the encoded image.
        first: the steps from its pixels to the tensor: those recorded on the image, and the conversion.
        shape: the shape of the tensor.
        recorded: the record of the image, to which the first of these steps belong; None for the file's own pixels.
        in_planes: the tensor lies in planes without gaps, even if torchvision's doesn't.
        is_turned: the rows of torchvision's tensor are the file's columns.
    """

    def __init__(
        self,
        image: EncodedImage,
        first: tuple[Step, ...],
        shape: ImageShape,
        recorded: RecordedImage | None = None,
        in_planes: bool = False,
        is_turned: bool = False,
    ) -> None:
        self.image = image
        self.shape = shape
        self.recorded = recorded
        self.is_turned = is_turned
        self._first, self._in_planes = first, in_planes
        if recorded is not None:
            recorded.children += 1

    @classmethod
    def of_file(cls, image: EncodedImage, channels: int) -> TensorSource:
        """The pixels of a file as torchvision decodes it: in RGB, or gray with 1 channel."""
        gray = (_GRAY,) if channels == 1 else ()
        shape = ImageShape(image.shape.height, image.shape.width, channels)
        return cls(image, (*gray, *TO_TENSOR), shape, is_turned=image.orientation >= 5)

    @property
    def is_file(self) -> bool:
        """True if the tensor without further steps is the file's, whose parts the encoded image counts."""
        return self.recorded is None

    def program(self, steps: tuple[Step, ...]) -> Program:
        """The program from the file to the tensor, and through further steps on the tensor."""
        return self._program_from(self.image, (*self._first, *steps))

    def _program_from(self, start: ProgramImage, steps: tuple[Step, ...]) -> Program:
        program = lower(steps, start.shape, orientation=start.orientation)
        return program._replace(in_rows=False, memo=None) if self._in_planes else program

    def run(
        self, steps: tuple[Step, ...], program: Program, out: torch.Tensor | None = None, *, in_rows: bool = False
    ) -> torch.Tensor:
        """Runs steps on the image's tensor; returns a new tensor, or the given one.

        Args:
            steps: the steps on the image's tensor.
            program: the program of these steps, from `program`.
            out: a tensor of the result's shape and dtype, with any strides.
            in_rows: a new tensor is interleaved, as torchvision's is.
        """
        image, recorded = self.image, self.recorded

        def ours() -> object:
            start, done = (image, 0) if recorded is None else recorded.start_of_child()
            own = program if start is image else self._program_from(start, (*self._first[done:], *steps))
            return start.run(own, out, in_rows=in_rows)

        def by_library() -> object:
            return run_on_image(self.program(steps), image.decoded_by_library(), out, in_rows=in_rows)

        result = image.attempt(ours, by_library)
        assert isinstance(result, torch.Tensor)
        return result

    def held_bytes(self) -> int:
        """Bytes of the file in memory."""
        return len(self.image.encoded.data)

    def fill(self, job: core.Job, program: Program) -> bool:
        """Fills a job without its sink; False if `run` has to do more than one job.

        Args:
            job: any job, which is filled anew.
            program: a program from `program` that the core can run as a whole.
        """

        def filled() -> bool:
            return is_unused(self.recorded) and self.image.fill(job, program)

        if not self.image.attempt(filled, lambda: False):  # `run` makes the pixels
            return False
        if self.recorded is not None:
            self.recorded.start_of_child()
        return True


def run_on_pixels(pixels: Pixels, steps: tuple[Step, ...], out: torch.Tensor | None, in_rows: bool) -> torch.Tensor:
    """Runs steps on the tensor of loaded pixels ``(H, W, C)``; see `TensorSource.run`."""
    program = lower((*TO_TENSOR, *steps), ImageShape(*pixels.shape))
    tensor: torch.Tensor = run_on_image(program, pixels, out, in_rows=in_rows)
    return tensor


def strides_of(
    source: TensorSource, steps: Sequence[Step], program: Program, shape: ImageShape
) -> tuple[int, int, int]:
    """The strides of torchvision's result, of the given shape, when steps are applied to an image's tensor."""
    height, width, channels = shape
    if not program.in_rows or (source.is_turned and any(isinstance(step, Resize) for step in steps)):
        return height * width, width, 1
    return (1, channels, channels * height) if source.is_turned else (1, width * channels, channels)
