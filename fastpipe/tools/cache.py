"""Lists and clears fastpipe's cache folder; everything in it can be made again."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import filelock

from fastpipe.errors import ConfigError, DatasetError
from fastpipe.index.format import cache_folder
from fastpipe.sources import Cache

_KINDS = {
    "folders": "indexes of folders",
    "lists": "indexes of lists",
    "unpacked": "images of compressed Parquet files",
    "listings": "interrupted listings of stores",
    "cluster": "interrupted work on a cluster",
    "annotations": "annotation files of detection",
}


def cache_contents() -> dict[str, Any]:
    """The folder, and for each kind of content the number of entries and their bytes.

    Raises:
        ConfigError: the user has no home folder, and FASTPIPE_CACHE names no other one.
    """
    try:
        folder = cache_folder()
    except FileNotFoundError as error:
        raise ConfigError(f"nothing is kept: {error}. Set FASTPIPE_CACHE to a folder that can be written.") from None
    kinds = {}
    for kind, meaning in _KINDS.items():
        entries = list(_entries(kind))
        kinds[kind] = {"what": meaning, "count": len(entries), "bytes": sum(map(_bytes, entries))}
    return {"schema": "fastpipe-cache/1", "folder": str(folder), "contents": kinds}


def store_cache(folder: str) -> Cache:
    """Opens the cache of files from stores in a folder.

    Raises:
        DatasetError: the folder holds no such cache.
    """
    if not Cache.is_in(folder):
        raise DatasetError(
            f"{os.fspath(folder) or repr('')} is no cache of files from stores: give the folder that fastpipe.Cache "
            "was made with, or none to see the cache of indexes."
        )
    return Cache(folder)


def store_cache_contents(cache: Cache) -> dict[str, Any]:
    """The content of a cache of files from stores."""
    about = asdict(cache.statistics())
    del about["capacity"]  # given to each `Cache` object, not stored
    return {"schema": "fastpipe-store-cache/1", "folder": cache.folder, **about}


def clear_cache() -> list[str]:
    """Removes everything that fastpipe put into its cache folder, and nothing else.

    Returns:
        The entries that had to stay, each with the reason: it is being written, or can't be removed.
    """
    left = []
    for kind in _KINDS:
        for entry in _entries(kind):
            try:
                if not entry.is_dir():
                    entry.unlink()
                    continue
                with contextlib.ExitStack() as stack:
                    with contextlib.suppress(NotImplementedError):  # some network disks can't lock
                        stack.enter_context(filelock.FileLock(entry / "lock", timeout=0))
                    shutil.rmtree(entry)
            except filelock.Timeout:
                left.append(f"{entry}: in use")
            except OSError as error:
                left.append(f"{entry}: {error.strerror or error}")
        with contextlib.suppress(OSError):  # it isn't empty, or doesn't exist
            (cache_folder() / kind).rmdir()
    return left


def _entries(kind: str) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield from sorted((cache_folder() / kind).iterdir())


def _bytes(entry: Path) -> int:
    if not entry.is_dir():
        return entry.lstat().st_size
    return sum(os.lstat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(entry) for name in names)
