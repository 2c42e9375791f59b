"""Packed images as Pillow's openers get them: recognised by their first bytes, whatever the file is called.

For Pillow a packed image is the JPEG that was packed. fastpipe's own openers decode it by the core
(`fastpipe.pillow.unread`); where Pillow itself has to read the file, the JPEG is restored first.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, TypeAlias, cast

from fastpipe.errors import DecodeError
from fastpipe.types import PACKED_SIGNATURE, is_packed

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile
    from typing_extensions import Buffer

Opener: TypeAlias = "Callable[[IO[bytes], str | bytes], ImageFile]"
"""One of Pillow's openers; ``Image.open`` calls it with a file and its name, which is empty if the caller opened it."""
Accept: TypeAlias = "Callable[[bytes], bool | str] | None"
"""Tells by a file's first 16 bytes whether an opener reads it."""


def accepting_packed(accept: Accept) -> Accept:
    """A test of first bytes that accepts packed images, too."""
    return accept and (lambda prefix: is_packed(prefix) or accept(prefix))


def begins_packed(file: IO[bytes]) -> bool:
    """True if a packed image begins where a file stands, which is its beginning; the file stays there."""
    start = file.read(len(PACKED_SIGNATURE))
    file.seek(0)
    return is_packed(start)


def restoring(opener: Opener) -> Opener:
    """An opener that gives Pillow's own the JPEG of a packed image, and any other file as it is."""

    def open_restored(file: IO[bytes], filename: str | bytes = "") -> ImageFile:
        return opener(restored(file, filename) if begins_packed(file) else file, filename)

    return open_restored


def restored(file: IO[bytes], filename: str | bytes) -> IO[bytes]:
    """A packed image's JPEG as a file in memory; closes the given file if ``Image.open`` has opened it.

    Raises:
        DecodeError: the packed image is damaged.
    """
    from fastpipe.core.encoded import as_jpeg

    jpeg = as_jpeg(file.read(), name_of(filename))
    if filename:
        file.close()
    return io.BytesIO(jpeg)


def name_of(filename: str | bytes | None) -> str:
    """A file's name in errors."""
    return os.fsdecode(filename) if filename else "<file>"


class RestoredFile(io.RawIOBase):
    """The JPEG of a packed image as a file, restored when somebody reads more than its head.

    Args:
        data: the packed image's bytes.
        filename: its name in errors.
        owner: the file that the user has opened; this one is closed with it.
    """

    def __init__(self, data: bytes, filename: str | bytes | None, owner: IO[bytes] | None) -> None:
        self._data, self._filename, self._owner = data, filename, owner
        self._position = 0
        self._head: bytes | None = None
        self._jpeg: bytes | None = None

    def _content(self) -> bytes:
        """The whole JPEG; its head alone as long as nobody reads beyond."""
        if self._jpeg is not None:
            return self._jpeg
        if self._head is None:
            from fastpipe.core.packed import unpack_head

            try:
                self._head = unpack_head(self._data)
            except DecodeError:  # `_whole` names the file
                self._head = b""
        return self._head if self._position < len(self._head) else self._whole()

    def _whole(self) -> bytes:
        if self._jpeg is None:
            from fastpipe.core.encoded import as_jpeg

            self._jpeg = as_jpeg(self._data, name_of(self._filename))
        return self._jpeg

    @property
    def closed(self) -> bool:
        return super().closed or (self._owner is not None and self._owner.closed)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        part = self._content()[self._position : self._position + len(view)]
        view[: len(part)] = part
        self._position += len(part)
        return len(part)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END:
            offset += len(self._whole())
        elif whence == io.SEEK_CUR:
            offset += self._position
        if offset < 0:
            raise ValueError(f"negative seek position {offset}")
        self._position = offset
        return offset


def jpeg_file(data: bytes, filename: str | bytes | None, owner: IO[bytes] | None = None) -> IO[bytes]:
    """A JPEG in memory as a file; a packed image is restored when somebody reads more than its head.

    Args:
        data: the bytes of a JPEG, of a packed image, or of any other file.
        filename, owner: see `RestoredFile`.
    """
    if is_packed(data):
        return cast("IO[bytes]", io.BufferedReader(RestoredFile(data, filename, owner)))
    return io.BytesIO(data)
