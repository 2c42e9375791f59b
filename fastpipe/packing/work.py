"""Reads, converts and verifies a task's files and makes archive members of them, in a thread or a cluster's worker."""

from __future__ import annotations

import contextlib
import os
import posixpath
import secrets
import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fastpipe import readers
from fastpipe.errors import DatasetError, FastpipeError
from fastpipe.index.shard_source import ShardSource
from fastpipe.packing.archives import MemberOffset, archive_of
from fastpipe.packing.containers import is_container, rewrite
from fastpipe.packing.conversions import Conversion, Converted
from fastpipe.packing.items import BY_CONTENT, Item, in_blocks
from fastpipe.packing.record import PartState, Row, Totals
from fastpipe.packing.samples import shard_items
from fastpipe.packing.target import PART, OpenPart, path_in, write_checked
from fastpipe.readers.header import guess_format
from fastpipe.sources.base import Fetched, fetch_files
from fastpipe.types import ArchiveMember, RemoteFile

FILES = 16
"""The default number of files in a task."""

_NO_IMAGE, _OTHERS = "it is no image", "another file's name begins with its whole name"
_ENDINGS = {"JPEG": ".jpg", "FPJ": ".fpj", None: ".bin"}


class Task(NamedTuple):
    """Files that are converted together."""

    folder: str  # the target's folder
    part: str  # the archive that the files go to, relative to the folder; ``""`` for separate files
    conversion: Conversion
    items: tuple[Item, ...]
    names_kept: bool = False  # all files keep their names, also the members of archives and Parquet files


class ArchivePiece(NamedTuple):
    """Verified files as a piece of an archive; the rows' places and ends are offsets in the piece."""

    rows: list[Row]
    data: bytes


def make(task: Task) -> ArchivePiece:
    """Converts a task's files to a piece of an archive."""
    archive = archive_of(task.part)
    rows, pieces, end = [], list[bytes](), 0
    for row, files in _converted(task):
        places = []
        for name, data, modified_ns in files:
            crc = zlib.crc32(data)
            pieces.append(archive.member(name, data, crc, modified_ns))
            places.append(MemberOffset(name, crc, len(data), end, modified_ns))
            end += len(pieces[-1])
        rows.append(row._replace(places=tuple(places), end=end))
    return ArchivePiece(rows, b"".join(pieces))


def write_files(task: Task, beside: str = PART) -> list[Row]:
    """Converts files, and writes each to a separate file."""
    rows: list[Row] = []
    if task.names_kept:
        rows, left = _rewritten(task, beside)
        task = task._replace(items=left)
    for row, files in _converted(task):
        for name, data, modified_ns in files:
            path = path_in(task.folder, name)
            if name.endswith("/"):
                os.makedirs(path, exist_ok=True)
            else:
                write_checked(path, data, beside, modified_ns)
        rows.append(
            row._replace(places=tuple(MemberOffset(name, zlib.crc32(data), len(data)) for name, data, _ in files))
        )
    return rows


def _rewritten(task: Task, beside: str) -> tuple[list[Row], tuple[Item, ...]]:
    """Writes a task's archives and Parquet files with converted images; returns their rows, and the other files."""
    rows: list[Row] = []
    left: list[Item] = []
    for item in task.items:
        path = path_in(task.folder, item.kept)
        totals = None
        if item.path and is_container(item.path):
            with reading(item.path):
                size, stamp = state_of(item.path)
            totals = rewrite(item.path, path, task.conversion.convert, beside)
        if totals is None:
            left.append(item)
            continue
        with contextlib.suppress(OSError, OverflowError):
            os.utime(path, ns=(stamp, stamp))
        place = MemberOffset(item.kept, 0, os.path.getsize(path))
        rows.append(Row(item.key, item.planned, size, stamp, samples=1, places=(place,), whole=totals))
    return rows, tuple(left)


def write_part(task: Task) -> list[Row]:
    """Writes a whole archive in a cluster's worker; another worker may write the same bytes at the same time."""
    return [row for rows in _written(task, task.items) for row in rows]


def write_shard(asked: tuple[Task, ShardSource]) -> list[Row]:
    """Lists one shard and writes all its members, as `write_part`; returns one row for the whole shard."""
    task, source = asked
    (path,) = source.paths
    size, stamp = state_of(path)
    totals, state = Totals(), PartState()
    for rows in _written(task, shard_items(source, task.conversion.ending, True)):
        for row in rows:
            totals.add(row)
            state = state.with_row(row)
    row = Row(source.name_of(path), state.planned, size, stamp, part=task.part, whole=totals)
    return [row._replace(samples=state.samples, end=state.end)]


def _written(task: Task, items: Iterable[Item]) -> Iterator[list[Row]]:
    """Writes files to a new archive, a few at a time, and yields their rows."""
    part = OpenPart(path_in(task.folder, task.part), beside=f".{secrets.token_hex(4)}{PART}")
    try:
        for few in in_blocks(items, FILES):
            yield part.append(*make(task._replace(items=few)))
        part.finish()
    except BaseException:  # also Ctrl-C, and a generator's end: the part isn't left behind
        part.abandon()
        raise


def write_files_on_cluster(task: Task) -> list[Row]:
    """Writes files as `write_files` does, in a cluster's worker; another worker may write the same at the same time."""
    return write_files(task, f".{secrets.token_hex(4)}{PART}")


def write_piece(task: Task) -> tuple[list[Row], str]:
    """Writes a piece of an archive to a separate file, in a cluster's worker; returns its rows, and the file's name."""
    piece = make(task)
    name = f"{task.part}.{secrets.token_hex(8)}.piece{PART}"
    write_checked(os.path.join(task.folder, name), piece.data)
    return piece.rows, name


def _converted(task: Task) -> Iterator[tuple[Row, list[tuple[str, bytes, int | None]]]]:
    """Yields for each file its row, without places, and the names, bytes and times of the files to write."""
    local, errors = fetch_files([item.path for item in task.items])
    for number, item in enumerate(task.items):
        row = Row(item.key, item.planned, samples=int(item.begins), part=task.part)
        if not item.path:
            yield row._replace(planned=0, kept="a folder"), [(item.kept, b"", None)]
            continue
        data, stamp = _read(item.path, errors.get(number, local[number]))
        modified_ns = item.modified_ns if isinstance(item.path, ArchiveMember) else stamp
        if item.converted:
            ending = "" if item.kept.endswith(BY_CONTENT) else posixpath.splitext(item.kept)[1]
            converted = task.conversion.convert(data, ending, modified_ns)
        else:
            converted = Converted(data, _OTHERS if task.conversion.takes(item.kept) else _NO_IMAGE)
        name = (
            _by_content(item.kept, converted.data) if converted.kept else _of_original(item.converted, converted.ending)
        )
        if converted.modified_ns is not None:
            modified_ns = converted.modified_ns
        row = row._replace(before=len(data), stamp=stamp, crc=zlib.crc32(data), kept=converted.kept)
        row = row._replace(change=converted.change, exact=int(converted.exact), smaller=int(converted.smaller))
        yield row, [(name, converted.data, modified_ns), *((*beside, None) for beside in item.beside)]


def _read(path: str, fetched: Fetched) -> tuple[bytes, int]:
    """Reads a file, if it wasn't fetched from a store; returns its bytes, and its time or version."""
    with reading(path):
        if isinstance(fetched, Exception):
            raise fetched
        _, stamp = state_of(path)
        return fetched if isinstance(fetched, bytes) else readers.read_file(fetched, None), stamp


@contextlib.contextmanager
def reading(name: str) -> Iterator[None]:
    """Raises a DatasetError that names a file of the source, or the source, if the block can't read it."""
    try:
        yield
    except FastpipeError:  # such as a store's, which says what is wrong
        raise
    except OSError as error:
        raise DatasetError(
            f"{name} can't be read: {error}. What was done is kept: when this is fixed, or the file is left out of the "
            "source, the same command continues from there."
        ) from error


def state_of(path: str) -> tuple[int, int]:
    """Size and time of a file, or of its container; for a file in a store, its size (or -1) and version."""
    return (path.length, path.version) if isinstance(path, RemoteFile) else readers.stat_file(path)


def _of_original(name: str, ending: str) -> str:
    return name.removesuffix(BY_CONTENT) + ending if name.endswith(BY_CONTENT) else name


def _by_content(name: str, data: bytes) -> str:
    if not name.endswith(BY_CONTENT):
        return name
    format = guess_format(data)
    return name.removesuffix(BY_CONTENT) + _ENDINGS.get(format, f".{(format or '').lower()}")
