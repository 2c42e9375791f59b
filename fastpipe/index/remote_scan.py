"""The index of class folders in a store: listed folder by folder, and again where it has changed."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fastpipe.index._progress import SlowBar
from fastpipe.index.file_states import NEVER_EQUAL
from fastpipe.index.folders import KnownFolders, ListedFolder, folder_table
from fastpipe.index.indexed_files import IndexedFiles
from fastpipe.index.journal import Journal
from fastpipe.index.listing import without_classes
from fastpipe.index.merge import new_part, with_old_rows
from fastpipe.index.metadata import with_metadata
from fastpipe.index.table import pack_paths
from fastpipe.sources import ByteSource, Entry, RemoteSource
from fastpipe.sources.base import version_of
from fastpipe.sources.cache import origin
from fastpipe.sources.remote import Folder, walk_folders

_COLUMNS = ("sizes", "versions")


@dataclass(frozen=True)
class RemoteFolderSource:
    """The arguments of `ImageIndex.from_folder`, of a source.

    Attributes:
        bytes_from: has the files ``class/….jpg``.
        extensions, headers, refresh, progress: as there.
        asked: when this was made, in ns.
    """

    bytes_from: ByteSource
    extensions: tuple[str, ...]
    headers: bool
    refresh: bool
    progress: bool
    asked: int = field(default_factory=time.time_ns)

    @property
    def root(self) -> str:
        return self.bytes_from.name

    @property
    def identity(self) -> dict[str, Any]:
        return {"root": self.root, "extensions": list(self.extensions), "store": self.bytes_from.identity}

    def find_unchanged(self, index: IndexedFiles) -> tuple[None, str]:
        """Whether the index will do: if another process listed the store while this one waited for it."""
        assert index.location is not None
        with contextlib.suppress(OSError):
            if (index.location / "current").stat().st_mtime_ns >= self.asked and (
                not self.headers or index.table.heights is not None
            ):
                return None, ""
        return None, "the store was listed again"

    def build(self, old: IndexedFiles | None, unchanged: None, reason: str) -> IndexedFiles:
        """A new index, or `old` itself where the list is the same."""
        known = None
        if old is not None and old.table.folder_paths is not None:
            known = KnownFolders(old.table, _COLUMNS)
        found = folder_table(self._folders(known))
        if not found.classes:
            raise without_classes(self.root)
        made = IndexedFiles(
            found.table, root=self.root, classes=found.classes, origin=f"built: {reason}", source=self.bytes_from
        )
        made = with_metadata(made, old, found.old_rows, False, self.headers, progress=self.progress)
        if old is None or not made.equals(old):
            return made
        assert old.location is not None
        with contextlib.suppress(OSError):  # see `find_unchanged`
            os.utime(old.location / "current")
        return old

    def _folders(self, known: KnownFolders | None) -> Iterator[ListedFolder]:
        """Lists all folders, the root first."""
        source = origin(self.bytes_from)
        if not isinstance(source, RemoteSource):
            yield from self._grouped(source, known)
            return
        with (
            SlowBar("listing the store", self.progress) as bar,
            Journal("listings", source.identity, self.refresh) as journal,
        ):

            def visited(key: str, state: str) -> tuple[ListedFolder, dict[str, str]]:
                before = _known_folder(known, key)
                if before is not None and state and before.state[0] == version_of(state):
                    # What is in it is the same; whether its folders are, they say.
                    below = [f"{key}/{name}" if key else name for name in before.subfolders]
                    return before, {folder: source.folder_state(folder) for folder in below}
                listed = journal.get(key.encode())
                if listed is None:
                    found = source.list_folder(key)
                    journal.put(key.encode(), found)
                else:
                    found = Folder([Entry(*file) for file in listed[0]], listed[1])
                return self._listed(key, state, found, before), found.folders

            bar.expect(1)
            with contextlib.closing(walk_folders(visited, source.concurrency)) as folders:
                for folder in folders:
                    bar.expect(len(folder.subfolders))
                    bar.advance()
                    yield folder

    def _listed(self, key: str, state: str, found: Folder, before: ListedFolder | None) -> ListedFolder:
        """A folder as the store tells of it now; what its images were before is remembered."""
        files = [] if not key else sorted(file for file in found.files if file.key.lower().endswith(self.extensions))
        part = new_part(
            pack_paths([file.key for file in files]) if files else b"",
            sizes=[file.size for file in files],
            versions=[version_of(file.etag) for file in files],
        )
        return ListedFolder(
            key,
            (version_of(state) if state else NEVER_EQUAL, 0, 0),
            part if before is None else with_old_rows(part, before.files),
            tuple(folder.rpartition("/")[2] for folder in found.folders),
        )

    def _grouped(self, source: ByteSource, known: KnownFolders | None) -> Iterator[ListedFolder]:
        """The folders of a source that lists all of its files at once."""
        folders: dict[str, Folder] = {"": Folder([], {})}
        with SlowBar("listing the store", self.progress) as bar:
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
            yield self._listed(folder, "", found, _known_folder(known, folder))


def _known_folder(known: KnownFolders | None, key: str) -> ListedFolder | None:
    """A folder of the older index; of files without a version nobody knows whether they are the same."""
    folder = None if known is None else known.get(key)
    if folder is None:
        return None
    files = folder.files
    return replace(folder, files=files._replace(old_rows=np.where(files.columns["versions"] != 0, files.old_rows, -1)))
