"""Remote packed images of which only the head, the needed rows and the metadata are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from fastpipe.core.packed import LONGEST_HEAD, PACKED_EXTENSION, is_packed, rows_of, segments_of
from fastpipe.errors import StoreError
from fastpipe.readers._files import read_file
from fastpipe.sources import fetch_files
from fastpipe.types import Box, RemoteFile


class PartialFile:
    """A remote packed image whose beginning has been read.

    The parts that have been read are at their offsets in memory of the file's length. All other bytes are zero, and the
    core never reads them: it decodes only the rows of a box, each of which has a checksum, and checks the head against
    the metadata. Threads may share the object.

    Args:
        file: the file's name and source.
        start: the first bytes, with the whole head.
    """

    def __init__(self, file: RemoteFile, start: bytes) -> None:
        self.file = file
        self._start = start
        self._memory = np.zeros(file.length, np.uint8)  # untouched pages take no memory
        self._memory[: len(start)] = np.frombuffer(start, np.uint8)
        self._there: tuple[tuple[int, int], ...] = ((0, len(start)),)

    @property
    def place(self) -> tuple[int, int]:
        """Address and length of the memory, which this object owns."""
        return self._memory.ctypes.data, len(self._memory)

    def missing(self, box: Box) -> list[RemoteFile]:
        """The parts of the file that a box needs and that haven't been read: its rows, and the metadata."""
        (begin, end), (next_begin, next_end) = rows_of(self._start, box), segments_of(self._start)
        ranges = [(begin, next_end)] if end == next_begin else [(begin, end), (next_begin, next_end)]
        return [part for begin, end in ranges if (part := self._missing_part(begin, end)) is not None]

    def _missing_part(self, begin: int, end: int) -> RemoteFile | None:
        end = min(end, self.file.length)  # the head may claim more, and other data may follow in the container
        begin = min(max(begin, len(self._start)), end)
        if begin == end or any(one <= begin and end <= other for one, other in self._there):
            return None
        return self.file.part(begin, end - begin)

    def add(self, part: RemoteFile, data: bytes) -> None:
        """Adds a part from `missing`, with the bytes that were read."""
        begin = part.offset - self.file.offset
        self._memory[begin : begin + len(data)] = np.frombuffer(data, np.uint8)
        self._there += ((begin, begin + len(data)),)

    def whole(self) -> bytes:
        """Reads the whole file anew.

        Raises:
            OSError: the file can't be read.
        """
        return read_file(self.file, None)


def fetch_images(
    files: Sequence[str | bytes],
) -> tuple[Sequence[str | bytes], dict[int, Exception], dict[int, PartialFile]]:
    """Fetches files concurrently, as `fastpipe.sources.fetch_files` does; only the beginning of large packed images.

    Returns:
        The results of `fetch_files`; and the packed images of which only the beginning was read, by position.
    """
    large = {
        position: file for position, file in enumerate(files) if isinstance(file, RemoteFile) and _is_by_ranges(file)
    }
    if not large:
        return *fetch_files(files), {}
    asked = list(files)
    for position, file in large.items():
        asked[position] = file.part(0, LONGEST_HEAD)
    local, errors = fetch_files(asked)
    contents, left, partial = list(local), dict(errors), {}
    whole = []
    for position, file in large.items():
        start = contents[position]
        if position not in errors and isinstance(start, bytes) and is_packed(start):
            try:
                partial[position] = PartialFile(file, start)
            except (MemoryError, ValueError) as error:  # the length is too large for memory
                left[position] = error
        elif isinstance(errors.get(position), (StoreError, type(None))):  # not packed, or no ranges there
            whole.append(position)
    again, errors_again = fetch_files([files[position] for position in whole])
    for number, position in enumerate(whole):
        left.pop(position, None)
        contents[position] = again[number]
        if number in errors_again:
            left[position] = errors_again[number]
    return contents, left, partial


def fetch_rows(wanted: Iterable[tuple[PartialFile, Box]]) -> None:
    """Fetches the parts that boxes of partial files need, concurrently; parts that can't be read stay missing."""
    missing = [(file, part) for file, box in wanted for part in file.missing(box)]
    got, errors = fetch_files([part for _, part in missing])
    for number, (file, part) in enumerate(missing):
        data = got[number]
        if number not in errors and isinstance(data, bytes) and len(data) == part.length:
            file.add(part, data)


def _is_by_ranges(file: RemoteFile) -> bool:
    least = getattr(file.source, "ranges_from", None)
    return least is not None and file.length > max(least, LONGEST_HEAD) and file.lower().endswith(PACKED_EXTENSION)
