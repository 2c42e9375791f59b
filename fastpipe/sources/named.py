"""Opens the source of bytes for the root of a dataset."""

from __future__ import annotations

import os

from fastpipe.errors import DatasetError
from fastpipe.paths import is_url
from fastpipe.sources.base import ByteSource
from fastpipe.sources.cache import Cache, CachedSource
from fastpipe.sources.remote import RemoteSource


def source_of(root: str | os.PathLike[str] | ByteSource | None, cache: Cache | None) -> ByteSource | None:
    """The source of a root's files; None for this machine's file system.

    Args:
        root: a folder, a source, or a store's URL.
        cache: the cache that keeps the source's files; None for none.

    Raises:
        DatasetError: the cache is none, or is given for local files; or there is no package for such a store.
    """
    if cache is not None and not isinstance(cache, Cache):
        raise DatasetError(f"cache={cache!r:.80}: give a cache, as fastpipe.Cache(FOLDER, '500 GB'), or None.")
    if isinstance(root, str) and is_url(root):
        root = RemoteSource(root)
    if isinstance(root, ByteSource):
        return root if cache is None or isinstance(root, CachedSource) else cache.over(root)
    if cache is not None:
        raise DatasetError(f"cache= keeps files of a store, and {root} is none: leave it out.")
    return None
