"""Reads whole files from disk for the readers, and never blocks on a path that isn't a regular file."""

from __future__ import annotations

import contextlib
import errno
import os

from fastpipe.counts import pluralize
from fastpipe.paths import open_file
from fastpipe.readers.limits import SHORT_FILE, MaxPixels, longest_file, pixel_limit
from fastpipe.types import ArchiveMember, RemoteFile

_AT_ONCE = 1 << 30


def place_of(path: str | os.PathLike[str]) -> tuple[str, int, int]:
    """The file that contains a file's bytes, their offset in it, and their number; -1 for all to its end."""
    if isinstance(path, ArchiveMember):
        return path.container, path.offset, path.length
    return os.fspath(path), 0, -1


def stat_file(path: str | os.PathLike[str]) -> tuple[int, int]:
    """A file's length in bytes, and its modification time in ns; for an archive's member the archive's time.

    For a remote file the second value is its version.

    Raises:
        OSError: there is no such file.
    """
    if isinstance(path, RemoteFile):  # reads a remote file of unknown length
        return len(read_file(path, None)) if path.length < 0 else path.length, path.version
    file, _, length = place_of(path)
    status = os.stat(file)
    return status.st_size if length < 0 else length, status.st_mtime_ns


def read_file(path: str | os.PathLike[str], max_pixels: MaxPixels = "auto") -> bytes:
    """Reads all bytes of a regular file, a `fastpipe.types.ArchiveMember` or a `fastpipe.types.RemoteFile`.

    Args:
        path: the file.
        max_pixels: the most pixels of an image. A file that is longer than any such image (16 bytes for each of twice
            as many pixels) isn't read: a sparse file of a terabyte takes no room on a disk, but all memory.

    Raises:
        OSError: as for `open_file`; or the file is too long, or reading fails.
    """
    if isinstance(path, ArchiveMember):
        return _read_member(path, 0 if path.length <= SHORT_FILE else longest_file(pixel_limit(max_pixels)))
    descriptor, length = open_file(path)
    try:
        if length > SHORT_FILE:
            limit = pixel_limit(max_pixels)
            if limit is not None and length > longest_file(limit):
                reason = f"{length} bytes are more than an image of {2 * limit} pixels has; see max_pixels"
                raise OSError(errno.EFBIG, reason, os.fspath(path))
        data = os.read(descriptor, min(length + 1, _AT_ONCE))
        if len(data) == length:
            return data
        # The file's length has changed, or it is read in parts.
        parts = [data]
        while data:
            data = os.read(descriptor, min(max(length, 1 << 16), _AT_ONCE))
            parts.append(data)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def read_copy(path: str, copy: str | bytes | None, max_pixels: MaxPixels = "auto") -> bytes:
    """A file's bytes: the given ones, or read from a copy, or, if the copy is gone, from the file; see `read_file`.

    Args:
        path: the file.
        copy: the file's bytes, or the path of a copy; None for neither.
        max_pixels: see `read_file`.
    """
    if isinstance(copy, bytes):
        return copy
    if copy is not None and copy is not path:
        with contextlib.suppress(OSError):
            return read_file(copy, max_pixels)
    return read_file(path, max_pixels)


def read_start(path: str | os.PathLike[str], length: int) -> bytes:
    """Reads up to `length` of a file's first bytes; raises as `read_file`."""
    if isinstance(path, RemoteFile):
        return path.source.read(path.key, path.offset, min(length, path.length) if path.length >= 0 else length)
    if isinstance(path, ArchiveMember):
        return _read_member(ArchiveMember(path, path.container, path.offset, min(length, path.length)), 0)
    descriptor, _ = open_file(path)
    try:
        return os.read(descriptor, length)
    finally:
        os.close(descriptor)


def _read_member(member: ArchiveMember, longest: int) -> bytes:
    if 0 < longest < member.length:
        raise OSError(errno.EFBIG, f"its {member.length} bytes are more than an image has; see max_pixels", str(member))
    if isinstance(member, RemoteFile):
        return member.source.read_file(member)
    try:
        descriptor, _ = open_file(member.container)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(member)) from error
    try:
        os.lseek(descriptor, member.offset, os.SEEK_SET)
        data = more = os.read(descriptor, min(member.length, _AT_ONCE))
        while more and len(data) < member.length:
            more = os.read(descriptor, min(member.length - len(data), _AT_ONCE))
            data += more
    finally:
        os.close(descriptor)
    if len(data) < member.length:
        missing = member.length - len(data)
        reason = f"its container ends {pluralize(missing, 'byte')} too early: cut off, or rewritten since it was listed"
        raise OSError(errno.EIO, reason, str(member))
    return data
