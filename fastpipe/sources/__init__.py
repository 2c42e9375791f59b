"""Where bytes come from that aren't files of this machine: stores, functions of the user's, and a cache of them."""

from fastpipe.sources.base import ByteSource, Entry, Fetched, fetched
from fastpipe.sources.cache import Cache, CachedSource, CacheStatistics, Hold
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
    "Hold",
    "RemoteSource",
    "check_source",
    "fetched",
    "source_of",
]
