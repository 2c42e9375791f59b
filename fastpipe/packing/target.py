"""The target of a run: a folder, an archive, or numbered shards; and the writing of its archives and files."""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from fastpipe.arguments import check_path
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
"""The ending of the name of a file that isn't complete."""


@dataclass(frozen=True)
class Target:
    """A place to write to."""

    path: str  # absolute
    kind: Literal["folder", "archive", "shards"]
    folder: str  # the folder itself, or the folder that holds the archive or the shards
    # start, digits, first, end: the parts of shards' names: the text before the number, its number of digits, the first
    # number, and the text after it
    start: str = ""
    digits: int = 0
    first: int = 0
    end: str = ""

    @classmethod
    def of(cls, given: str | os.PathLike[str]) -> Target:
        """Parses the path or pattern of a target.

        Raises:
            DatasetError: no target can be written under that name.
        """
        check_path("target", given, "a folder, a .zip, a .tar or a pattern of shards", error=DatasetError)
        name = local_path(given)
        if not name:
            raise DatasetError("target='': give a folder, a .zip, a .tar or a pattern of shards.")
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
        """The path of the target's record."""
        between = "." if self.kind == "archive" else ""
        return os.path.join(self.folder, self.start + between + NAME)

    def shard(self, number: int) -> str:
        """The name of a shard by its number."""
        return f"{self.start}{number:0{self.digits}}{self.end}"

    def has(self, name: str) -> bool:
        """True if a file of that name in `folder` belongs to the target."""
        if self.kind == "shards":
            pattern = rf"{re.escape(self.start)}\d{{{self.digits},}}{re.escape(self.end)}"
            return re.fullmatch(pattern, name) is not None
        return self.kind == "folder" or name == self.start

    @contextlib.contextmanager
    def made_folder(self) -> Iterator[None]:
        """Makes the target's folder; if the block raises, removes the folders that it made and that are still empty."""
        above, new_folders = self.folder, []
        while not os.path.lexists(above):
            new_folders.append(above)
            above = os.path.dirname(above)
        os.makedirs(self.folder, exist_ok=True)
        try:
            yield
        except BaseException:  # also Ctrl-C: the folders that were made here are taken away if they are empty
            with contextlib.suppress(OSError):  # it isn't empty
                for folder in new_folders:
                    os.rmdir(folder)
            raise

    def in_the_way(self) -> str:
        """The path of an existing file of the target, besides the record; ``""`` if there is none."""
        if not os.path.isdir(self.folder):
            return self.folder if os.path.lexists(self.folder) else ""
        record = os.path.basename(self.record)
        there = sorted({*os.listdir(self.folder)} - {record, f"{record}.lock"})
        names = (name for name in there if self.has(name.removesuffix(PART)))
        return next((os.path.join(self.folder, name) for name in names), "")


class OpenPart:
    """An archive that is being written, under another name until it is complete.

    Args:
        path: its final path.
        end: the offset at which to continue an archive that was begun.
        places: the members before that offset.
        beside: the ending added to its name until it is complete.

    Raises:
        DatasetError: the begun archive is gone, or shorter than `end`.
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
                raise DatasetError(f"{path} is gone, but its record is still there: delete the record to start again.")
            rename(path, self._part)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._stream = open(self._part, "r+b" if end else "w+b", buffering=0)  # noqa: SIM115
        length = self._stream.seek(0, os.SEEK_END)
        if length < end:
            self._stream.close()
            raise DatasetError(
                f"{self._part} has {length:,} bytes where {end:,} were written: delete it and the record to start over."
            )
        self._stream.truncate(end)

    def append(self, rows: Iterable[Row], data: bytes) -> list[Row]:
        """Appends a piece, reads it back and compares; returns its rows with offsets in the archive.

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
        """Waits until the written bytes are on disk."""
        os.fsync(self._stream.fileno())

    def finish(self) -> None:
        """Completes the archive, and renames it to its final path."""
        self._put(self._archive.end(self._directory, self._count, self.end))
        self.sync()
        self.close()
        rename(self._part, self.path)

    def close(self) -> None:
        """Closes the file without completing the archive."""
        self._stream.close()

    def abandon(self) -> None:
        """Closes and removes the file."""
        self.close()
        with contextlib.suppress(OSError):
            os.unlink(self._part)


def path_in(folder: str, name: str) -> str:
    """The path of a file of the target, given by its name with ``/`` between the parts."""
    return os.path.join(folder, *name.split("/"))


def write_checked(path: str, data: bytes, beside: str = PART, modified_ns: int | None = None) -> None:
    """Writes a file under another name, reads it back and compares; then renames it, and sets its time if given.

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
        # Slices of bytes, as a memoryview is compared byte by byte, ten times as slowly.
        if not some or some != data[at : at + len(some)]:
            raise OSError(errno.EIO, "the bytes read back aren't those written: the disk or memory is damaged", path)
        at += len(some)


def container_name(name: str) -> str:
    """The archive for a container's samples: the same name, but ``.tar`` in place of a Parquet file's ending."""
    return name if name.lower().endswith(ENDINGS) else posixpath.splitext(name)[0] + ".tar"
