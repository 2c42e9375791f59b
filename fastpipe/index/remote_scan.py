"""The index of class folders in a store, listed folder by folder."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from fastpipe.index.folder_source import FolderSource, walk
from fastpipe.index.journal import Journal
from fastpipe.index.pieces import NO_STATE, Part, Parts
from fastpipe.index.table import Listing, pack_paths
from fastpipe.progress_bar import SlowBar
from fastpipe.sources import ByteSource, Entry, RemoteSource
from fastpipe.sources.base import version_of
from fastpipe.sources.cache import without_cache
from fastpipe.sources.remote import Folder
from fastpipe.sources.threads import map_in_threads


@dataclass(frozen=True, kw_only=True)
class RemoteFolderSource(FolderSource):
    """Class folders of a store."""

    bytes_from: ByteSource  # the store with the files ``class/….jpg``
    asked: int = field(default_factory=time.time_ns)  # the time at which this object was made, in ns

    def find_unchanged(self, kept: Listing, confirmed_ns: int) -> tuple[Parts, str]:
        """Finds no part unchanged, as stores have no folder times; accepts a listing that is newer than this object."""
        return {}, "" if confirmed_ns >= self.asked else "the store was listed again"

    def folders(self, known: Parts) -> Iterator[Part]:
        """Lists the folders, several at once."""
        source = without_cache(self.bytes_from)
        if not isinstance(source, RemoteSource):
            yield from self._grouped(source)
            return
        with Journal("listings", source.identity, self.options.refresh) as journal:

            def visit(key: str) -> tuple[Part, list[str]]:
                found = journal.get(key.encode())
                if found is None:
                    found = source.list_folder(key)
                    journal.put(key.encode(), found)
                files, folders = found
                return self._listed(key, Folder([Entry(*file) for file in files], folders)), folders

            def visit_all(keys: list[str]) -> Iterator[tuple[Part, list[str]]]:
                return (found for _, found in map_in_threads(visit, keys, source.concurrency))

            yield from walk(visit_all, "", "listing the store", self.options.progress)

    def _listed(self, key: str, found: Folder) -> Part:
        """Converts the store's listing of a folder to a `Part`."""
        entries = [] if not key else sorted(file for file in found.files if file.key.lower().endswith(self.extensions))
        return Part(
            key,
            NO_STATE,
            pack_paths([file.key for file in entries]),
            {
                "sizes": np.array([file.size for file in entries], np.int64),
                "versions": np.array([version_of(file.etag) for file in entries], np.int64),
            },
            subfolders=[folder.rpartition("/")[2] for folder in found.folders],
        )

    def _grouped(self, source: ByteSource) -> Iterator[Part]:
        """The folders of a source that lists all of its files at once."""
        folders = {"": Folder([], [])}

        def folder(key: str) -> Folder:
            if key not in folders:
                folders[key] = Folder([], [])
                folder(key.rpartition("/")[0]).folders.append(key)
            return folders[key]

        with SlowBar("listing the store", self.options.progress) as bar:
            for entry in source.list():
                bar.advance()
                folder(entry.key.rpartition("/")[0]).files.append(entry)
        for key, found in folders.items():
            yield self._listed(key, found)
