"""`ByteSource`: the base of sources that datasets read bytes from."""

from __future__ import annotations

import abc
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from fastpipe.errors import StoreError
from fastpipe.foreign_code import outcome_of
from fastpipe.types import RemoteFile, Source

__all__ = ["RANGES_FROM", "ByteSource", "Entry", "Fetched", "by_source", "fetch_files", "version_of"]

RANGES_FROM = 4 << 20
"""The default size in bytes from which packed images are read in parts; see `ByteSource.ranges_from`.

A second request to S3 takes some 25 ms. In that time one connection transfers 2 MB, or 1 MB if 32 connections share
10 Gbit/s: that is the quarter of 4 MiB that random crops don't need. ``benchmarks/packed.py`` measures both ways.
"""

Fetched = bytes | str | Exception
"""The result of fetching a file: its bytes, the path of a local file (or an `ArchiveMember`) with them, or an error."""


class Entry(NamedTuple):
    """A file of a source.

    Attributes:
        key: the file's name, with ``/`` between the parts.
        size: bytes; -1 if unknown.
        etag: a text that changes with the bytes: an ETag, a hash, a time; ``""`` if there is none.
    """

    key: str
    size: int = -1
    etag: str = ""


class ByteSource(abc.ABC):
    """Base of sources of files besides the local file system; a subclass lists and reads them.

    `fastpipe.ImageFolder` and `fastpipe.ImageList` take one as their root. ``fastpipe.sources.check_source`` checks
    that a subclass fulfils this interface.

    A source is pickled for workers, so its attributes have to be picklable: make connections when they are first
    needed, in each process. `read` is called by many threads at once.
    """

    concurrency: int = 32
    """The number of reads that `fetch` runs at once."""

    ranges_from: int | None = RANGES_FROM
    """Packed images of at least this many bytes are read by two requests: one for the head at the start, then one for
    the rows that a crop needs and the metadata. Smaller images are read by one request; None reads all images so."""

    _pool: tuple[tuple[int, int], ThreadPoolExecutor] | None = None
    """The threads of `fetch`, with the process that they belong to and their number."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The prefix of keys in messages, such as ``"s3://bucket/train"``."""

    @property
    def identity(self) -> str:
        """A text that identifies this source, also in caches; by default `name`."""
        return self.name

    @abc.abstractmethod
    def list(self) -> Iterable[Entry]:
        """Lists all files, each once, in any order."""

    @abc.abstractmethod
    def read(self, key: str, offset: int = 0, length: int = -1) -> bytes:
        """Reads `length` bytes of a file from `offset` on, or fewer if the file ends before; -1 reads to the end.

        Raises:
            FileNotFoundError: there is no such file.
            OSError: it can't be read.
        """

    def entry(self, key: str) -> Entry:
        """Describes one file as `list` does; override it if there is a faster way.

        Raises:
            FileNotFoundError: there is no such file.
        """
        for entry in self.list():
            if entry.key == key:
                return entry
        raise FileNotFoundError(2, "no such file", self.url(key))

    def url(self, key: str) -> str:
        """The source's name and a file's key, for messages."""
        return f"{self.name.rstrip('/')}/{key}" if key else self.name

    def file(self, entry: Entry) -> RemoteFile:
        """The `RemoteFile` of an entry, which datasets and tools take as a path."""
        return RemoteFile(self.url(entry.key), self, entry.key, 0, entry.size, version_of(entry.etag))

    def fetch(self, files: Sequence[RemoteFile]) -> Sequence[Fetched]:
        """Reads several files of this source in parallel.

        Returns:
            For each file, its bytes, of the expected number, or the error that reading it raised. A source with a cache
            may also return the path of a local file (a `fastpipe.types.ArchiveMember`).
        """
        if len(files) < 2 or self.concurrency < 2:
            return [self._read_or_error(file) for file in files]
        owner = os.getpid(), self.concurrency  # a forked child has none of its parent's threads
        if self._pool is None or self._pool[0] != owner:
            self._pool = owner, ThreadPoolExecutor(self.concurrency, "fastpipe-fetch")
        return [*self._pool[1].map(self._read_or_error, files)]

    def read_file(self, file: RemoteFile) -> bytes:
        """Reads one file of this source, and checks the number of bytes.

        Raises:
            OSError: as in `read`.
            StoreError: the source returned more or fewer bytes than the file has.
        """
        if file.whole:
            data = self.read(file.key)
        else:
            data = self.read(file.key, file.offset, file.length)
        if not isinstance(data, bytes):
            raise StoreError(
                f"{file}: {type(self).__name__}.read returned {type(data).__name__}, where bytes are read."
            )
        if file.length >= 0 and len(data) != file.length:
            raise StoreError(
                f"{file}: {file.length} bytes were expected and {len(data)} came: it was cut off, or has changed since "
                "it was listed. List it again (refresh the index, or make the dataset anew)."
            )
        return data

    def _read_or_error(self, file: RemoteFile) -> Fetched:
        return outcome_of(lambda: self.read_file(file))  # an error in place of the bytes: the other files are read

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_pool"}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def version_of(etag: str) -> int:
    """Hashes an etag to a number of 63 bits; 0 for no etag."""
    if not etag:
        return 0
    return int.from_bytes(hashlib.blake2b(etag.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little") >> 1


def fetch_files(files: Sequence[str | bytes]) -> tuple[Sequence[str | bytes], dict[int, Exception]]:
    """Makes files readable for the core: reads those that are in a store.

    Args:
        files: paths, and files' bytes.

    Returns:
        Paths of local files, and bytes (empty after an error); and the errors by position.
    """
    for file in files:
        if isinstance(file, RemoteFile):
            break
    else:
        return files, {}
    local = list(files)
    errors = {}
    for source, some in by_source(files):
        for position, one in zip(some, source.fetch([*some.values()]), strict=True):
            if isinstance(one, Exception):
                errors[position] = one
            local[position] = b"" if isinstance(one, Exception) else one
    return local, errors


def by_source(files: Sequence[str | bytes]) -> Iterator[tuple[Source, dict[int, RemoteFile]]]:
    """Groups files by source: yields each source and its files, by position; skips local files."""
    groups: dict[int, tuple[Source, dict[int, RemoteFile]]] = {}
    for position, file in enumerate(files):
        if isinstance(file, RemoteFile):
            groups.setdefault(id(file.source), (file.source, {}))[1][position] = file
    yield from groups.values()
