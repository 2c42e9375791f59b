"""`RemoteSource`: stores that fsspec reads, given by URL."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from fastpipe.arguments import real_number, whole_number
from fastpipe.errors import DatasetError, StoreError
from fastpipe.sources._retry import WrongLengthError, status_of, with_retries
from fastpipe.sources.base import RANGES_FROM, ByteSource, Entry
from fastpipe.sources.threads import map_in_threads
from fastpipe.types import RemoteFile

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

__all__ = ["Folder", "RemoteSource"]

_HASHES = ("md5Hash", "ETag", "etag", "content_md5", "crc32c")
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")
_S3 = ("s3:", "s3a:")
_S3_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "FSSPEC_S3_ENDPOINT_URL")


FileInfo = dict[str, Any]
"""fsspec's description of a file or folder: ``name``, ``type``, ``size``, and the store's own entries."""


class Folder(NamedTuple):
    """The content of a folder in a store."""

    files: list[Entry]  # the files in it, with whole keys
    folders: list[str]  # the whole keys of the folders in it


class RemoteSource(ByteSource):
    """The files below a URL that fsspec knows: ``s3://``, ``gs://``, ``https://``, ``memory://`` and many more.

    ``fastpipe.ImageFolder("s3://bucket/train")`` makes one itself; make one yourself to give options. Requests that
    fail for a passing reason are repeated, after growing pauses. fsspec finds the credentials: those of the store's own
    tools (environment variables, config files, instance roles), `fsspec.config`, or options.

    Args:
        url: the URL that keys are relative to: a bucket or a folder in one.
        concurrency: the number of requests at once.
        tries: the number of attempts before a request counts as failed. With the default, a machine without a network
            says so after some thirteen seconds.
        timeout_s: the timeout of a request in seconds, for stores that fsspec talks to asynchronously, such as S3,
            Google's and HTTP.
        ranges_from: as in `ByteSource`: the size in bytes from which only the rows that a crop needs are read of a
            packed image; None for never. Choose less than the default if the store has low latency, or bills each byte.
        options: fsspec's options for the store, such as ``anon=True`` or ``endpoint_url=``.

    Raises:
        DatasetError: fsspec or its package for the store isn't installed, or it knows no such store.
    """

    _remote: tuple[int, AbstractFileSystem, str] | None = None

    def __init__(
        self,
        url: str,
        *,
        concurrency: int = 32,
        tries: int = 8,
        timeout_s: float = 60.0,
        ranges_from: int | None = RANGES_FROM,
        **options: Any,
    ) -> None:
        if not isinstance(url, str):
            raise DatasetError(f"url={url!r}: give a store's URL as a str, such as 's3://bucket/train'.")
        self._url = url
        self.concurrency = whole_number("concurrency", concurrency, "the requests at once", least=1, error=DatasetError)
        self.tries = whole_number("tries", tries, "the attempts of a request", least=1, error=DatasetError)
        self.timeout_s = real_number("timeout_s", timeout_s, "seconds", error=DatasetError)
        if ranges_from is not None:
            ranges_from = whole_number("ranges_from", ranges_from, "bytes, or None for never", error=DatasetError)
        self.ranges_from = ranges_from
        self.options = options
        self._opened()

    @property
    def name(self) -> str:
        host = urlsplit(self._url).netloc
        url = self._url.replace(host, host.rpartition("@")[2], 1)  # keep passwords out of messages
        return url if url.endswith("://") else url.rstrip("/")

    @property
    def identity(self) -> str:
        own = self.options.get("endpoint_url") or self.options.get("client_kwargs", {}).get("endpoint_url")
        if own is None and self._url.startswith(_S3):
            own = next((os.environ[name] for name in _S3_ENDPOINTS if os.environ.get(name)), None)
        return self.name if own is None else f"{self.name} at {own}"

    def above(self, count: int) -> RemoteSource:
        """The source `count` folders above this one, with the same options."""
        source = copy.copy(self)  # without the open file system
        source._url = self._url.rstrip("/").rsplit("/", count)[0]
        return source

    def list(self) -> Iterator[Entry]:
        level = [""]
        while level:
            below: list[str] = []
            for _, found in map_in_threads(self.list_folder, level, self.concurrency):
                below += found.folders
                yield from found.files
            level = below

    def list_folder(self, folder: str) -> Folder:
        """Lists one folder, given by its key; ``""`` for the URL's own."""
        files, folders = [], []
        for about in with_retries(lambda: self._listed(folder), self.url(folder), self.tries):
            name = about["name"]
            key = self._key(name)
            if not key or key.rstrip("/") == folder:  # a folder's marker
                continue
            if self._is_http and "?" in name:  # a link in a web page
                continue
            if about.get("type") == "directory":
                folders.append(key.rstrip("/"))
            elif not key.endswith("/"):
                files.append(_entry(key, about))
        return Folder(files, folders)

    def entry(self, key: str) -> Entry:
        about = with_retries(lambda: self._call("info", self._path(key)), self.url(key), self.tries)
        return _entry(key, about)

    def read(self, key: str, offset: int = 0, length: int = -1) -> bytes:
        return with_retries(lambda: self._read(key, offset, length, None), self.url(key), self.tries)

    def read_file(self, file: RemoteFile) -> bytes:
        if file.length < 0 and file.whole:
            return self.read(file.key)
        # For a whole file, request one byte more, which shows that it has grown, without a request for its size.
        wanted = file.length + file.whole
        return with_retries(lambda: self._read(file.key, file.offset, wanted, file.length), str(file), self.tries)

    def _read(self, key: str, offset: int, length: int, expected: int | None) -> bytes:
        data = b""
        if length != 0:
            limits: dict[str, object] = {} if offset == 0 and length < 0 else {"start": offset, "end": None}
            if length > 0:
                limits["end"] = offset + length
            try:
                data = bytes(self._call("cat_file", self._path(key), **limits))
            except Exception as error:  # clients raise errors of their own for a range past the end
                if not _is_behind_the_end(error):
                    raise
        if 0 <= length < len(data):
            raise StoreError(
                f"{self.url(key)}: {length} bytes from {offset} on were asked for, and {len(data)} came: the server "
                "doesn't give parts of files. Whole files can be read from it, but no archive's members."
            )
        if expected is not None and len(data) != expected:
            raise WrongLengthError(
                f"{self.url(key)}: {expected} bytes were expected and {len(data)} came: it was cut off on the way, or "
                "has changed since it was listed. List it again: make the dataset, or its index, anew."
            )
        return data

    def _listed(self, folder: str) -> Iterable[FileInfo]:
        system, _ = self._opened()
        path = self._path(folder)
        if self._is_http and not path.endswith("/"):
            path += "/"
        system.invalidate_cache(path)
        infos: Iterable[FileInfo] = self._call("ls", path, detail=True)
        return infos

    def _call(self, method: str, path: str, **arguments: Any) -> Any:
        """Calls a method of the file system, with a timeout if it supports one."""
        system, _ = self._opened()
        asynchronous = getattr(system, f"_{method}", None) if getattr(system, "async_impl", False) else None
        if asynchronous is None:
            return getattr(system, method)(path, **arguments)
        import fsspec.asyn

        return fsspec.asyn.sync(system.loop, asynchronous, path, timeout=self.timeout_s, **arguments)

    @property
    def _is_http(self) -> bool:
        return self._url.startswith(("http://", "https://"))

    def _path(self, key: str) -> str:
        """Converts a key to a path in the file system."""
        start = self._opened()[1]
        if not key:
            return start
        return f"{start.rstrip('/')}/{quote(key) if self._is_http else key}"

    def _key(self, path: str) -> str:
        key = path[len(self._opened()[1].rstrip("/")) :].lstrip("/")
        return unquote(key) if self._is_http else key

    def _opened(self) -> tuple[AbstractFileSystem, str]:
        """The file system, made once in each process, and the URL's path in it."""
        if self._remote is None or self._remote[0] != os.getpid():
            self._remote = (os.getpid(), *self._made())
        return self._remote[1:]

    def _made(self) -> tuple[AbstractFileSystem, str]:
        try:
            import fsspec.core
        except ImportError:
            raise DatasetError(
                f"{self.name}: reading from stores needs fsspec, which is not installed: pip install fsspec"
            ) from None
        options = dict(self.options)
        if self._url.startswith(_S3):
            # `tries` counts each attempt: without this, botocore would make five of each, and wait in between.
            own = {"max_pool_connections": self.concurrency, "retries": {"max_attempts": 0}}
            options.setdefault("config_kwargs", own)
        try:
            system, path = fsspec.core.url_to_fs(self._url, **options)
        except ImportError as error:
            raise DatasetError(
                f"{self.name}: fsspec needs another package for that store: {error}. "
                "s3:// takes s3fs, gs:// gcsfs, https:// aiohttp: pip install them."
            ) from error
        except ValueError as error:
            raise DatasetError(f"{self.name} can't be opened: {error}.") from error
        return system, str(path)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in super().__getstate__().items() if name != "_remote"}


def _entry(key: str, about: FileInfo) -> Entry:
    size = about.get("size")
    # Stores differ in which of these keys they have.
    state = next((about[name] for name in (*_HASHES, *_TIMES) if about.get(name)), "")
    etag = str(state.timestamp() if isinstance(state, datetime) else state).strip('"')
    return Entry(key, -1 if size is None else int(size), etag)


def _is_behind_the_end(error: Exception) -> bool:
    """True if a store refused a range because the file ends before it."""
    return status_of(error) == 416 or "range is not satisfiable" in str(error) or "InvalidRange" in str(error)
