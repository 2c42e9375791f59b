"""Makes zip and tar archives member by member; the same files give the same bytes on any machine at any time.

A member's bytes don't depend on its offset in the archive, so members can be made anywhere and concatenated in order.
The bytes after the last member can be cut off and written again.
"""

from __future__ import annotations

import datetime
import struct
import tarfile
from typing import NamedTuple

from fastpipe.errors import DatasetError
from fastpipe.index.archives import UNIX_TIME

_FIRST_YEAR, _LAST_YEAR = 1980, 2107  # the years that a zip's dates can have
_LAST_TAR_SECOND = 8**11 - 1
_MODE = 0o644
_FOLDER_MODE = 0o755
_VERSION, _VERSION_64 = 20, 45
_UNIX = 3 << 8
_UTF8 = 1 << 11
_MOST_16, _MOST_32 = (1 << 16) - 1, (1 << 32) - 1


class MemberOffset(NamedTuple):
    """Place, size and checksum of an archive's member, or of a file."""

    name: str  # with ``/`` between the parts; a folder's ends in one
    crc: int  # zlib's CRC-32 of its bytes
    size: int  # the number of its bytes
    start: int = 0  # the offset of its header in the archive
    modified_ns: int | None = None  # time of the last modification, in ns since 1970; None for no time


class Tar:
    """A POSIX tar, with long or non-ASCII names in pax headers."""

    def member(self, name: str, data: bytes, crc: int, modified_ns: int | None = None) -> bytes:
        """All bytes of a member: header, content and padding; its time is in whole seconds."""
        about = tarfile.TarInfo(name.rstrip("/"))
        about.size = len(data)
        about.mtime = min(max((modified_ns or 0) // 10**9, 0), _LAST_TAR_SECOND)
        about.mode = _FOLDER_MODE if name.endswith("/") else _MODE
        about.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
        head = about.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
        return b"".join((head, data, bytes(-len(data) % tarfile.BLOCKSIZE)))

    def directory(self, place: MemberOffset) -> bytes:
        """The member's entry in the directory after the last member; empty for a tar, which has no directory."""
        return b""

    def end(self, directory: bytes | bytearray, count: int, start: int) -> bytes:
        """All bytes after the last member, which ends at `start`; for a zip, the `directory` of `count` members too."""
        closed = start + 2 * tarfile.BLOCKSIZE
        return bytes(2 * tarfile.BLOCKSIZE + -closed % tarfile.RECORDSIZE)


class Zip:
    """An uncompressed zip, with the methods of `Tar`; uses zip64 beyond 4 GB or 65,535 members."""

    def member(self, name: str, data: bytes, crc: int, modified_ns: int | None = None) -> bytes:
        coded, flags = _coded(name)
        size = len(data)
        if size >= _MOST_32:
            raise DatasetError(f"{name} has {size:,} bytes, more than a member of a zip: choose a folder or a tar.")
        clock, day, extra = _times(modified_ns)
        head = struct.pack(
            "<4s5H3L2H", b"PK\3\4", _VERSION, flags, 0, clock, day, crc, size, size, len(coded), len(extra)
        )
        return b"".join((head, coded, extra, data))

    def directory(self, place: MemberOffset) -> bytes:
        coded, flags = _coded(place.name)
        far = place.start >= _MOST_32
        clock, day, extra = _times(place.modified_ns)
        extra += struct.pack("<2HQ", 1, 8, place.start) if far else b""
        version = _VERSION_64 if far else _VERSION
        mode = (0o040000 | _FOLDER_MODE) << 16 | 0x10 if place.name.endswith("/") else (0o100000 | _MODE) << 16
        head = struct.pack(
            "<4s6H3L5H2L",
            *(b"PK\1\2", _UNIX | version, version, flags, 0, clock, day, place.crc, place.size, place.size),
            *(len(coded), len(extra), 0, 0, 0, mode, min(place.start, _MOST_32)),
        )
        return b"".join((head, coded, extra))

    def end(self, directory: bytes | bytearray, count: int, start: int) -> bytes:
        size, far = len(directory), b""
        if count >= _MOST_16 or start >= _MOST_32 or size >= _MOST_32:
            record = (_UNIX | _VERSION_64, _VERSION_64, 0, 0, count, count, size, start)
            far = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, *record)
            far += struct.pack("<4sLQL", b"PK\6\7", 0, start + size, 1)
        few = min(count, _MOST_16)
        last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, few, few, min(size, _MOST_32), min(start, _MOST_32), 0)
        return b"".join((directory, far, last))


def archive_of(path: str) -> Tar | Zip:
    """Returns the kind of archive for a path's ending."""
    return Zip() if path.lower().endswith(".zip") else Tar()


def _times(modified_ns: int | None) -> tuple[int, int, bytes]:
    """Converts a time to a zip member's fields: DOS time and date in UTC, and the extra field with the seconds."""
    first = 0, 1 << 5 | 1, b""  # 1980-01-01
    if modified_ns is None:
        return first
    seconds = modified_ns // 10**9
    extra = struct.pack("<2HBi", UNIX_TIME, 5, 1, seconds) if -(1 << 31) <= seconds < 1 << 31 else b""
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=min(max(seconds, 0), 1 << 32))
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        return first[0], first[1], extra
    day = (moment.year - _FIRST_YEAR) << 9 | moment.month << 5 | moment.day
    return moment.hour << 11 | moment.minute << 5 | moment.second // 2, day, extra


def _coded(name: str) -> tuple[bytes, int]:
    """Encodes a name for a zip; returns the bytes and the flag for UTF-8."""
    try:
        coded = name.encode()
    except UnicodeEncodeError:
        raise DatasetError(f"{name!r} is no valid Unicode, as names in a zip are: choose a folder or a tar.") from None
    return coded, 0 if coded.isascii() else _UTF8
