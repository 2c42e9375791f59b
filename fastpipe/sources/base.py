"""`ByteSource`: any function that gives bytes, as a place that datasets read from."""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from fastpipe.errors import StoreError
from fastpipe.sources.threads import Threads, kept_threads
from fastpipe.types import RemoteFile, Source

__all__ = ["RANGES_FROM", "ByteSource", "Entry", "Fetched", "by_source", "fetch_files", "version_of"]

RANGES_FROM = 4 << 20
"""Bytes of a packed image from which on its parts are asked for; see `ByteSource.ranges_from`.

A second request to S3 waits for some 25 ms. In these one connection brings 2 MB, or 1 MB where 32 share 10 Gbit/s:
the quarter of 4 MiB that random crops don't need. ``benchmarks/packed.py`` has an epoch of each kind.
"""

Fetched = bytes | str | Exception
"""The result of fetching a file: its bytes, the path of a local file (or an `ArchiveMember`) with them, or an error."""


class Entry(NamedTuple):
    """A file of a source.

    Attributes:
        key: its name, with ``/`` between the parts.
        size: bytes; -1 where nobody knows.
        etag: a text that changes when the bytes change: an ETag, a hash, a time; ``""`` where there is none.
    """

    key: str
    size: int = -1
    etag: str = ""


class ByteSource(abc.ABC):
    """Files that something else than this machine's file system has: a subclass lists them, and reads them.

    `fastpipe.ImageFolder` and `fastpipe.ImageList` take one as their root. ``fastpipe.sources.check_source`` tells
    whether one does what is asked here.

    It is pickled for workers, so what it holds has to be picklable: connections are best made when they are first
    needed, in each process. `read` is called by many threads at once.
    """

    concurrency: int = 32
    """How many reads `fetch` has under way at once."""

    ranges_from: int | None = RANGES_FROM
    """Packed images of at least this many bytes are read in two turns: the beginning, which has the head, then the rows
    that a crop needs and the metadata. Smaller ones by one request for all of it; None: all of them."""

    _pool: Threads | None = None

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The prefix of keys in messages, as ``"s3://bucket/train"``."""

    @property
    def identity(self) -> str:
        """The text that tells this source from every other, in caches, too. If not overridden, `name`."""
        return self.name

    @abc.abstractmethod
    def list(self) -> Iterable[Entry]:
        """Lists all files, each once, in any order."""

    @abc.abstractmethod
    def read(self, key: str, offset: int = 0, length: int = -1) -> bytes:
        """Bytes of a file, from `offset` on: `length` of them or, where it ends before, what there is; -1 for all.

        Raises:
            FileNotFoundError: there is no such file.
            OSError: it can't be read.
        """

    def entry(self, key: str) -> Entry:
        """Describes one file, as `list` does or better. Override it if there is a quicker way.

        Raises:
            FileNotFoundError: there is no such file.
        """
        for entry in self.list():
            if entry.key == key:
                return entry
        raise FileNotFoundError(2, "no such file", self.url(key))

    def url(self, key: str) -> str:
        """A file's name with the source's, for messages."""
        return f"{self.name.rstrip('/')}/{key}" if key else self.name

    def file(self, entry: Entry) -> RemoteFile:
        """The path of a whole file, as datasets and tools take it."""
        return RemoteFile(self.url(entry.key), self, entry.key, 0, entry.size, version_of(entry.etag))

    def fetch(self, files: Sequence[RemoteFile]) -> Sequence[Fetched]:
        """Several files of this source, read at the same time.

        Returns:
            For each file its bytes, whose number is as expected, or the error that reading it led to; of a source with
            a cache also the path of a local file (a `fastpipe.types.ArchiveMember`).
        """
        if len(files) < 2 or self.concurrency < 2:
            return [self._read_or_error(file) for file in files]
        pool = self._pool = kept_threads(self._pool, self.concurrency, "fastpipe-fetch")
        return [*pool.executor.map(self._read_or_error, files)]

    def read_file(self, file: RemoteFile) -> bytes:
        """The bytes of one file of this source, whose number is as expected.

        Raises:
            OSError: as of `read`.
            StoreError: the source gave more or fewer bytes than the file has.
        """
        if file.whole:
            data = self.read(file.key)
        else:
            data = self.read(file.key, file.offset, file.length)
        if file.length >= 0 and len(data) != file.length:
            raise StoreError(
                f"{file}: {file.length} bytes were expected and {len(data)} came: it was cut off, or has changed since "
                "it was listed. List it again (refresh the index, or make the dataset anew)."
            )
        return data

    def _read_or_error(self, file: RemoteFile) -> Fetched:
        try:
            return self.read_file(file)
        except Exception as error:  # in the place of its file's bytes, so that the others are read
            return error

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_pool"}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def version_of(etag: str) -> int:
    """A file's etag as a number of 63 bits, 0 where there is none."""
    if not etag:
        return 0
    return int.from_bytes(hashlib.blake2b(etag.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little") >> 1


def fetch_files(files: Sequence[str | bytes]) -> tuple[Sequence[str | bytes], dict[int, Exception]]:
    """Files as the core takes them: those that are in a store are read.

    Args:
        files: paths, and what is in files.

    Returns:
        Paths of local files, and bytes; empty where reading a file led to an error, which is there by its position.
    """
    for file in files:
        if isinstance(file, RemoteFile):
            break
    else:
        return files, {}
    local = list(files)
    errors = {}
    for source, positions in by_source(files):
        some = source.fetch([files[position] for position in positions])  # type: ignore[misc] # they are RemoteFile
        for position, one in zip(positions, some, strict=True):
            if isinstance(one, Exception):
                errors[position] = one
            local[position] = b"" if isinstance(one, Exception) else one
    return local, errors


def by_source(files: Sequence[str | bytes]) -> Iterator[tuple[Source, list[int]]]:
    """The positions of the files of each source; of none where they are local."""
    found: dict[int, tuple[Source, list[int]]] = {}
    for position, file in enumerate(files):
        if isinstance(file, RemoteFile):
            found.setdefault(id(file.source), (file.source, []))[1].append(position)
    yield from found.values()
