"""Decides whether parts of a file are decoded one by one, or the whole image once."""

from __future__ import annotations

import threading

from fastpipe import core
from fastpipe.core.packed import PACKED_FORMAT
from fastpipe.ops import HFlip, Transpose, VFlip
from fastpipe.program.core_job import Encoded, fill_from_file
from fastpipe.program.program import Program
from fastpipe.types import Box, Header, ImageShape

_BY_ROWS = {"PNG": 0.9, PACKED_FORMAT: 0.0}
"""The share of a decode's time that is proportional to the rows from the top to the last one needed, by format."""

_JPEG_BY_ROWS = 0.5  # measured on photos of 500×375: the last 8×8 pixels take half of the time of all pixels

_CALL_PIXELS = 40_000
"""The pixels that the core decodes in the time that a part takes besides its decode: 0.2 to 0.3 ms."""

_MOST_IN_CALLS = 0.4
"""The share of a decode's time that calls for small parts may take before the image gets pixels."""

_SMALL_PIXELS = 8_192
"""The pixels, before and after its steps, of a part of which Pillow makes the result in the time of a call of ours."""

_TINY_PIXELS = 4_096
"""The pixels of a crop that counts as a small part before its pixels are asked for."""

_FILES = 4


class _LastFiles(threading.local):
    """The number of parts that were asked for of each of a thread's last files.

    A script does the same to each of its files: it takes two views of each, or ten crops. If a thread alternates
    between files, the numbers are wrong, and decodes take longer than necessary.
    """

    def __init__(self) -> None:
        self.parts = 0
        self._before = (0,) * _FILES

    def begin(self) -> int:
        """Begins a file; returns `least` of the files before it."""
        least = self.least()
        self._before = (*self._before[1:], self.parts)
        self.parts = 0
        return least

    def least(self) -> int:
        """The least number of parts that any of the last files had, the current one included."""
        return min(*self._before[1:], self.parts)


_last_files = _LastFiles()


class Parts:
    """The parts of a file that are asked for.

    Threads may share the object: the counts here decide how pixels are decoded, never what they are.

    Args:
        header: the file's header.

    Attributes:
        small_are_many: so many small parts have been asked for that an image of the whole file is to get pixels.
    """

    __slots__ = ("_decoded", "_expected", "_header", "_recorded", "_small", "_wanted", "small_are_many")

    def __init__(self, header: Header) -> None:
        self._header = header
        self._decoded, self._wanted, self._expected = 0.0, 0, 0
        self._small, self._recorded = 0, 0
        self.small_are_many = False

    def _count_small(self) -> None:
        header = self._header
        in_calls = max(self._small, self._recorded) * _CALL_PIXELS / (header.height * header.width)
        self.small_are_many = in_calls > _MOST_IN_CALLS

    def expect(self, parts: int) -> None:
        """Sets how many parts will be asked for."""
        self._decoded, self._wanted, self._expected = 0.0, 0, parts

    def note_crop(self, result: ImageShape) -> None:
        """Counts a crop that is recorded on an image of the whole file, and may be used later."""
        if result.height * result.width <= _TINY_PIXELS:
            self._recorded += 1
            self._count_small()

    def fill(self, job: core.Job, program: Program, encoded: Encoded) -> bool:
        """Fills a job without its sink, and counts its part as `add` does; False if other parts are expected.

        Args:
            job: any job, which is filled anew.
            program: a program that starts from the file, and that the core can run as a whole.
            encoded: the file.
        """
        if self._wanted or self._expected > 1 or _last_files.least() > 1:  # as far as is known
            return False
        self.add(program)
        fill_from_file(job, program, encoded)
        return True

    def add(self, program: Program, *, whole_is_there: bool = False) -> bool:
        """Counts a part; True if decoding the whole image is less work than decoding this part and those to come.

        Without `expect`, the number of parts of the last files is expected. If these had one part, returns True once
        the parts so far would have taken longer than the whole image.

        Args:
            program: a program that starts from the file; its box is the part.
            whole_is_there: the whole image has been decoded, so nothing more is decoded.
        """
        box, height, width = program.box, self._header.height, self._header.width
        is_whole = box.height == height and box.width == width
        gets_pixels = is_whole and self.small_are_many and not program.steps and program.conversion is None
        if not is_whole and _is_small(program, box):
            self._small += 1
            self._count_small()
        if not self._wanted:
            expected = _last_files.begin()
            if not self._expected and expected > 1:
                self._expected = expected
        _last_files.parts += 1
        self._wanted += 1
        if whole_is_there or gets_pixels:  # an image's own pixels, which are decoded into its memory
            return False
        by_rows = _BY_ROWS.get(self._header.format, _JPEG_BY_ROWS)
        share = by_rows * box.bottom / height + (1 - by_rows) * box.height * box.width / (height * width)
        before, self._decoded = self._decoded, self._decoded + share
        to_come = self._expected - self._wanted
        if to_come >= 0:  # assumes parts of the average size so far
            return share + to_come * self._decoded / self._wanted > 1
        return before > 0 and self._decoded > 1


def _is_small(program: Program, box: Box) -> bool:
    """True if Pillow makes a program's result from an image with pixels in less time than a call of ours takes."""
    result = program.result
    if box.height * box.width + result.height * result.width <= _SMALL_PIXELS:
        return True
    return program.conversion is None and all(isinstance(step, (HFlip, VFlip, Transpose)) for step in program.steps)
