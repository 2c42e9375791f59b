"""Sources of bytes besides local files: stores, the user's own sources, and a cache for both."""

from typing import TYPE_CHECKING

from fastpipe.lazy_names import imported_lazily

if TYPE_CHECKING:
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

_HOMES = {
    "base": (
        "ByteSource",
        "Entry",
        "Fetched",
        "fetch_files",
    ),
    "cache": (
        "Cache",
        "CachedSource",
        "CacheStatistics",
        "Pin",
    ),
    "conformance": ("check_source",),
    "named": ("source_of",),
    "remote": ("RemoteSource",),
}

if not TYPE_CHECKING:  # for a type checker every public name is imported above, and any other is a mistake
    __getattr__ = imported_lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
