"""`Cache`: files of a store on a local disk, bounded, shared by all processes of a machine.

    FOLDER/fastpipe-cache        says that this is one, and when the machine was started last
    FOLDER/manifest.sqlite       a row for each file, for what a running epoch needs, and for growing sets' epochs
    FOLDER/files/ab/ab….         a file: it has this name when it is whole
    FOLDER/parts/OWNER/ab….      a file that is being written
    FOLDER/owners/OWNER          locked by the process that lives
    FOLDER/growing/ID/….lock     locked by the process that fetches a growing set

What the files are is told by their names: a digest of the source, the key, the version and the part. So whether a
file is there is a question to the file system alone; the manifest says what to evict, and how much there is.
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
from fastpipe.sources._manifest import LOCK
from fastpipe.sources.base import ByteSource, Entry, Fetched, by_source
from fastpipe.types import ArchiveMember, RemoteFile, Source

__all__ = ["Cache", "CacheStatistics", "CachedSource", "Pin", "parse_size"]

_UNITS = {"": 1, "b": 1, **{f"{unit}b": 1000**n for n, unit in enumerate("kmgtp", 1)}}
_UNITS |= {f"{unit}ib": 1024**n for n, unit in enumerate("kmgtp", 1)}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")

_AT_ONCE = 64  # files that are in memory between the store and the disk


@dataclass(frozen=True)
class CacheStatistics:
    """Statistics of a cache since it was made, for all processes.

    Attributes:
        bytes: on the disk, in whole blocks.
        capacity: bytes at most.
        files: how many there are.
        pinned: how many of them running epochs need.
        hits, misses: files that were asked for and were there, and were not.
        fetched_bytes: read from stores and kept.
        evicted: files that left to make room, or by `Cache.evict`.
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
    """Files that stay in a cache until `release`, the end of a ``with``, or the end of the process."""

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

    What a dataset reads from a store (``fastpipe.ImageFolder("s3://bucket/train", cache=cache)``) is kept here, and
    read from here the next time. Where the capacity is reached, the files that were used least recently go, but for
    those that somebody has pinned. A file is whole or not there, whenever a process is killed; it is known by its
    source, key, version (ETag) and part, so that one that changed in the store is another file.

    A full disk makes the cache smaller: files are evicted to make room, and what can't be kept is read from the store
    each time; a warning says so.

    It is pickled by its folder; any thread may use it, and so may a forked child.

    Args:
        folder: on a local disk; made where it is missing. Nothing else may be in there.
        capacity: bytes at most, as an integer or a text such as ``"500 GB"`` or ``"1.5 TiB"``. Processes that give
            different capacities each keep to their own.

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
        """Whether a folder is a cache's."""
        return os.path.isfile(os.path.join(local_path(folder), MARK))

    def over(self, source: ByteSource) -> CachedSource:
        """The source, read through this cache."""
        return CachedSource(source, self)

    def find(self, file: RemoteFile) -> ArchiveMember | None:
        """Finds a file in the cache, None if it isn't there; counts as a use, not as a hit.

        It may be evicted before it is read, unless it is pinned.
        """
        disk = self._opened()
        one = file_id(file)
        path = disk.path(one)
        try:
            size = os.stat(path).st_size
        except OSError:
            return None
        if 0 <= file.length != size:  # somebody else's work: it is written whole, or not at all
            disk.evict([one])
            return None
        disk.used(one)
        return ArchiveMember(str(file), path, 0, size)

    def fetch(self, files: Sequence[RemoteFile]) -> list[Fetched]:
        """Finds files in the cache; those that aren't there are read from their sources and kept.

        Returns:
            For each file the `fastpipe.types.ArchiveMember` that it is here, its bytes where there is no room to keep
            it, or the error that reading it led to.
        """
        found: list[Fetched] = []
        for start in range(0, len(files), _AT_ONCE):
            some = files[start : start + _AT_ONCE]
            kept = [self.find(file) for file in some]
            missing = [file for file, one in zip(some, kept, strict=True) if one is None]
            self._opened().count(hits=len(some) - len(missing), misses=len(missing))
            came = iter(self.fetch_missing(missing))
            found += [next(came) if one is None else one for one in kept]
        return found

    def get(self, file: RemoteFile) -> bytes:
        """A file's bytes: from here, or from its source, and then it is kept.

        Raises:
            OSError: it can't be read from its source.
        """
        found = self.fetch([file])[0]
        if isinstance(found, Exception):
            raise found
        if isinstance(found, bytes):
            return found
        with contextlib.suppress(OSError):  # evicted this moment
            data = Path(found.container if isinstance(found, ArchiveMember) else found).read_bytes()
            if file.length < 0 or len(data) == file.length:
                return data
        return without_cache(file.source).read_file(file)

    def fetch_missing(self, files: Sequence[RemoteFile]) -> list[Fetched]:
        """Reads files from their sources, whether they are here or not, and keeps them; returns what `fetch` does."""
        found: dict[int, Fetched] = {}
        for source, places in by_source(files):
            found |= zip(places, without_cache(source).fetch([files[place] for place in places]), strict=True)
        came = {place: data for place, data in found.items() if isinstance(data, bytes)}
        kept = zip(came, self.put([(files[place], data) for place, data in came.items()]), strict=True)
        found |= {place: where for place, where in kept if where is not None}
        return [found[place] for place in range(len(files))]

    def put(self, files: Sequence[tuple[RemoteFile, bytes]]) -> list[ArchiveMember | None]:
        """Keeps files whose bytes are at hand.

        Returns:
            Where each lies; None where there is no room for it, since the capacity is too small or all else is held.
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
        """Keeps files from being evicted, those that aren't there yet, too, until the pin is released.

        A pin ends with the process that asked for it, however that ends. Call it before an epoch, with all that the
        epoch reads.
        """
        return Pin(self, self._opened().pin([file_id(file) for file in files]))

    def evict(self, files: Iterable[RemoteFile]) -> int:
        """Removes files, pinned ones too; returns the bytes that this made free."""
        return self._opened().evict([file_id(file) for file in files])

    def clear(self) -> None:
        """Removes all files that no running epoch has pinned."""
        self._opened().clear()

    def check(self) -> int:
        """Reads every file, and removes those that aren't what was written; returns their number."""
        return self._opened().check()

    def statistics(self) -> CacheStatistics:
        """Counts what there is, and what happened so far."""
        disk = self._opened()
        disk.flush()
        return CacheStatistics(capacity=self.capacity, pinned=disk.count_pinned(), **disk.manifest.counters())

    def _opened(self) -> CacheFolder:
        """The folder as this process has it open: a forked child opens it anew, as does a pickled copy."""
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
    """A source that is read through a cache: see `Cache.over`. It has files as a whole, so none is read by ranges."""

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
        """Reads from the store itself: the cache knows files by their version, which a key doesn't tell."""
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
    """``"500 GB"`` as a number of bytes.

    Raises:
        DatasetError: it is none.
    """
    if isinstance(capacity, str):
        match = _SIZE.fullmatch(capacity)
        if match and match[2].lower() in _UNITS and math.isfinite(size := float(match[1]) * _UNITS[match[2].lower()]):
            return int(size)
    elif isinstance(capacity, int) and not isinstance(capacity, bool) and capacity >= 0:
        return capacity
    raise DatasetError(f"capacity={capacity!r}: give bytes, as an integer or a text such as '500 GB' or '1.5 TiB'.")


def without_cache(source: Source) -> ByteSource:
    """The source itself, without a cache before it."""
    return source.source if isinstance(source, CachedSource) else cast(ByteSource, source)
