"""A file that lazy images share: each decodes the part that it needs, or all take theirs from one decode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from PIL import Image

from fastpipe import core, readers
from fastpipe.core.packed import PACKED_FORMAT
from fastpipe.program.core_steps import add_steps
from fastpipe.program.encoded import Encoded
from fastpipe.program.execute import decode_by_core
from fastpipe.program.lower import lower
from fastpipe.program.on_image import run, run_on_image, to_pil
from fastpipe.program.profiling import profiled
from fastpipe.program.program import Program
from fastpipe.types import Box, ImageShape, Recipe, Step

Opener = Callable[[bytes], Image.Image]

_BY_ROWS = {"PNG": 0.9, PACKED_FORMAT: 0.0}
"""Share of a decode's time that goes by the rows down to the last one that is needed, by format; see `_of_rows`."""

_JPEG_BY_ROWS = 0.5  # measured on photos of 500×375: the last 8×8 pixels take half of the time that all take


class LazySource:
    """An encoded image whose pixels several lazy images show, upright and in RGB.

    Threads may share it. What one of them notes here changes where the others' pixels come from, and not what they are.

    Args:
        encoded: the file, whose header says that the core decodes it.
        orientation: the EXIF orientation that is applied to it, 1 to 8.
        open_by_pillow: opens the file for what the core refuses: Pillow's errors and warnings are raised then. None for
            a `fastpipe.errors.DecodeError` that names the file.

    Attributes:
        shape: of the upright image.
        error: why the file couldn't be decoded; None as long as it could.
    """

    def __init__(self, encoded: Encoded, orientation: int = 1, open_by_pillow: Opener | None = None) -> None:
        height, width = encoded.header.size
        self.shape = ImageShape(width, height) if orientation >= 5 else ImageShape(height, width)
        self.encoded = encoded
        self._orientation = orientation
        self._open_by_pillow = open_by_pillow
        self.error: Exception | None = None
        self._decoded = 0.0
        self._whole: Image.Image | None = None

    def takes(self, program: Program) -> bool:
        """Whether the core does all steps of a program, in one job."""
        if not core.available() or profiled():
            return False
        job = core.thread_job()
        _, taken = add_steps(job, program.steps, ImageShape(*program.box.size))
        core.give_back(job)
        return taken == len(program.steps)

    def program(self, steps: tuple[Step, ...]) -> Program:
        """The program that makes the result of steps from the file."""
        return lower(Recipe(self.shape, steps), orientation=self._orientation)

    def run(self, program: Program, out: torch.Tensor | None = None, *, in_rows: bool = False) -> Any:
        """Decodes what a program needs, and does what it says; what is no tensor is a new PIL image.

        Args:
            program: that starts from the file.
            out, in_rows: as of `fastpipe.program.execute`.

        Raises:
            Exception: the file can't be decoded.
        """
        whole = self._whole
        if whole is None and self._pays_whole(program.box):
            whole = self._whole = self._decode_whole()
        if whole is None:
            try:
                return run(program, self._from_file, out, in_rows)
            except _RefusedError:
                whole = self._whole = self._decode_by_pillow()
        return run_on_image(program, whole, out, in_rows=in_rows)

    def _from_file(self, program: Program, into: torch.Tensor | None, in_rows: bool) -> Any:
        limit = readers.pixel_limit(self.encoded.max_pixels)
        made = decode_by_core(program, self.encoded, into, limit, in_rows, True) if core.available() else None
        if made is None:
            raise _RefusedError
        return to_pil(made)

    def _pays_whole(self, box: Box) -> bool:
        """Counts a part that is wanted; whether all that were by now would have taken longer than the whole image."""
        height, width = self.encoded.header.size
        by_rows = _BY_ROWS.get(self.encoded.header.format, _JPEG_BY_ROWS)
        share = by_rows * box.bottom / height + (1 - by_rows) * box.height * box.width / (height * width)
        before, self._decoded = self._decoded, self._decoded + share
        return before > 0 and self._decoded > 1

    def _decode_whole(self) -> Image.Image:
        stored = lower(Recipe(ImageShape(*self.encoded.header.size), ()))
        try:
            image: Image.Image = run(stored, self._from_file, None, False)
        except _RefusedError:
            return self._decode_by_pillow()
        return image

    def _decode_by_pillow(self) -> Image.Image:
        try:
            return self._decoded_by_pillow()
        except Exception as error:
            self.error = error
            raise

    def _decoded_by_pillow(self) -> Image.Image:
        encoded = self.encoded
        if self._open_by_pillow is not None:
            opened = self._open_by_pillow(encoded.content)
            opened.load()
            return opened.convert("RGB")
        pixels, _ = encoded.decode(refused=True)
        image: Image.Image = to_pil(pixels)
        return image


class _RefusedError(Exception):
    """The core refuses a file."""
