"""The index of class folders in a store: listed folder by folder, and again where it has changed."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fastpipe.index import local_scan
from fastpipe.index._progress import SlowBar
from fastpipe.index.image_index import ImageIndex
from fastpipe.index.journal import Journal
from fastpipe.index.listing import without_classes
from fastpipe.index.metadata import Known, completed
from fastpipe.index.table import Array, pack_paths, same_tables, unpack_paths
from fastpipe.sources import ByteSource, Entry, RemoteSource
from fastpipe.sources.base import version_of
from fastpipe.sources.cache import origin
from fastpipe.sources.remote import Folder, walked


@dataclass(frozen=True, slots=True)
class _Part:
    """The images of one folder: packed keys in their order, sizes and versions; and the folders in it."""

    folder: str
    state: int
    keys: bytes
    sizes: Array
    versions: Array
    subfolders: tuple[str, ...]


@dataclass(frozen=True)
class StoredFolder:
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

    def look(self, index: ImageIndex) -> tuple[None, str]:
        """Whether the index will do: if another process listed the store while this one waited for it."""
        assert index.location is not None
        with contextlib.suppress(OSError):
            if (index.location / "current").stat().st_mtime_ns >= self.asked and (
                not self.headers or index.table.heights is not None
            ):
                return None, ""
        return None, "the store was listed again"

    def build(self, old: ImageIndex | None, unchanged: None, reason: str) -> ImageIndex:
        """A new index, or `old` itself where the list is the same."""
        parts = {part.folder: part for part in self._parts(old)}
        found = local_scan.assembled([_as_listed(part) for part in parts.values()], None)
        if not found.classes:
            raise without_classes(self.root)
        table, classes = found.table, found.classes
        assert table.folder_paths is not None
        order = [parts[folder] for folder in unpack_paths(table.folder_paths.tobytes(), "/")]
        none = np.zeros(0, np.int64)
        table = replace(
            table,
            sizes=np.concatenate([none, *(part.sizes for part in order)]),
            versions=np.concatenate([none, *(part.versions for part in order)]),
        )
        made = ImageIndex(table, root=self.root, classes=classes, source=self.bytes_from)
        known = None
        if old is not None and old.table.heights is not None:
            known = Known(old.table, old.formats, _taken_over(made, old))
        table, formats = completed(table, made.paths, known, False, self.headers, progress=self.progress)
        if old is not None and tuple(classes) == old.classes and same_tables(table, old.table):
            assert old.location is not None
            with contextlib.suppress(OSError):  # see `look`
                os.utime(old.location / "current")
            return old
        return ImageIndex(
            table,
            root=self.root,
            classes=classes,
            formats=formats,
            origin=f"built: {reason}",
            source=self.bytes_from,
        )

    def _parts(self, old: ImageIndex | None) -> Iterator[_Part]:
        """All folders, the root first."""
        source = origin(self.bytes_from)
        if not isinstance(source, RemoteSource):
            yield from self._grouped(source)
            return
        before = {} if old is None or self.refresh else _parts_of(old)
        with (
            SlowBar("listing the store", self.progress) as bar,
            Journal("listings", source.identity, self.refresh) as journal,
        ):

            def visited(key: str, state: str) -> tuple[_Part, dict[str, str]]:
                known = before.get(key)
                if known is not None and state and known.state == version_of(state):
                    # What is in it is the same; whether its folders are, they say.
                    return known, {folder: source.folder_state(folder) for folder in known.subfolders}
                listed = journal.get(key.encode())
                if listed is None:
                    found = source.list_folder(key)
                    journal.put(key.encode(), found)
                else:
                    found = Folder([Entry(*file) for file in listed[0]], listed[1])
                return self._part(key, state, found), found.folders

            bar.expect(1)
            with contextlib.closing(walked(visited, source.concurrency)) as parts:
                for part in parts:
                    bar.expect(len(part.subfolders))
                    bar.advance()
                    yield part

    def _part(self, key: str, state: str, found: Folder) -> _Part:
        files = [] if not key else sorted(file for file in found.files if file.key.lower().endswith(self.extensions))
        return _Part(
            key,
            _number(state),
            pack_paths([file.key for file in files]) if files else b"",
            np.array([file.size for file in files], np.int64),
            np.array([version_of(file.etag) for file in files], np.int64),
            tuple(found.folders),
        )

    def _grouped(self, source: ByteSource) -> Iterator[_Part]:
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
            yield self._part(folder, "", found)


def _number(state: str) -> int:
    """A folder's state as the index has it."""
    return version_of(state) if state else local_scan.NEVER_EQUAL


def _as_listed(part: _Part) -> local_scan.Listed:
    names = tuple(folder.rpartition("/")[2] for folder in part.subfolders)
    return local_scan.Listed(part.folder, (part.state, 0, 0), part.keys, names)


def _parts_of(old: ImageIndex) -> dict[str, _Part]:
    """What an index knows of each folder."""
    table = old.table
    if table.folder_paths is None or table.sizes is None or table.versions is None:
        return {}
    assert table.folder_starts is not None
    assert table.folder_states is not None
    folders = unpack_paths(table.folder_paths.tobytes(), "/")
    below: dict[str, list[str]] = {}
    for folder in folders[1:]:
        below.setdefault(folder.rpartition("/")[0], []).append(folder)
    parts = {}
    for number, folder in enumerate(folders):
        rows = slice(*table.folder_starts[number : number + 2].tolist())
        start, stop = table.offsets[rows.start], table.offsets[rows.stop]
        parts[folder] = _Part(
            folder,
            int(table.folder_states[number, 0]),
            table.paths[start:stop].tobytes(),
            np.asarray(table.sizes[rows]),
            np.asarray(table.versions[rows]),
            tuple(below.get(folder, ())),
        )
    return parts


def _taken_over(index: ImageIndex, old: ImageIndex) -> Array:
    """Where in the old index each file is, if it has the same size and version, which is known; -1 for the others."""
    mine, theirs = index.table, old.table
    if theirs.versions is None or theirs.sizes is None or not len(old):
        return np.full(len(index), -1, np.int64)
    assert mine.versions is not None
    assert mine.sizes is not None
    places = {path: number for number, path in enumerate(_names(old))}
    found = np.array([places.get(path, -1) for path in _names(index)], np.int64)
    same = (
        (found >= 0)
        & (mine.versions != 0)
        & (theirs.versions[found] == mine.versions)
        & (theirs.sizes[found] == mine.sizes)
    )
    return np.where(same, found, -1)


def _names(index: ImageIndex) -> Iterator[str]:
    for names, _ in index.table.blocks("/"):
        yield from names
