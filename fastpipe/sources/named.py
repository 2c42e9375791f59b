"""The source of bytes that a user means by the root of a data set."""

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
        root: a folder, a source, or a URL of one.
        cache: what keeps the source's files; None for nothing.

    Raises:
        DatasetError: there is a cache and nothing to keep in it, or no package for such a store.
    """
    if isinstance(root, str) and is_url(root):
        root = RemoteSource(root)
    if isinstance(root, ByteSource):
        return root if cache is None or isinstance(root, CachedSource) else cache.over(root)
    if cache is not None:
        raise DatasetError(f"cache= keeps files of a store, and {root} is none: leave it out.")
    return None
