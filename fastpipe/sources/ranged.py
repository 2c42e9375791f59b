"""Opens a file of a store as a Python file object that reads only the requested parts."""

from __future__ import annotations

import io
import os
from typing import IO, Any

from fastpipe.paths import open_regular
from fastpipe.types import RemoteFile

_BLOCK = 4 << 20
"""Bytes of one read: most bytes between an archive's member headers are skipped anyway."""


class _Ranged(io.RawIOBase):
    def __init__(self, file: RemoteFile) -> None:
        self._file = file
        self._length = file.length if file.length >= 0 else len(file.source.read(file.key))
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._length}[whence]
        if self._at < 0:
            raise ValueError("a place before the beginning")
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        length = max(min(len(buffer), self._length - self._at), 0)
        data = self._file.source.read(self._file.key, self._file.offset + self._at, length) if length else b""
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def open_seekable(path: str) -> IO[bytes]:
    """Opens a file, local or in a store, for reading.

    Raises:
        OSError: it can't be opened.
    """
    if isinstance(path, RemoteFile):
        return io.BufferedReader(_Ranged(path), _BLOCK)
    return open_regular(path)
