"""The record of a target's content, kept beside it, by which a run that was interrupted can be continued."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import IO, Any, NamedTuple

import filelock
import numpy as np

from fastpipe.errors import DatasetError
from fastpipe.index.table import Array
from fastpipe.packing.archives import MemberOffset
from fastpipe.packing.smaller import Changes
from fastpipe.reporting.output import format_bytes, pluralize

NAME = "fastpipe-pack.jsonl"
"""The ending of a record's file name, after the target's name."""

_SCHEMA = "fastpipe-pack/1"


class Row(NamedTuple):
    """A line of the record: a file of the source that is in the target, or a whole container of samples."""

    key: str  # the item's or the container's key
    planned: int  # its size in bytes in the listing, by which shards were planned
    before: int = 0  # its size in bytes when it was read
    stamp: int = 0  # its time or version, as from `fastpipe.readers.stat_file`
    crc: int = 0  # the checksum of the bytes that were read
    kept: str = ""  # why it is kept unconverted; ``""`` if it is converted
    samples: int = 0  # 1 if the item begins a sample, else 0; for a container, its number of samples
    part: str = ""  # the archive that holds it, relative to the target; ``""`` for a separate file
    end: int = 0  # the offset in the archive after it and the files beside it
    places: tuple[MemberOffset, ...] = ()  # the file in the target, then the files beside it
    change: Changes | None = None  # its change if it was made smaller first
    whole: Totals | None = None  # for a container that a cluster's worker wrote, the sums over its files
    exact: int = 0  # 1 if it is converted, and the JPEG's own bytes can be (or are) restored; else 0
    smaller: int = 0  # 1 if the image was made smaller, in this run or (unpacking) before it was packed; else 0

    def placed_at(self, start: int) -> Row:
        """The row with offsets in the archive, for a piece that begins there at `start`."""
        places = tuple(place._replace(start=start + place.start) for place in self.places)
        return self._replace(places=places, end=start + self.end)


class PartState(NamedTuple):
    """The recorded state of an archive of the target."""

    planned: int = 0  # planned bytes of the source's files in it
    samples: int = 0  # number of samples
    end: int = 0  # the offset at which to continue

    def with_row(self, row: Row) -> PartState:
        """The state after one more row."""
        return PartState(self.planned + row.planned, self.samples + row.samples, row.end)


@dataclass
class Totals:
    """Sums over rows."""

    files: int = 0  # number of files
    kept: Counter[str] = field(default_factory=Counter)  # number of unconverted files, by reason
    # before and after: bytes in the source and in the target, without the files beside them (labels)
    before: int = 0
    after: int = 0
    changes: Changes = field(default_factory=Changes)  # changes of images that were made smaller first
    same_bytes: int = 0  # number of files whose own bytes are in the target, or can be (or are) restored from it
    smaller: int = 0  # number of files whose image was made smaller

    def add(self, row: Row) -> None:
        """Adds the row of a file or a container; folders don't count."""
        if row.whole is not None:
            self._add(row.whole)
        elif not row.places[0].name.endswith("/"):
            self.add_file(row, row.places[0].size)

    def add_file(self, row: Row, after: int) -> None:
        """Adds the row of a file that has `after` bytes in the target."""
        kept = Counter([row.kept] if row.kept else ())
        smaller = row.smaller or int(row.change is not None)
        same_bytes = int(not smaller and bool(row.exact or row.kept))
        self._add(Totals(1, kept, row.before, after, row.change or Changes(), same_bytes, smaller))

    def _add(self, more: Totals) -> None:
        self.files += more.files
        self.kept.update(more.kept)
        self.before += more.before
        self.after += more.after
        self.changes += more.changes
        self.same_bytes += more.same_bytes
        self.smaller += more.smaller


@contextlib.contextmanager
def open_record(file: str, about: Mapping[str, object], target: str, in_the_way: Callable[[], str]) -> Iterator[Record]:
    """Opens the record of a target, locked for this process; removes it if the run fails before it recorded anything.

    Args:
        file: the record's path.
        about: identifies the source and the options; it must equal the values in an existing record.
        target: the target's name for messages.
        in_the_way: returns the path of something else in the target, or ``""``.

    Raises:
        DatasetError: the record is of another source or other options, or another process has it locked.
        OSError: the folder can't be written.
    """
    record: Record | None = None
    with _locked(f"{file}.lock", target):
        try:
            with open(file, "a+b", buffering=0) as stream:
                record = Record(file, stream, {"schema": _SCHEMA, **about}, target)
                yield record
        except BaseException:  # also Ctrl-C: a file without a line is taken away
            unused = record.is_empty() if record is not None else not _has_line(file)
            if unused and not in_the_way():
                os.unlink(file)
            raise


@contextlib.contextmanager
def _locked(path: str, target: str) -> Iterator[None]:
    """Locks a file that is made for it and removed afterwards; raises DatasetError if another process has the lock."""
    while True:
        with open(path, "ab"):  # filelock takes a folder that can't be written for a lock that is held
            pass
        lock = filelock.FileLock(path, timeout=0)
        try:
            lock.acquire()
        except filelock.Timeout:
            raise DatasetError(f"another process is writing to {target}.") from None
        # A process that was just done may have removed the file that was opened: its lock excludes nobody.
        if _is_named(lock, path):
            break
        lock.release()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # on Windows it can't be removed while it is open, and stays
            os.unlink(path)
        lock.release()


def _is_named(lock: filelock.BaseFileLock, path: str) -> bool:
    """True if a lock's file is still the one that a path names."""
    descriptor = getattr(getattr(lock, "_context", None), "lock_file_fd", None)  # another version may not have it
    try:
        return descriptor is None or os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _has_line(file: str) -> bool:
    """True if a file has a complete first line; a record has none if the disk was full when it was begun."""
    with open(file, "rb") as lines:
        return lines.readline().endswith(b"\n")


class Record:
    """The rows of a target, to which rows can be added: see `open_record`.

    Attributes:
        totals: sums over all rows.
        parts: the state of each archive, by name.
        whole: size and stamp of each container that is recorded as a whole, by key.
    """

    def __init__(self, file: str, stream: IO[bytes], about: Mapping[str, object], target: str) -> None:
        self.file = file
        self.totals = Totals()
        self.parts: dict[str, PartState] = {}
        self.whole: dict[str, tuple[int, int]] = {}
        self._stream = stream
        self._pending: list[Row] = []
        end, digests, known = 0, bytearray(), []
        with open(file, "rb") as lines:
            head = lines.readline()
            if head.endswith(b"\n"):
                _check(head, about, file, target)
                end = len(head)
            for line in lines:
                row = _row(line)
                if row is None:  # a line that a killed run didn't complete
                    break
                end += len(line)
                self._count(row)
                digests += _digest(row.key)
                known.append((row.before, row.stamp, row.crc))
        stream.truncate(end)
        if not end:
            self._write([json.dumps(about, sort_keys=True)])
        as_array: Array = np.frombuffer(digests, "S16")
        order = np.argsort(as_array, kind="stable")
        self._digests = as_array[order]
        self._known: Array = np.array(known, np.int64).reshape(-1, 3)[order]

    @property
    def is_new(self) -> bool:
        """True if no earlier run has recorded anything."""
        return not len(self._digests)

    def is_empty(self) -> bool:
        """True if neither this run nor an earlier one has recorded anything."""
        with open(self.file, "rb") as lines:
            lines.readline()
            return not lines.readline()

    def known(self, key: str) -> tuple[int, int, int] | None:
        """Size, stamp and checksum of a file that an earlier run recorded; None if it isn't recorded."""
        digest = _digest(key)
        at = self._digests.searchsorted(digest)
        if at == len(self._digests) or self._digests[at] != digest.rstrip(b"\0"):  # numpy strips trailing zeros
            return None
        before, stamp, crc = self._known[at].tolist()
        return before, stamp, crc

    def read(self) -> Iterator[Row]:
        """Yields all rows that are on disk."""
        with open(self.file, "rb") as lines:
            lines.readline()
            for line in lines:
                row = _row(line)
                if row is not None:
                    yield row

    def add(self, rows: Iterable[Row]) -> None:
        """Adds rows, which the next `commit` writes to disk."""
        for row in rows:
            self._count(row)
            self._pending.append(row)

    def commit(self, sync: Callable[[], None]) -> None:
        """Writes the added rows, after `sync` has made sure that their files are on disk."""
        if self._pending:
            sync()
            self._write([json.dumps(row, separators=(",", ":"), default=_fields) for row in self._pending])
            self._pending.clear()

    def _count(self, row: Row) -> None:
        self.totals.add(row)
        if row.whole is not None:
            self.whole[row.key] = row.before, row.stamp
        if row.part:
            self.parts[row.part] = self.parts.get(row.part, PartState()).with_row(row)

    def _write(self, lines: list[str]) -> None:
        data = memoryview("".join(line + "\n" for line in lines).encode("ascii"))
        while data:
            data = data[self._stream.write(data) :]
        os.fsync(self._stream.fileno())


def _check(head: bytes, about: Mapping[str, object], file: str, target: str) -> None:
    """Raises DatasetError if a record's first line isn't the one that a new record would get."""
    try:
        before = json.loads(head)
    except ValueError:
        before = {}
    if before.get("schema") != _SCHEMA:
        raise DatasetError(f"{file} is no record of this version of fastpipe: choose another target.")
    for name in sorted({*before, *about}):
        if before.get(name) != about.get(name):
            raise DatasetError(
                f"{target} was begun {_in_words(name, before.get(name))}, not {_in_words(name, about.get(name))}: give "
                "the same to go on with it, or choose another target."
            )


def _in_words(name: str, value: Any) -> str:
    """Describes one of the values of `Layout.about`, to follow "was begun" in a sentence."""
    if name == "shards":
        size, samples = value or (None, None)
        parts = [] if size is None else [format_bytes(size)]
        parts += [] if samples is None else [pluralize(samples, "sample")]
        return f"with shards of {' or '.join(parts)}" if parts else "without shards"
    if name == "smaller":
        given = ", ".join(f"{key} {one}" for key, one in (value or {}).items() if one is not None)
        return f"with images made smaller ({given})" if value else "without making images smaller"
    if name == "original_bytes":
        return "with the original files' bytes kept" if value else "with the original files' bytes discarded"
    if name == "names":
        return "with all files under their own names" if value else "with names that say which files are packed"
    if name == "command":
        return f"by fastpipe {value}"
    if name == "labels" and not isinstance(value, str):
        names = ", ".join((value or ())[:5]) + (", …" if len(value or ()) > 5 else "")
        return "without labels" if value is None else f"with {pluralize(len(value), 'class')} ({names})"
    if name == "labels":
        return "with labels that are names"
    if name == "columns":
        return f"with the columns {' and '.join(map(str, filter(None, value or ()))) or 'of none'}"
    return f"with the {name} {value}" if value else f"without a {name}"


def _fields(value: Changes | Totals) -> list[object]:
    """The fields of a row's change or sums, for JSON."""
    return [getattr(value, one.name) for one in fields(value)]


def _row(line: bytes) -> Row | None:
    """Parses a line; returns None if it was cut off."""
    try:
        values = dict(zip(Row._fields, json.loads(line if line.endswith(b"\n") else b""), strict=False))
        values["places"] = tuple(MemberOffset(*place) for place in values["places"])
        if values["change"] is not None:
            values["change"] = Changes(*values["change"])
        if values["whole"] is not None:
            values["whole"] = _totals(*values["whole"])
        return Row(**values)
    except (ValueError, TypeError, KeyError):  # a cut line is no valid JSON, or has too few fields
        return None


def _totals(files: int, kept: Mapping[str, int], before: int, after: int, changes: list[float], *counts: int) -> Totals:
    """The sums of a whole container; its counts of bytes and smaller images are 0 if it was recorded without both."""
    changed = Changes(*changes)  # type: ignore[arg-type]  # integers and floats, as they were written
    same_bytes, smaller = counts if len(counts) == 2 else (0, changed.images)
    return Totals(files, Counter(kept), before, after, changed, same_bytes, smaller)


def _digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()
