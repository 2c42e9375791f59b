"""Zip and tar archives: where each member's bytes are, and the class folders in them.

A member's bytes are read at their offset in the archive, so they must not be compressed: a compressed archive raises an
error that says how to make an uncompressed one.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import os
import posixpath
import re
import stat
import struct
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, NamedTuple

from fastpipe.counts import pluralize
from fastpipe.errors import DatasetError
from fastpipe.index import bad_rows
from fastpipe.index.containers import ContainerListing, ContainerSource
from fastpipe.index.folder_source import walk_order, without_classes
from fastpipe.sources import ByteSource, CachedSource, RemoteSource
from fastpipe.sources.cache import without_cache
from fastpipe.sources.ranged import open_seekable
from fastpipe.types import RemoteFile

ENDINGS = (".tar", ".zip")
_ENDING = re.compile(rf"\.(tar|zip)(?=[/{re.escape(os.sep)}]|$)", re.IGNORECASE)
_COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tbz", ".tbz2", ".tar.xz", ".txz", ".tar.zst", ".7z", ".rar")
_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "Zstandard"}
_LOCAL_HEADER = 30
_BLOCK = 512
_PARTS = 256
UNIX_TIME = 0x5455
"""The id of Info-ZIP's extra field for a member's time, in seconds since 1970."""


class Member(NamedTuple):
    """A member of an archive."""

    name: str  # with ``/`` between the parts, without ``./`` before it
    # start and size: the offset of its bytes in the archive, and their number; a folder's start is -1
    start: int
    size: int
    problem: str = ""  # why the bytes can't be read at their offset; ``""`` if they can
    modified_ns: int | None = None  # time of the last modification, in ns since 1970; None if the archive has none


def archive_in(path: str) -> str | None:
    """The archive that a path names, or leads into (``photos.zip/train``); None if it does neither.

    Raises:
        DatasetError: the archive is compressed as a whole.
    """
    if path.lower().endswith(_COMPRESSED) and os.path.isfile(path):
        raise DatasetError(f"{path} is compressed as a whole, so that no image in it can be read alone. {_HOW}")
    return next(filter(os.path.isfile, _named_like_archives(path)), None)


def archive_named_by(source: ByteSource) -> RemoteFile | None:
    """The archive that a source's URL names, or leads into (``s3://bucket/photos.zip/train``); None if it does neither.

    The result's source is that of the folder that holds the archive.
    """
    remote = without_cache(source)
    if not isinstance(remote, RemoteSource):
        return None
    for url in _named_like_archives(remote.name):
        folder, _, name = url.rpartition("/")
        if folder.count("/") > 1:  # a bucket is no archive
            above = remote.above(remote.name[len(folder) :].count("/"))
            holder = source.cache.over(above) if isinstance(source, CachedSource) else above
            with contextlib.suppress(FileNotFoundError):  # a folder of that name
                return holder.file(above.entry(name))
    return None


def _named_like_archives(path: str) -> Iterator[str]:
    """Yields the beginnings of a path or URL, up to a ``/``, that end as an archive does, the shortest first."""
    return (path[: ending.end()] for ending in _ENDING.finditer(path))


_HOW = "Unpack it, and pack the files without compression: tar -cf, or zip -0 -r"


def list_members(path: str) -> Iterator[Member]:
    """Yields the members of a zip or tar, in its order. A name that is packed twice comes twice; the last one counts.

    Raises:
        DatasetError: the archive is damaged, or compressed as a whole; the message names the member, if known.
        OSError: it can't be opened.
    """
    with open_seekable(path) as file:
        length = file.seek(0, os.SEEK_END)
        file.seek(0)
        start = file.read(6)
        for magic, name in _MAGIC.items():
            if start.startswith(magic):
                raise DatasetError(f"{path} is compressed ({name}), so that no file in it can be read alone. {_HOW}.")
        file.seek(0)
        if path.lower().endswith(".zip"):
            yield from _zipped(path, file, length)
        else:
            yield from _tarred(path, file, length)


def check_member(path: str, member: Member) -> None:
    """Raises DatasetError if an archive's member can't be read at its offset."""
    if member.problem:
        raise DatasetError(f"{path}: {member.name} {member.problem}.")


def read_member(file: IO[bytes], path: str, member: Member) -> bytes:
    """Reads a member of an open archive; `path` is for errors.

    Raises:
        DatasetError: the member can't be read at its offset.
    """
    check_member(path, member)
    file.seek(member.start)
    data = file.read(member.size)
    if len(data) < member.size:
        raise DatasetError(
            f"{path}: {member.name} is cut off: "
            f"the archive ends {pluralize(member.size - len(data), 'byte')} before it."
        )
    return data


def _zipped(path: str, file: IO[bytes], length: int) -> Iterator[Member]:
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise DatasetError(f"{path} is no zip archive, or is damaged: {error}.") from error
    with archive:
        members = archive.infolist()
        for member, header in zip(members, _local_headers(path, file, members), strict=True):
            name = _plain(member.filename)
            if member.is_dir():
                yield Member(name, -1, 0)
                continue
            at, size = member.header_offset, member.file_size
            if stat.S_ISLNK(member.external_attr >> 16):
                problem = "is a link, which fastpipe doesn't follow in a zip"
            elif member.flag_bits & 1:
                problem = "is encrypted"
            elif member.compress_type != zipfile.ZIP_STORED:
                problem = f"is compressed (method {member.compress_type}). {_HOW}"
            else:
                at += _LOCAL_HEADER
                at += int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
                sound = member.header_offset >= 0 and header.startswith(b"PK\x03\x04")
                sound = sound and at + size <= length and member.compress_size == size
                problem = "" if sound else "is damaged: its header in the archive isn't where the list of members says"
            yield Member(name, at, size, problem, _zip_time(member))


def _local_headers(path: str, file: IO[bytes], members: list[zipfile.ZipInfo]) -> Iterator[bytes]:
    """Reads the local header of each member, which tells where its bytes begin. Offsets may be wrong if damaged."""
    if isinstance(path, RemoteFile):
        for start in range(0, len(members), _PARTS):
            places = [(max(member.header_offset, 0), _LOCAL_HEADER) for member in members[start : start + _PARTS]]
            for header in without_cache(path.source).fetch([path.part(*place) for place in places]):
                if isinstance(header, Exception):
                    raise header
                assert isinstance(header, bytes)
                yield header
        return
    for member in members:
        file.seek(max(member.header_offset, 0))
        yield file.read(_LOCAL_HEADER)


def _tarred(path: str, file: IO[bytes], length: int) -> Iterator[Member]:
    last = "its first member"
    places: dict[str, Member] = {}
    try:
        with tarfile.open(fileobj=file, mode="r:") as archive:
            while (member := archive.next()) is not None:
                vars(archive)["members"] = []  # tarfile would keep a kilobyte for each member
                name = last = _plain(member.name)
                if member.isdir():
                    yield Member(name, -1, 0)
                elif member.islnk() or member.issym():
                    yield _linked(member, name, places)
                elif member.isreg():
                    problem = "is stored as a sparse file" if member.issparse() else ""
                    if member.offset_data + member.size > length:
                        problem = "is cut off: the archive ends before it does"
                    places[name] = Member(name, member.offset_data, member.size, problem, _tar_time(member))
                    yield places[name]
            end = archive.offset
    except (tarfile.TarError, ValueError, EOFError) as error:
        raise DatasetError(f"{path} is no tar archive, or is damaged after {last}: {error}.") from error
    # tarfile ends without an error at data that isn't a member.
    file.seek(end)
    if file.read(_BLOCK).strip(b"\0"):
        raise DatasetError(f"{path} is damaged after {last}: the data at byte {end} is no member.")


def _linked(member: tarfile.TarInfo, name: str, places: dict[str, Member]) -> Member:
    target = member.linkname if member.islnk() else posixpath.join(posixpath.dirname(name), member.linkname)
    linked = places.get(_plain(posixpath.normpath(target)))
    if linked is None:
        return Member(name, 0, 0, f"is a link to {member.linkname}, which isn't in the archive before it")
    return linked._replace(name=name)


def _zip_time(member: zipfile.ZipInfo) -> int | None:
    """The time in Info-ZIP's extra field; else the DOS time, which has no time zone: this machine's is assumed."""
    extra = member.extra
    while len(extra) >= 4:
        kind, size = struct.unpack_from("<2H", extra)
        if kind == UNIX_TIME and 5 <= size <= len(extra) - 4 and extra[4] & 1:
            return int(struct.unpack_from("<i", extra, 5)[0]) * 10**9
        extra = extra[4 + size :]
    if member.date_time <= (1980, 1, 1, 0, 0, 0):
        return None
    try:
        return int(datetime.datetime(*member.date_time).timestamp()) * 10**9
    except (ValueError, OverflowError, OSError):  # such as a 13th month
        return None


def _tar_time(member: tarfile.TarInfo) -> int | None:
    """The time in ns: from a pax header, else in whole seconds; None for 0, which means no time."""
    try:
        nanoseconds = int(decimal.Decimal(member.pax_headers["mtime"]) * 10**9)
    except (KeyError, ArithmeticError, ValueError, OverflowError):
        nanoseconds = int(member.mtime) * 10**9 if abs(member.mtime) < 1 << 33 else 0
    return nanoseconds if 0 < abs(nanoseconds) < 1 << 63 else None


def _plain(name: str) -> str:
    name = posixpath.normpath(name.lstrip("/"))
    return "" if name == "." else name


@dataclass(frozen=True, kw_only=True)
class ArchiveSource(ContainerSource):
    """Class folders in a zip or tar, whose root is the archive or a folder in it."""

    integers = False

    @property
    def identity(self) -> dict[str, object]:
        return super().identity | {"kind": "archive"}

    def name_of(self, path: str) -> str:
        return ""

    def listing(self, path: str) -> ContainerListing:
        """Lists the archive as torchvision lists the folder that it is unpacked to."""
        inside = self.root[len(path) :].strip("/" + os.sep).replace(os.sep, "/")
        start = inside + "/" if inside else ""
        members: dict[str, Member] = {}
        folders: set[str] = set()
        for member in list_members(path):
            if not member.name.startswith(start) or member.name.startswith("__MACOSX/"):
                continue
            name = member.name[len(start) :]
            above = name if member.start < 0 else posixpath.dirname(name)
            while above and above not in folders:
                folders.add(above)
                above = posixpath.dirname(above)
            if member.start >= 0:
                members[name] = member
        images = [name for name in members if name.lower().endswith(self.extensions)]
        skipped = "" if inside else _only_folder(images, folders)
        depth = skipped.count("/")
        classes = sorted(
            name[len(skipped) :] for name in folders if name.startswith(skipped) and name.count("/") == depth
        )
        if not classes:
            raise without_classes(self.root)
        names = [name for name in images if name.count("/") > depth and name.startswith(skipped)]
        names.sort(key=lambda name: (walk_order(posixpath.dirname(name)[len(skipped) :]), posixpath.basename(name)))
        if names and all(members[name].problem for name in names):
            check_member(path, members[names[0]])
        return ContainerListing(
            names,
            [name[len(skipped) :].partition("/")[0] for name in names],
            [bad_rows.NO_MEMBER if members[name].problem else members[name].start for name in names],
            [-1 if members[name].problem else members[name].size for name in names],
            tuple(classes),
        )


def _only_folder(images: list[str], folders: set[str]) -> str:
    """Returns the only top folder, such as ``"train/"``, if it is the root: it holds class folders and no image."""
    tops = {name for name in folders if "/" not in name}
    if len(tops) != 1 or any(name.count("/") < 2 for name in images):
        return ""
    top = tops.pop() + "/"
    return top if any(name.startswith(top) for name in folders) else ""
