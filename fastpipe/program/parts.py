"""The parts of a file that are wanted, one after the other: each is decoded by itself, or all come from one decode."""

from __future__ import annotations

import threading

from fastpipe import core
from fastpipe.core.packed import PACKED_FORMAT
from fastpipe.program.core_job import Encoded, fill_from_file
from fastpipe.program.program import Program
from fastpipe.types import Box, Header

_BY_ROWS = {"PNG": 0.9, PACKED_FORMAT: 0.0}
"""Share of a decode's time that goes by the rows down to the last one that is needed, by format."""

_JPEG_BY_ROWS = 0.5  # measured on photos of 500×375: the last 8×8 pixels take half of the time that all take

_FILES = 4


class _LastFiles(threading.local):
    """How many parts of a thread's last files were wanted.

    A script does the same to each of its files: to two views of one, to ten crops of one. Where files are worked on in
    turns, the numbers are wrong, and decodes take longer than they need.
    """

    def __init__(self) -> None:
        self.parts = 0
        self._before = (0,) * _FILES

    def begin(self) -> int:
        """Begins a file; returns `least` of those before it."""
        least = self.least()
        self._before = (*self._before[1:], self.parts)
        self.parts = 0
        return least

    def least(self) -> int:
        """The parts that each of the last files had at least, if no more of the last one are wanted."""
        return min(*self._before[1:], self.parts)


_last_files = _LastFiles()


class Parts:
    """The parts of a file that are wanted.

    Threads may share it: what they note here changes where pixels come from, and not what they are.

    Args:
        header: of the file.
    """

    __slots__ = ("_decoded", "_expected", "_header", "_wanted")

    def __init__(self, header: Header) -> None:
        self._header = header
        self._decoded, self._wanted, self._expected = 0.0, 0, 0

    def expect(self, parts: int) -> None:
        """Tells how many parts will be wanted."""
        self._decoded, self._wanted, self._expected = 0.0, 0, parts

    def fill(self, job: core.Job, program: Program, encoded: Encoded) -> bool:
        """Fills all of a job but its sink, and counts its part as `add` does; False if it isn't the only part wanted.

        Args:
            job: any, which is filled anew.
            program: that starts from the file, and that the core takes as a whole.
            encoded: the file.
        """
        if self._wanted or self._expected > 1 or _last_files.least() > 1:  # as far as is known
            return False
        self.add(program.box)
        fill_from_file(job, program, encoded)
        return True

    def add(self, box: Box, *, whole_is_there: bool = False) -> bool:
        """Counts a part that is wanted; True if decoding the whole image is less work than it and the parts to come.

        Where nobody has said how many come, it takes the last files' word. Where these had one part: whether all until
        now would have taken longer than the whole image.

        Args:
            box: in the file's own coordinates.
            whole_is_there: the whole image has been decoded: no decode is wanted.
        """
        if not self._wanted:
            expected = _last_files.begin()
            if not self._expected and expected > 1:
                self._expected = expected
        _last_files.parts += 1
        self._wanted += 1
        if whole_is_there:
            return False
        height, width = self._header.size
        by_rows = _BY_ROWS.get(self._header.format, _JPEG_BY_ROWS)
        share = by_rows * box.bottom / height + (1 - by_rows) * box.height * box.width / (height * width)
        before, self._decoded = self._decoded, self._decoded + share
        to_come = self._expected - self._wanted
        if to_come >= 0:  # as large, on average, as those until now
            return share + to_come * self._decoded / self._wanted > 1
        return before > 0 and self._decoded > 1
