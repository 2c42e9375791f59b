"""An encoded image: what images and tensors without pixels are made from, whichever library opened the file.

An `EncodedImage` holds the file's bytes, header and orientation, how the library that opened it decodes it, and what
has been asked of it. It runs programs. Each decodes its own part of the file by the core, or all start from one decode
of the whole image: `fastpipe.program.parts` decides. If the core refuses the file, the library decodes it; if fastpipe
makes a mistake, the library's pixels are taken, and the mistake is told: see `EncodedImage.attempt`.

A library's face of it adds what its objects need: `fastpipe.pillow.lazy_source` the images, their ``info`` and checks,
`fastpipe.program.pending_work` the tensors. What is recorded, and how often it is used, is in their records: see
`fastpipe.program.uses`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TypeAlias, TypeVar

import numpy as np
import torch
from PIL import Image

from fastpipe import core
from fastpipe.mistakes import attempt
from fastpipe.ops import Crop, Operation
from fastpipe.program.core_job import Decoded, Encoded
from fastpipe.program.execute import decode_by_core
from fastpipe.program.lower import lower
from fastpipe.program.on_image import run, run_on_image, to_array, to_pil
from fastpipe.program.parts import Parts
from fastpipe.program.program import Program
from fastpipe.readers.base import Pixels
from fastpipe.types import Box, ImageShape, Step

OnMistake: TypeAlias = Callable[[Exception], object]
OnDecode: TypeAlias = "Callable[[Encoded, Box | None], object]"
Result = TypeVar("Result")


class ProgramImage(ABC):
    """An image in RGB that programs start from: a file's, or one that has its pixels.

    Attributes:
        shape: the shape of the upright image.
        orientation: the EXIF orientation to apply, 1 to 8.
    """

    shape: ImageShape
    orientation = 1

    def program(self, recorded: tuple[Step, ...], box: Box | None = None, steps: tuple[Step, ...] = ()) -> Program:
        """The program through recorded steps, and through further steps on a box of their result.

        Args:
            recorded: the steps on the upright image.
            box: the box of their result; None for all.
            steps: the steps on the box, already lowered.
        """
        if recorded or self.orientation != 1:
            crop = () if box is None else (Crop(*box),)
            return lower((*recorded, *crop, *steps), self.shape, orientation=self.orientation)
        result = self.shape if box is None else ImageShape(box.height, box.width)
        for step in steps:
            result = step.output_shape(result)
        return Program(self.shape, box, steps, None, (), result)

    @abstractmethod
    def run(self, program: Program, out: torch.Tensor | None = None, *, in_rows: bool = False) -> object:
        """Makes what a program needs, and runs it; a result that is no tensor is a new PIL image, or several.

        Args:
            program: a program that starts from the image.
            out, in_rows: see `fastpipe.program.execute`.

        Raises:
            Exception: the file can't be decoded.
        """

    @abstractmethod
    def run_by_core(self, program: Program, out: torch.Tensor | None, in_rows: bool) -> object:
        """Runs a program as `run` does; None if the core refuses the file, or lacks a step that needs a PIL image."""

    def image(self, program: Program) -> Image.Image:
        """The new PIL image of a program without a conversion; see `run`."""
        image = self.run(program)
        assert isinstance(image, Image.Image)
        return image

    def array(self, program: Program) -> Pixels:
        """The array ``(H, W, C)`` of a program without a conversion, valid until the next decode; see `run`."""
        return to_array(self.image(program))


class LoadedPixels(ProgramImage):
    """An image that has its pixels, which nobody changes.

    Args:
        pixels: the image.
    """

    def __init__(self, pixels: Image.Image) -> None:
        self.shape = ImageShape(pixels.height, pixels.width)
        self._pixels = pixels

    def run(self, program: Program, out: torch.Tensor | None = None, *, in_rows: bool = False) -> object:
        result: object = run_on_image(program, self._pixels, out, in_rows=in_rows)
        return result

    def run_by_core(self, program: Program, out: torch.Tensor | None, in_rows: bool) -> object:
        return self.run(program, out, in_rows=in_rows)


class EncodedImage(ProgramImage):
    """An encoded image that several images or tensors are made from, upright and in RGB.

    Threads may share it: the notes here decide how pixels are made, never what they are.

    Args:
        encoded: the file, whose header is one that the core decodes.
        orientation: the EXIF orientation to apply, 1 to 8.
        on_mistake: is called with an error of fastpipe's if the library can make the pixels; None to raise it.
        is_sound: the library is sure to decode the file without an error.

    Attributes:
        shape: the shape of the upright image.
        encoded, orientation, on_mistake, is_sound: the arguments.
        error: why the file couldn't be decoded; None if there is no error.
        on_decode: is called at the first decode, with the file and the box that is decoded, None for the whole image.
    """

    on_decode: OnDecode | None = None

    def __init__(
        self, encoded: Encoded, orientation: int = 1, on_mistake: OnMistake | None = None, is_sound: bool = False
    ) -> None:
        height, width = encoded.header.size
        self.shape = ImageShape(width, height) if orientation >= 5 else ImageShape(height, width)
        self.encoded = encoded
        self.orientation = orientation
        self.on_mistake = on_mistake
        self.is_sound = is_sound
        self.error: Exception | None = None
        self._parts = Parts(encoded.header)
        self._whole: Pixels | Image.Image | None = None

    @abstractmethod
    def decoded_by_library(self) -> Pixels | Image.Image:
        """The image as it is stored, in RGB, as the library that opened the file decodes it, with its errors."""

    def attempt(self, ours: Callable[[], Result], by_library: Callable[[], Result]) -> Result:
        """Makes pixels; if that fails, by the library, if mistakes are told: see `fastpipe.mistakes.attempt`."""
        return ours() if self.on_mistake is None else attempt(ours, by_library, self.on_mistake)

    def keep(self, pixels: Pixels) -> None:
        """Keeps an array of the whole upright image, which nobody changes: later images are made from it."""
        if self.orientation == 1 and self._whole is None:
            self._whole = pixels

    def expect(self, parts: int) -> None:
        """Sets how many parts will be asked for, so that the whole image is decoded at once if that is less work."""
        self._parts.expect(parts)

    @property
    def gets_pixels(self) -> bool:
        """True if an image of the whole file is to get pixels, since many small parts of it have been asked for."""
        return self._parts.small_are_many

    def note_crop(self, result: ImageShape) -> None:
        """Counts a crop that is recorded on an image of the whole file."""
        self._parts.note_crop(result)

    def run(self, program: Program, out: torch.Tensor | None = None, *, in_rows: bool = False) -> object:
        result = self._run(program, out, in_rows, as_pil=True)
        return self._run_by_library(program, out, in_rows) if result is None else result

    def array(self, program: Program) -> Pixels:
        pixels = self._run(program, None, False, as_pil=False)
        if pixels is None:
            pixels = self._run_by_library(program, None, False)
        if isinstance(pixels, Image.Image):
            return to_array(pixels)
        assert isinstance(pixels, np.ndarray)
        return pixels

    def run_by_core(self, program: Program, out: torch.Tensor | None, in_rows: bool) -> object:
        foreign = not all(isinstance(step, Operation) for step in program.steps)
        return self._run(program, out, in_rows, as_pil=False, all_steps=foreign)

    def fill(self, job: core.Job, program: Program) -> bool:
        """Fills a job without its sink; False if `run` has to do more than one job.

        Args:
            job: any job, which is filled anew.
            program: a program that starts from the file, and that the core can run as a whole.
        """
        return self._whole is None and self._parts.fill(job, program, self.encoded)

    def region(self, box: Box, steps: tuple[Step, ...] = ()) -> Pixels:
        """Decodes only a box of the steps' result: an array ``(H, W, C)``, valid until the thread's next decode."""
        return self.array(self.program(steps, box))

    def decode(self) -> bool:
        """Decodes the whole image now; False if the core refuses it."""
        stored = lower((), ImageShape(*self.encoded.header.size))
        pixels = decode_by_core(stored, None, False, encoded=self.encoded, is_kept=True)
        if isinstance(pixels, np.ndarray):
            self._whole = pixels
        return isinstance(pixels, np.ndarray)

    def _run(
        self, program: Program, out: torch.Tensor | None, in_rows: bool, as_pil: bool, all_steps: bool = False
    ) -> object:
        if self._parts.add(program, whole_is_there=self._whole is not None) and not self.decode():
            self._whole = self._decode_by_library()
        whole = self._whole
        if self.on_decode is not None:
            self.on_decode(self.encoded, program.box if whole is None else None)
            self.on_decode = None
        if isinstance(whole, Image.Image):
            return run_on_image(program, whole, out, in_rows=in_rows)
        encoded = self.encoded if whole is None else Decoded(whole)
        by_core = partial(decode_by_core, encoded=encoded, as_pil=as_pil, all_steps=all_steps)
        return run(program, by_core, out, in_rows)

    def _run_by_library(self, program: Program, out: torch.Tensor | None, in_rows: bool) -> object:
        whole = self._decode_by_library() if self._whole is None else self._whole
        self._whole = pixels = whole if isinstance(whole, Image.Image) else to_pil(whole)
        return run_on_image(program, pixels, out, in_rows=in_rows)

    def _decode_by_library(self) -> Pixels | Image.Image:
        try:
            return self.decoded_by_library()
        except Exception as error:  # raised again; noted for callers that see another error
            self.error = error
            raise
