"""Folders as scans list them, of this machine or of a store, and the table that they make."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable
from dataclasses import dataclass

import numpy as np

from fastpipe.index.merge import Part, merge, old_part
from fastpipe.index.table import Array, Table, joined, offsets_of, pack_paths, unpack_paths


@dataclass(frozen=True, slots=True)
class ListedFolder:
    """A folder, listed now or taken over from an older index.

    Attributes:
        path: relative to the root, with ``/`` between the parts; ``""`` for the root itself.
        state: as in `Table.folder_states`.
        files: with their paths from the root on.
        subfolders: names of the folders in it.
        readable: False for one that can't be listed.
    """

    path: str
    state: tuple[int, int, int]
    files: Part
    subfolders: tuple[str, ...]
    readable: bool = True


@dataclass(frozen=True, slots=True)
class FolderTable:
    """The files of all folders.

    Attributes:
        classes: the names of the class folders, sorted.
        table: paths, labels and folders.
        old_rows: int64 ``(n,)``: each file's row in the older index; -1 for those that are new.
        unreadable: folders that could not be listed; as in torchvision, their files are missing.
    """

    classes: tuple[str, ...]
    table: Table
    old_rows: Array
    unreadable: tuple[str, ...]


class KnownFolders:
    """The folders of an older index, to be taken over where they haven't changed.

    Args:
        table: the older index's; it has folders.
        columns: the arrays that the folders' parts have.
    """

    def __init__(self, table: Table, columns: Iterable[str] = ()) -> None:
        assert table.folder_paths is not None
        self.table = table
        self.columns = tuple(columns)
        self._numbers = {path: number for number, path in enumerate(unpack_paths(table.folder_paths.tobytes(), "/"))}
        self._subfolders: dict[str, list[str]] = {}
        for path in self._numbers:
            above, _, name = path.rpartition("/")
            if path:
                self._subfolders.setdefault(above, []).append(name)

    def __contains__(self, path: str) -> bool:
        return path in self._numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def without(self, changed: Container[str]) -> KnownFolders:
        """These folders but for some, by their paths."""
        other = KnownFolders.__new__(KnownFolders)
        other.__dict__ = self.__dict__ | {
            "_numbers": {path: number for path, number in self._numbers.items() if path not in changed}
        }
        return other

    def get(self, path: str) -> ListedFolder | None:
        """A folder with its rows in the older index; None where it isn't known."""
        number = self._numbers.get(path)
        if number is None:
            return None
        table = self.table
        assert table.folder_starts is not None
        assert table.folder_states is not None
        start, stop = table.folder_starts[number : number + 2].tolist()
        mtime, ctime, inode = table.folder_states[number].tolist()
        files = old_part(table, start, stop, self.columns)
        return ListedFolder(path, (mtime, ctime, inode), files, tuple(self._subfolders.get(path, ())))


def folder_table(found: Iterable[ListedFolder]) -> FolderTable:
    """The folders, the root among them, as a table in torchvision's order."""
    folders = list(found)
    root = next(one for one in folders if not one.path)
    classes = tuple(sorted(root.subfolders))
    labels = {name: label for label, name in enumerate(classes)}
    # os.walk's tuples sort by the folder's whole path, separators included: "a-b" before "a/b" before "ab"
    below = [one for one in folders if one.path]
    below.sort(key=lambda one: (labels[one.path.partition("/")[0]], one.path.replace("/", os.sep)))
    folders = [root, *below]
    merged = merge([one.files for one in folders])
    folder_labels = np.array([-1, *(labels[one.path.partition("/")[0]] for one in below)], np.int32)
    folder_paths = joined([pack_paths([one.path for one in folders])])
    table = Table(
        merged.paths,
        merged.offsets,
        np.repeat(folder_labels, np.diff(merged.starts)),
        folder_paths=folder_paths,
        folder_offsets=offsets_of(folder_paths),
        folder_starts=merged.starts,
        folder_states=np.array([one.state for one in folders], np.int64).reshape(-1, 3),
        folder_labels=folder_labels,
        **merged.columns,
    )
    return FolderTable(classes, table, merged.old_rows, tuple(one.path for one in folders if not one.readable))
