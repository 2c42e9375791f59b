"""The record of what a target holds, beside it: a run that was ended at any moment goes on from there."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import IO, Any, NamedTuple

import filelock
import numpy as np

from fastpipe.errors import DatasetError
from fastpipe.index.table import Array
from fastpipe.packing.archives import MemberOffset
from fastpipe.packing.smaller import Changes
from fastpipe.reporting.output import format_bytes, pluralize

NAME = "fastpipe-pack.jsonl"
"""The ending of a record's name, after the target's."""

_SCHEMA = "fastpipe-pack/1"


class Row(NamedTuple):
    """A file of the source that is in the target, or a whole container of samples; a line of the record."""

    key: str  # the item's; the container's
    planned: int  # its bytes as the listing had them, which shards were planned by
    before: int = 0  # its bytes as they were read
    stamp: int = 0  # its time or version, as of `fastpipe.readers.stat_file`
    crc: int = 0  # the checksum of these bytes
    kept: str = ""  # why it is there as it was; ``""`` where it is converted
    samples: int = 0  # 1 where the item begins one, else 0; all of a container's
    part: str = ""  # the archive that it is in, relative to the target; ``""`` for a file of its own
    end: int = 0  # where the archive went on after it, and what stands beside it
    places: tuple[MemberOffset, ...] = ()  # the file in the target, then what stands beside it
    # the fields of `Changes`, where it was made smaller before; None where it wasn't
    change: Sequence[Any] | None = None
    # the fields of `Totals` of a container, which a worker of a cluster did; None of a file
    whole: Sequence[Any] | None = None
    exact: int = 0  # 1 where it is converted and its own bytes come back, or are back; else 0

    def placed_at(self, start: int) -> Row:
        """The row of a piece that its archive has at `start`."""
        places = tuple(place._replace(start=start + place.start) for place in self.places)
        return self._replace(places=places, end=start + self.end)


class PartState(NamedTuple):
    """An archive of the target, as far as the record has it."""

    planned: int = 0  # bytes of the source's files in it, as planned
    samples: int = 0  # how many samples
    end: int = 0  # where it goes on

    def with_row(self, row: Row) -> PartState:
        """The archive with a file more."""
        return PartState(self.planned + row.planned, self.samples + row.samples, row.end)


@dataclass
class Totals:
    """The sums of rows."""

    files: int = 0  # how many
    kept: Counter[str] = field(default_factory=Counter)  # how many stayed as they were, by reason
    # before and after: bytes in the source and in the target, without what stands beside the files
    before: int = 0
    after: int = 0
    changes: Changes = field(default_factory=Changes)  # of the images that were made smaller before
    exact: int = 0  # how many files are converted whose own bytes come back, or are back

    def add(self, row: Row) -> None:
        """Counts a file, or those of a container; folders don't count."""
        if row.whole is not None:
            files, kept, before, after, changes, *others = row.whole
            exact = others[0] if others else 0
        elif row.places[0].name.endswith("/"):
            return
        else:
            files, kept, before, after = 1, {row.kept: 1} if row.kept else {}, row.before, row.places[0].size
            changes, exact = row.change or (), row.exact
        self.files += files
        self.kept.update(kept)
        self.before += before
        self.after += after
        self.changes += Changes(*changes)
        self.exact += exact

    @property
    def fields(self) -> tuple[Any, ...]:
        """The same as JSON has it."""
        return self.files, dict(self.kept), self.before, self.after, astuple(self.changes), self.exact


@contextlib.contextmanager
def open_record(
    file: str, about: Mapping[str, object], target: str, in_the_way: Callable[[], str] = str
) -> Iterator[Record]:
    """The record of a target, which one process at a time has; a run that fails before it did anything leaves none.

    Args:
        file: its path.
        about: what the target is made from, and how: where it is there, it must be the same.
        target: for messages.
        in_the_way: gives something that is in the target, or ``""``.

    Raises:
        DatasetError: it is of another source or other options, or another process has it.
    """
    lock = filelock.FileLock(f"{file}.lock", timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise DatasetError(f"another process is writing to {target}.") from None
    record: Record | None = None
    try:
        with open(file, "a+b", buffering=0) as stream:
            record = Record(file, stream, {"schema": _SCHEMA, **about}, target)
            yield record
    except BaseException:
        unused = record.is_empty() if record is not None else not _has_line(file)
        if unused and not in_the_way():
            os.unlink(file)
        raise
    finally:
        with contextlib.suppress(OSError):
            os.unlink(f"{file}.lock")
        lock.release()


def _has_line(file: str) -> bool:
    """Whether a file has a whole line: a record that a full disk didn't let begin has none."""
    with open(file, "rb") as lines:
        return lines.readline().endswith(b"\n")


class Record:
    """The rows of a target, open for more: see `open_record`.

    Attributes:
        totals: of all rows.
        parts: the state of each archive.
        whole: the containers that are recorded as a whole, by key: their bytes and stamp.
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
                if row is None:  # the last line of a run that was killed
                    break
                end += len(line)
                self._count(row)
                digests += _digest(row.key)
                known.append((row.before, row.stamp, row.crc))
        stream.truncate(end)
        if not end:
            self._write([json.dumps(about, sort_keys=True)])
        found: Array = np.frombuffer(digests, "S16")
        order = np.argsort(found, kind="stable")
        self._digests = found[order]
        self._known: Array = np.array(known, np.int64).reshape(-1, 3)[order]

    @property
    def is_new(self) -> bool:
        """Whether no earlier run has recorded anything."""
        return not len(self._digests)

    def is_empty(self) -> bool:
        """Whether nothing is recorded, by an earlier run or this one."""
        with open(self.file, "rb") as lines:
            lines.readline()
            return not lines.readline()

    def known(self, key: str) -> tuple[int, int, int] | None:
        """The bytes, the stamp and the checksum of a file that an earlier run recorded; None if there is none."""
        digest = _digest(key)
        at = self._digests.searchsorted(digest)
        if at == len(self._digests) or self._digests[at] != digest.rstrip(b"\0"):  # as numpy gives bytes
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
        """Adds rows, on disk with the next `commit`."""
        for row in rows:
            self._count(row)
            self._pending.append(row)

    def commit(self, sync: Callable[[], None]) -> None:
        """Writes what was added, once `sync` has what it tells of on disk."""
        if self._pending:
            sync()
            self._write([json.dumps(row, separators=(",", ":")) for row in self._pending])
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
    """Raises DatasetError where a record's first line isn't what it would be now."""
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
    """One of the values of `Plan.about`, as it goes on after "was begun"."""
    if name == "shards":
        size, samples = value or (None, None)
        parts = [] if size is None else [format_bytes(size)]
        parts += [] if samples is None else [pluralize(samples, "sample")]
        return f"with shards of {' or '.join(parts)}" if parts else "without shards"
    if name == "smaller":
        given = ", ".join(f"{key} {one}" for key, one in (value or {}).items() if one is not None)
        return f"with images made smaller ({given})" if value else "without making images smaller"
    if name == "original_bytes":
        return "with what gives the original files back" if value else "with the original files' bytes discarded"
    if name == "command":
        return f"by fastpipe {value}"
    if name == "labels" and not isinstance(value, str):
        names = ", ".join((value or ())[:5]) + (", …" if len(value or ()) > 5 else "")
        return "without labels" if value is None else f"with {len(value)} classes ({names})"
    if name == "labels":
        return "with labels that are names"
    if name == "columns":
        return f"with the columns {' and '.join(map(str, filter(None, value or ()))) or 'of none'}"
    return f"with the {name} {value}"


def _row(line: bytes) -> Row | None:
    """A line's row; None where it was cut off."""
    try:
        row = Row(*json.loads(line if line.endswith(b"\n") else b""))
        return row._replace(places=tuple(MemberOffset(*place) for place in row.places))
    except (ValueError, TypeError):  # half a line is no JSON, or one of too few fields
        return None


def _digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()
