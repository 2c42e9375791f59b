"""`Cache`: files of a store on a local disk, bounded, shared by all processes of a machine.

    FOLDER/fastpipe-cache        marks the folder as a cache, and holds the ids of the machine's last boot and of it
    FOLDER/manifest.sqlite       rows for files, pins and growing sets' epochs
    FOLDER/files/ab/ab….         a complete file
    FOLDER/parts/OWNER/ab….      a file that is being written
    FOLDER/owners/OWNER          locked by its process as long as that lives
    FOLDER/growing/ID/….lock     locked by the process that fetches a growing set

A file's name is a digest of the source, the key, the version and the part. So only the file system is asked whether a
file is there; the manifest tells which files to evict, and how large the cache is.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from fastpipe.errors import DatasetError
from fastpipe.paths import absolute_path, local_path
from fastpipe.sources._cache_folder import MARK, CacheFolder
from fastpipe.sources.base import ByteSource, Entry, Fetched, by_source
from fastpipe.sources.manifest import LOCK
from fastpipe.types import ArchiveMember, RemoteFile, Source

__all__ = ["Cache", "CacheStatistics", "CachedSource", "Pin", "parse_size"]

_UNITS = {"": 1, "b": 1, **{f"{unit}b": 1000**n for n, unit in enumerate("kmgtp", 1)}}
_UNITS |= {f"{unit}ib": 1024**n for n, unit in enumerate("kmgtp", 1)}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")

_AT_ONCE = 64  # the most files in memory between the store and the disk


@dataclass(frozen=True)
class CacheStatistics:
    """Statistics of a cache since it was made, for all processes.

    Attributes:
        bytes: bytes on disk, in whole blocks.
        capacity: the most bytes.
        files: the number of files.
        pinned: the number of pinned files.
        hits, misses: requested files that were there, and that were not.
        fetched_bytes: bytes read from stores and kept.
        evicted: files removed to make room, or by `Cache.evict`.
    """

    bytes: int
    capacity: int
    files: int
    pinned: int
    hits: int
    misses: int
    fetched_bytes: int
    evicted: int


class Pin:
    """Keeps files in a cache until `release`, the end of a ``with``, or the end of the process."""

    def __init__(self, cache: Cache, name: str) -> None:
        self._cache, self._name = cache, name

    def release(self) -> None:
        """Lets the files be evicted again."""
        self._cache._opened().unpin(self._name)

    def __enter__(self) -> Pin:
        return self

    def __exit__(self, *problem: object) -> None:
        self.release()


class Cache:
    """Files of stores on a local disk: a bounded folder that all processes and ranks of a machine share.

    Files that a dataset reads from a store (``fastpipe.ImageFolder("s3://bucket/train", cache=cache)``) are kept here,
    and read from here the next time. When the capacity is reached, the least recently used files are evicted, except
    pinned ones. A file is complete or not there, whenever a process is killed. It is identified by its source, key,
    version (ETag) and part, so a file that changed in the store is another file.

    If the disk is full, files are evicted to make room; files that can't be kept are read from the store each time,
    with a warning.

    A cache pickles to its folder and capacity. Any thread may use it, and so may a forked child.

    Args:
        folder: a folder on a local disk, without other files; made if it is missing. Each machine needs its own: one
            that another machine uses is refused.
        capacity: the most bytes, as an integer or a text such as ``"500 GB"`` or ``"1.5 TiB"``. If processes give
            different capacities, each applies its own.

    Raises:
        DatasetError: the folder holds other things or can't be written, or the capacity is no number of bytes.
    """

    _disk: CacheFolder | None = None

    def __init__(self, folder: str | os.PathLike[str], capacity: int | str = "500 GB") -> None:
        self.folder = absolute_path(folder)
        self.capacity = parse_size(capacity)
        self._opened()

    @staticmethod
    def is_in(folder: str | os.PathLike[str]) -> bool:
        """True if a folder is that of a cache."""
        return os.path.isfile(os.path.join(local_path(folder), MARK))

    def over(self, source: ByteSource) -> CachedSource:
        """Returns the source, read through this cache."""
        return CachedSource(source, self)

    def find(self, file: RemoteFile) -> ArchiveMember | None:
        """Finds a file in the cache; None if it isn't there. It counts as a use, not as a hit.

        The file may be evicted before it is read, unless it is pinned.
        """
        disk = self._opened()
        one = file_id(file)
        path = disk.path(one)
        try:
            size = os.stat(path).st_size
        except OSError:
            return None
        if 0 <= file.length != size:  # changed by another program, as the cache writes files atomically
            disk.evict([one])
            return None
        disk.used(one)
        return ArchiveMember(str(file), path, 0, size)

    def fetch(self, files: Sequence[RemoteFile]) -> list[Fetched]:
        """Finds files in the cache; reads missing ones from their sources and keeps them.

        Returns:
            For each file, the `fastpipe.types.ArchiveMember` of its copy in the cache, its bytes if there is no room to
            keep it, or the error that reading it raised.
        """
        fetched: list[Fetched] = []
        for start in range(0, len(files), _AT_ONCE):
            some = files[start : start + _AT_ONCE]
            kept = [self.find(file) for file in some]
            missing = [file for file, one in zip(some, kept, strict=True) if one is None]
            self._opened().count(hits=len(some) - len(missing), misses=len(missing))
            came = iter(self.fetch_missing(missing))
            fetched += [next(came) if one is None else one for one in kept]
        return fetched

    def get(self, file: RemoteFile) -> bytes:
        """Reads a file from the cache, or from its source and keeps it.

        Raises:
            OSError: it can't be read from its source.
        """
        fetched = self.fetch([file])[0]
        if isinstance(fetched, Exception):
            raise fetched
        if isinstance(fetched, bytes):
            return fetched
        with contextlib.suppress(OSError):  # it was evicted in between
            data = Path(fetched.container if isinstance(fetched, ArchiveMember) else fetched).read_bytes()
            if file.length < 0 or len(data) == file.length:
                return data
        return without_cache(file.source).read_file(file)

    def fetch_missing(self, files: Sequence[RemoteFile]) -> list[Fetched]:
        """Reads files from their sources, even if they are in the cache, and keeps them; returns what `fetch` does."""
        fetched: dict[int, Fetched] = {}
        for source, some in by_source(files):
            fetched |= zip(some, without_cache(source).fetch([*some.values()]), strict=True)
        came = {place: data for place, data in fetched.items() if isinstance(data, bytes)}
        kept = zip(came, self.put([(files[place], data) for place, data in came.items()]), strict=True)
        fetched |= {place: where for place, where in kept if where is not None}
        return [fetched[place] for place in range(len(files))]

    def put(self, files: Sequence[tuple[RemoteFile, bytes]]) -> list[ArchiveMember | None]:
        """Keeps files whose bytes are given.

        Returns:
            Each file's copy in the cache; None if there is no room, as the capacity is too small or all other files are
            pinned.
        """
        if not files:
            return []
        disk = self._opened()
        ids = [file_id(file) for file, _ in files]
        there = disk.put({one: data for one, (_, data) in zip(ids, files, strict=True)}, self.capacity)
        return [
            ArchiveMember(str(file), disk.path(one), 0, len(data)) if one in there else None
            for one, (file, data) in zip(ids, files, strict=True)
        ]

    def pin(self, files: Iterable[RemoteFile]) -> Pin:
        """Keeps files from being evicted until the pin is released, including files that aren't in the cache yet.

        A pin also ends with its process, however that ends. Call this before an epoch, with all files of the epoch.
        """
        return Pin(self, self._opened().pin([file_id(file) for file in files]))

    def evict(self, files: Iterable[RemoteFile]) -> int:
        """Removes files, pinned ones too; returns the bytes that this made free."""
        return self._opened().evict([file_id(file) for file in files])

    def clear(self) -> None:
        """Removes all files that aren't pinned."""
        self._opened().clear()

    def check(self) -> int:
        """Reads every file, and removes those whose bytes have changed; returns their number."""
        return self._opened().check()

    def statistics(self) -> CacheStatistics:
        """The cache's size and counters."""
        disk = self._opened()
        disk.flush()
        return CacheStatistics(capacity=self.capacity, pinned=disk.count_pinned(), **disk.manifest.counters())

    def _opened(self) -> CacheFolder:
        """The folder, opened once in each process: a forked child and an unpickled copy open it again."""
        disk = self._disk
        if disk is None or disk.process != os.getpid():
            with LOCK:
                disk = self._disk
                if disk is None or disk.process != os.getpid():
                    disk = self._disk = CacheFolder(Path(self.folder))
        return disk

    def __repr__(self) -> str:
        return f"Cache({self.folder!r}, capacity={self.capacity})"

    def __getstate__(self) -> dict[str, object]:
        return {"folder": self.folder, "capacity": self.capacity}


class CachedSource(ByteSource):
    """A source that is read through a cache, see `Cache.over`. It caches whole files, so it doesn't read ranges."""

    ranges_from = None

    def __init__(self, source: ByteSource, cache: Cache) -> None:
        self.source = without_cache(source)
        self.cache = cache
        self.concurrency = source.concurrency

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def identity(self) -> str:
        return self.source.identity

    def list(self) -> Iterable[Entry]:
        return self.source.list()

    def entry(self, key: str) -> Entry:
        return self.source.entry(key)

    def url(self, key: str) -> str:
        return self.source.url(key)

    def read(self, key: str, offset: int = 0, length: int = -1) -> bytes:
        """Reads from the store, as a key alone doesn't give the version by which the cache knows a file."""
        return self.source.read(key, offset, length)

    def fetch(self, files: Sequence[RemoteFile]) -> Sequence[Fetched]:
        return self.cache.fetch(files)

    def read_file(self, file: RemoteFile) -> bytes:
        return self.cache.get(file)


def file_id(file: RemoteFile) -> bytes:
    """The id of a file in a cache: a digest of its source, key, version and part."""
    part = "" if file.whole else f"{file.offset}+{file.length}"
    text = f"{file.source.identity}\0{file.key}\0{file.version}\0{part}"
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def parse_size(capacity: int | str) -> int:
    """Converts a size such as ``"500 GB"`` to a number of bytes.

    Raises:
        DatasetError: it isn't a valid size.
    """
    if isinstance(capacity, str):
        match = _SIZE.fullmatch(capacity)
        if match and match[2].lower() in _UNITS and math.isfinite(size := float(match[1]) * _UNITS[match[2].lower()]):
            return int(size)
    elif isinstance(capacity, int) and not isinstance(capacity, bool) and capacity >= 0:
        return capacity
    raise DatasetError(f"capacity={capacity!r}: give bytes, as an integer or a text such as '500 GB' or '1.5 TiB'.")


def without_cache(source: Source) -> ByteSource:
    """The source itself, without its cache if it has one."""
    return source.source if isinstance(source, CachedSource) else cast(ByteSource, source)
