"""The index of class folders in a store: listed folder by folder, and again where it has changed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from fastpipe.index import format
from fastpipe.index.file_states import NEVER_EQUAL
from fastpipe.index.folders import FolderSource, Task, walk
from fastpipe.index.indexed_files import IndexedFiles
from fastpipe.index.journal import Journal
from fastpipe.index.parts import KnownParts, Part, with_old_rows
from fastpipe.index.table import pack_paths
from fastpipe.progress_bar import SlowBar
from fastpipe.sources import ByteSource, Entry, RemoteSource
from fastpipe.sources.base import version_of
from fastpipe.sources.cache import without_cache
from fastpipe.sources.remote import Folder
from fastpipe.sources.threads import map_in_threads


@dataclass(frozen=True, kw_only=True)
class RemoteFolderSource(FolderSource):
    """Class folders of a store.

    Attributes:
        bytes_from: has the files ``class/….jpg``.
        asked: when this was made, in ns.
    """

    bytes_from: ByteSource
    asked: int = field(default_factory=time.time_ns)

    def find_unchanged(self, index: IndexedFiles) -> tuple[KnownParts | None, str]:
        """The known parts, and why the index won't do: it may, if another process listed the store meanwhile."""
        known = None if index.table.folders is None else KnownParts(index, ("sizes", "versions"))
        assert index.location is not None
        if format.confirmed_ns(index.location, index.generation) >= self.asked:
            return known, self.options.missing_in(index.table)
        return known, "the store was listed again"

    def folders(self, known: KnownParts | None) -> Iterator[Part]:
        """Lists the folders, several at once; those whose state is as it was are taken over."""
        source = without_cache(self.bytes_from)
        if not isinstance(source, RemoteSource):
            yield from self._grouped(source, known)
            return
        with Journal("listings", source.identity, self.options.refresh) as journal:

            def visit(task: Task) -> tuple[Part, Iterable[Task]]:
                key, state = task
                if known is not None and key in known and state and known.state(key)[0] == version_of(state):
                    # What is in it is the same; whether its folders are, they say.
                    before = _known_folder(known, key)
                    below = [f"{key}/{name}" if key else name for name in before.subfolders]
                    return before, [(folder, source.folder_state(folder)) for folder in below]
                listed = journal.get(key.encode())
                if listed is None:
                    found = source.list_folder(key)
                    journal.put(key.encode(), found)
                else:
                    found = Folder([Entry(*file) for file in listed[0]], listed[1])
                return self._listed(key, state, found, known), found.folders.items()

            def visit_all(tasks: list[Task]) -> Iterator[tuple[Part, Iterable[Task]]]:
                return (found for _, found in map_in_threads(visit, tasks, source.concurrency))

            yield from walk(visit_all, ("", ""), "listing the store", self.options.progress)

    def _listed(self, key: str, state: str, found: Folder, known: KnownParts | None) -> Part:
        """A folder as the store tells of it now; what its images were before is remembered."""
        entries = [] if not key else sorted(file for file in found.files if file.key.lower().endswith(self.extensions))
        folder = Part(
            key,
            (version_of(state) if state else NEVER_EQUAL, 0, 0),
            pack_paths([file.key for file in entries]),
            {
                "sizes": np.array([file.size for file in entries], np.int64),
                "versions": np.array([version_of(file.etag) for file in entries], np.int64),
            },
            subfolders=[folder.rpartition("/")[2] for folder in found.folders],
        )
        return with_old_rows(folder, _known_folder(known, key)) if known is not None and key in known else folder

    def _grouped(self, source: ByteSource, known: KnownParts | None) -> Iterator[Part]:
        """The folders of a source that lists all of its files at once."""
        folders: dict[str, Folder] = {"": Folder([], {})}
        with SlowBar("listing the store", self.options.progress) as bar:
            for entry in source.list():
                bar.advance()
                folder = entry.key.rpartition("/")[0]
                folders.setdefault(folder, Folder([], {})).files.append(entry)
        for folder in [*folders]:
            while folder:  # it is among those of the one above it
                above = folder.rpartition("/")[0]
                folders.setdefault(above, Folder([], {})).folders[folder] = ""
                folder = above
        for folder, found in folders.items():
            yield self._listed(folder, "", found, known)


def _known_folder(known: KnownParts, key: str) -> Part:
    """A folder of the older index; of files without a version nobody knows whether they are the same."""
    folder = known.part(key)
    assert folder.old_rows is not None
    return replace(folder, old_rows=np.where(folder.columns["versions"] != 0, folder.old_rows, -1))
