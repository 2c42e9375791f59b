"""Sources of bytes besides local files: stores, the user's own sources, and a cache for both."""

from fastpipe.sources.base import ByteSource, Entry, Fetched, fetch_files
from fastpipe.sources.cache import Cache, CachedSource, CacheStatistics, Pin
from fastpipe.sources.conformance import check_source
from fastpipe.sources.named import source_of
from fastpipe.sources.remote import RemoteSource

__all__ = [
    "ByteSource",
    "Cache",
    "CacheStatistics",
    "CachedSource",
    "Entry",
    "Fetched",
    "Pin",
    "RemoteSource",
    "check_source",
    "fetch_files",
    "source_of",
]


def __dir__() -> list[str]:
    return sorted(__all__)
