"""The place of a target: a folder, an archive, or numbered shards; and the archives that it is made of."""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from fastpipe.atomic_write import atomic_write, rename
from fastpipe.errors import DatasetError
from fastpipe.index.archives import ENDINGS
from fastpipe.packing.archives import MemberOffset, archive_of
from fastpipe.packing.record import NAME, Row
from fastpipe.paths import absolute_path, is_url, local_path

_NUMBER = re.compile(r"\{(\d+)\.\.\}|%0(\d)d")
_AT_ONCE = 1 << 20
_OTHER_ENDINGS = (".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar", ".parquet", ".txt", ".csv")

PART = ".part"
"""The ending that is added to the name of a file until it is complete."""


@dataclass(frozen=True)
class Target:
    """A place to write to."""

    path: str  # whole, as given
    kind: Literal["folder", "archive", "shards"]  # what is to be there
    folder: str  # the folder that it lies in, or the folder itself
    # start, digits, first and end: of shards' names: what stands before the number, its digits, the first number, and
    # what follows it
    start: str = ""
    digits: int = 0
    first: int = 0
    end: str = ""

    @classmethod
    def of(cls, given: str | os.PathLike[str]) -> Target:
        """The target that a path or a pattern names.

        Raises:
            DatasetError: none can be written under that name.
        """
        name = local_path(given)
        if is_url(name):
            raise DatasetError(
                f"{name}: a target is written on a disk of this machine: give a folder, a .zip, a .tar or a pattern of "
                "shards, and copy it to the store when it is complete."
            )
        if name.lower().endswith(_OTHER_ENDINGS):
            raise DatasetError(
                f"{name}: a target is a folder, a .zip, a .tar, or a pattern of shards such as train-{{000000..}}.tar."
            )
        path = absolute_path(name)
        folder, base = os.path.split(path)
        number = _NUMBER.search(base)
        if number is not None:
            if not base.lower().endswith(ENDINGS):
                raise DatasetError(f"{name}: the names of shards end in .tar or .zip.")
            digits = int(number[2]) if number[2] else len(number[1])
            start, end = base[: number.start()], base[number.end() :]
            return cls(path, "shards", folder, start, digits, int(number[1] or 0), end)
        if any(mark in base for mark in "*?{%"):
            raise DatasetError(
                f"{name}: the pattern of shards has the number that the first one gets, as train-{{000000..}}.tar."
            )
        if path.lower().endswith(ENDINGS):
            return cls(path, "archive", folder, base)
        return cls(path, "folder", path)

    @property
    def record(self) -> str:
        """The path of its record."""
        between = "." if self.kind == "archive" else ""
        return os.path.join(self.folder, self.start + between + NAME)

    def shard(self, number: int) -> str:
        """The name of a shard."""
        return f"{self.start}{number:0{self.digits}}{self.end}"

    def has(self, name: str) -> bool:
        """Whether a file of that name in its folder is one of its own."""
        if self.kind == "shards":
            pattern = rf"{re.escape(self.start)}\d{{{self.digits},}}{re.escape(self.end)}"
            return re.fullmatch(pattern, name) is not None
        return self.kind == "folder" or name == self.start

    @contextlib.contextmanager
    def made_folder(self) -> Iterator[None]:
        """Makes its folder; where the block fails and nothing is in it, neither it nor those above it stay."""
        above, made = self.folder, []
        while not os.path.lexists(above):
            made.append(above)
            above = os.path.dirname(above)
        os.makedirs(self.folder, exist_ok=True)
        try:
            yield
        except BaseException:
            with contextlib.suppress(OSError):  # there is something in it
                for folder in made:
                    os.rmdir(folder)
            raise

    def in_the_way(self) -> str:
        """The path of something that is there, besides its record; ``""`` if there is nothing."""
        if not os.path.isdir(self.folder):
            return self.folder if os.path.lexists(self.folder) else ""
        record = os.path.basename(self.record)
        there = sorted({*os.listdir(self.folder)} - {record, f"{record}.lock"})
        names = (name for name in there if self.has(name.removesuffix(PART)))
        return next((os.path.join(self.folder, name) for name in names), "")


class OpenPart:
    """An archive that is being written: under another name until it is complete.

    Args:
        path: its own name.
        end: where it goes on, if some of it is there.
        places: the members up to there.
        beside: what is added to its name until it is complete.

    Raises:
        DatasetError: what is there is shorter than it should be, or gone.
        OSError: it can't be written.
    """

    def __init__(self, path: str, end: int = 0, places: Iterable[MemberOffset] = (), beside: str = PART) -> None:
        self.path = path
        self.end = end
        self._part = path + beside
        self._archive = archive_of(path)
        self._directory = bytearray()
        self._count = 0
        self._note(places)
        if end and not os.path.exists(self._part):
            if not os.path.exists(path):
                raise DatasetError(f"{path} is gone, and its record still there: delete the record to begin anew.")
            rename(path, self._part)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._stream = open(self._part, "r+b" if end else "w+b", buffering=0)  # noqa: SIM115
        length = self._stream.seek(0, os.SEEK_END)
        if length < end:
            self._stream.close()
            raise DatasetError(
                f"{self._part} has {length:,} bytes where {end:,} were written: delete it and the record to begin anew."
            )
        self._stream.truncate(end)

    def append(self, rows: Iterable[Row], data: bytes) -> list[Row]:
        """Writes a piece after the others, reads it back and compares; returns its rows as the archive has them.

        Raises:
            OSError: it can't be written, or other bytes are read.
        """
        self._put(data)
        placed = [row.placed_at(self.end) for row in rows]
        self._note(place for row in placed for place in row.places)
        self.end += len(data)
        return placed

    def _put(self, data: bytes | bytearray) -> None:
        self._stream.seek(self.end)
        left = memoryview(data)
        while left:
            left = left[self._stream.write(left) :]
        self._stream.seek(self.end)
        _compare(self._stream.read, data, self.path)

    def _note(self, places: Iterable[MemberOffset]) -> None:
        for place in places:
            self._directory += self._archive.directory(place)
            self._count += 1

    def sync(self) -> None:
        """Waits until what was written is on disk."""
        os.fsync(self._stream.fileno())

    def finish(self) -> None:
        """Completes the archive, and gives it its name."""
        self._put(self._archive.end(self._directory, self._count, self.end))
        self.sync()
        self.close()
        rename(self._part, self.path)

    def close(self) -> None:
        """Closes the file, and leaves it as it is."""
        self._stream.close()

    def abandon(self) -> None:
        """Closes the file, and removes it."""
        self.close()
        with contextlib.suppress(OSError):
            os.unlink(self._part)


def path_in(folder: str, name: str) -> str:
    """The path of a name of the target, whose parts have ``/`` between them."""
    return os.path.join(folder, *name.split("/"))


def write_checked(path: str, data: bytes, beside: str = PART, modified_ns: int | None = None) -> None:
    """Writes a file beside, reads it back, compares, and gives it its name, and its time where it has one.

    Raises:
        OSError: it can't be written, or other bytes are read.
    """
    try:
        _write(path, data, path + beside)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _write(path, data, path + beside)
    if modified_ns is not None:
        with contextlib.suppress(OSError, OverflowError):  # not every disk keeps every time
            os.utime(path, ns=(modified_ns, modified_ns))


def _write(path: str, data: bytes, beside: str) -> None:
    with atomic_write(path, beside=beside, synced=False) as stream:
        stream.write(data)
        stream.flush()
        with open(beside, "rb", buffering=0) as again:
            _compare(again.read, data, path)


def _compare(read: Callable[[int], bytes], data: bytes | bytearray, path: str) -> None:
    at = 0
    while at < len(data):
        some = read(min(len(data) - at, _AT_ONCE))
        # Slices of bytes: a memoryview is compared byte by byte, ten times as slow.
        if not some or some != data[at : at + len(some)]:
            raise OSError(errno.EIO, "other bytes are read than were written: its disk or memory is damaged", path)
        at += len(some)


def container_name(name: str) -> str:
    """The name of the archive that a container's samples go to: its own, a Parquet file's with the ending ``.tar``."""
    return name if name.lower().endswith(ENDINGS) else posixpath.splitext(name)[0] + ".tar"
