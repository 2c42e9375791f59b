"""A file that lazy images share: each image decodes its own part, or all take theirs from one decode."""

from __future__ import annotations

import math
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
import torch
from PIL import Image

from fastpipe import core
from fastpipe.mistakes import attempt
from fastpipe.ops import Crop, Operation
from fastpipe.pending import is_pending
from fastpipe.program.comparisons import Comparisons
from fastpipe.program.core_job import Decoded, Encoded
from fastpipe.program.execute import decode_by_core
from fastpipe.program.lower import lower
from fastpipe.program.on_image import Info, run, run_on_image, to_array, to_pil
from fastpipe.program.parts import Parts
from fastpipe.program.program import Program
from fastpipe.program.uses import MadeBeforeForks
from fastpipe.readers.base import Pixels
from fastpipe.types import Box, ImageShape, Step

Opener: TypeAlias = Callable[[bytes], Image.Image]
OnMistake: TypeAlias = Callable[[Exception], object]
Result = TypeVar("Result")


class Check(Protocol):
    """Counts images that are made by Pillow, too, and compared."""

    def add_check(self, plain_seconds: float, fast_seconds: float, difference: str) -> None:
        """Adds a comparison.

        Args:
            plain_seconds: the time that Pillow took.
            fast_seconds: the time that the core took.
            difference: a description of the difference; empty if there is none.
        """


_PIXEL_BYTES = {"RGB": 4, "L": 1}  # of Pillow's memory


class Source(ABC):
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


class LoadedSource(Source):
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


class LazySource(Source):
    """An encoded image that several lazy images are made from, upright and in RGB.

    Threads may share it: the notes here decide how other images' pixels are made, never what they are.

    Args:
        encoded: the file, whose header is one that the core decodes.
        orientation: the EXIF orientation to apply, 1 to 8.
        open_by_pillow: opens the file by Pillow if the core refuses it, with Pillow's errors and warnings. None to
            raise a `fastpipe.errors.DecodeError` that names the file.
        check: the comparison of this file's first few images with Pillow's; None to compare none.
        on_mistake: is called with an error of fastpipe's if Pillow can make the image; None to raise it.
        is_sound: Pillow is sure to decode the file without an error.

    Attributes:
        shape: the shape of the upright image.
        encoded, orientation, on_mistake, is_sound: the arguments.
        comparisons: the comparisons of this file's images, of any kind.
        error: why the file couldn't be decoded; None if there is no error.
    """

    def __init__(
        self,
        encoded: Encoded,
        orientation: int = 1,
        open_by_pillow: Opener | None = None,
        check: Check | None = None,
        on_mistake: OnMistake | None = None,
        is_sound: bool = False,
    ) -> None:
        height, width = encoded.header.size
        self.shape = ImageShape(width, height) if orientation >= 5 else ImageShape(height, width)
        self.encoded = encoded
        self._check = check
        self.comparisons = Comparisons(self.loaded_by_pillow)
        self.on_mistake = on_mistake
        self.is_sound = is_sound
        self.orientation = orientation
        self._open_by_pillow = open_by_pillow
        self.error: Exception | None = None
        self._parts = Parts(encoded.header)
        self._whole: Pixels | Image.Image | None = None
        self._info: Info | None = None
        self._images: list[weakref.ref[Image.Image]] = []
        self._most_images = 8
        _SOURCES.add(self)

    @property
    def check(self) -> Check | None:
        """The comparison of this file's images with Pillow's; None if none is to be compared any more."""
        return self._check if self.comparisons.left > 0 else None

    def add_image(self, image: Image.Image) -> None:
        """Registers an image without pixels that is made from the file."""
        if len(self._images) >= self._most_images:
            self._images = [reference for reference in self._images if reference() is not None]
            self._most_images = 8 + 2 * len(self._images)
        self._images.append(weakref.ref(image))

    def let_go(self) -> None:
        """Makes the images that take less memory than the file, so that the file can be freed with its last image."""
        self.make_images(len(self.encoded.data))
        self._whole = None

    def make_images(self, most: float = math.inf) -> None:
        """Makes the pixels of the images that still exist, of those that take less memory than some bytes."""
        for reference in [*self._images]:
            image = reference()
            if image is None or not is_pending(image):
                continue
            if image.width * image.height * _PIXEL_BYTES[image.mode] < most:
                with suppress(Exception):  # raised again when the pixels are used
                    _ = image.im

    def attempt(self, ours: Callable[[], Result], by_pillow: Callable[[], Result]) -> Result:
        """Makes pixels; if that fails, by Pillow, if mistakes are reported: see `fastpipe.mistakes.attempt`."""
        return ours() if self.on_mistake is None else attempt(ours, by_pillow, self.on_mistake)

    def loaded_by_pillow(self) -> Image.Image:
        """The file as Pillow decodes it; of a file that Pillow has opened."""
        if self.error is not None:  # Pillow's own
            raise self.error
        assert self._open_by_pillow is not None  # images of other files aren't compared
        assert self.orientation == 1
        image = self._open_by_pillow(self.encoded.content)
        image.load()  # opening alone decodes nothing
        return image

    def info(self) -> Info:
        """A copy of Pillow's ``info`` of the file; empty without `open_by_pillow`."""
        if self._info is None:
            self._info = {} if self._open_by_pillow is None else self._open_by_pillow(self.encoded.content).info
        return self._info.copy()

    def keep(self, pixels: Pixels) -> None:
        """Keeps an array of the whole upright image, which nobody changes: later images are made from it."""
        if self.orientation == 1 and self._whole is None:
            self._whole = pixels

    def expect(self, parts: int) -> None:
        """Sets how many parts will be asked for, so that the whole image is decoded at once if that is less work."""
        self._parts.expect(parts)

    def run(self, program: Program, out: torch.Tensor | None = None, *, in_rows: bool = False) -> object:
        result = self._run(program, out, in_rows, as_pil=True)
        return self._run_by_pillow(program, out, in_rows) if result is None else result

    def array(self, program: Program) -> Pixels:
        pixels = self._run(program, None, False, as_pil=False)
        if pixels is None:
            pixels = self._run_by_pillow(program, None, False)
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

    def _run(
        self, program: Program, out: torch.Tensor | None, in_rows: bool, as_pil: bool, all_steps: bool = False
    ) -> object:
        if self._parts.add(program.box, whole_is_there=self._whole is not None):
            self._whole = self._decode_whole()
        whole = self._whole
        if isinstance(whole, Image.Image):
            return run_on_image(program, whole, out, in_rows=in_rows)
        encoded = self.encoded if whole is None else Decoded(whole)
        by_core = partial(decode_by_core, encoded=encoded, as_pil=as_pil, all_steps=all_steps)
        return run(program, by_core, out, in_rows)

    def _run_by_pillow(self, program: Program, out: torch.Tensor | None, in_rows: bool) -> object:
        whole = self._whole
        self._whole = pixels = to_pil(whole) if isinstance(whole, np.ndarray) else self._decode_by_pillow()
        return run_on_image(program, pixels, out, in_rows=in_rows)

    def _decode_whole(self) -> Pixels | Image.Image:
        stored = lower((), ImageShape(*self.encoded.header.size))
        pixels = decode_by_core(stored, None, False, encoded=self.encoded, is_kept=True)
        return pixels if isinstance(pixels, np.ndarray) else self._decode_by_pillow()

    def _decode_by_pillow(self) -> Image.Image:
        try:
            return self._decoded_by_pillow()
        except Exception as error:  # raised again; noted for callers that see another error
            self.error = error
            raise

    def _decoded_by_pillow(self) -> Image.Image:
        encoded = self.encoded
        if self._open_by_pillow is not None:
            opened = self._open_by_pillow(encoded.content)
            opened.load()
            return opened.convert("RGB")
        return to_pil(encoded.decode(refused=True))


_SOURCES: MadeBeforeForks[LazySource] = MadeBeforeForks(LazySource.make_images)
