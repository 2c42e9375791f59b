"""The index of class folders, of this machine or of a store: the folders as they are listed, and their table."""

from __future__ import annotations

import abc
import os
import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fastpipe.errors import FastpipeWarning
from fastpipe.index.index_source import PartsSource
from fastpipe.index.indexed_files import IndexedFiles
from fastpipe.index.listing import without_classes
from fastpipe.index.parts import KnownParts, Merged, Part
from fastpipe.index.table import Table, joined, pack_paths

_NAMED = 5  # folders in a warning


@dataclass(frozen=True, slots=True)
class ListedFolder(Part):
    """A folder, listed now or taken over from an older index.

    Attributes:
        subfolders: names of the folders in it.
        readable: False for one that can't be listed; as in torchvision, its files are missing.
    """

    subfolders: tuple[str, ...]
    readable: bool = True


class KnownFolders(KnownParts):
    """The folders of an older index.

    Args:
        index: the older one; it has folders.
        columns: the arrays that the folders' files have.
    """

    def __init__(self, index: IndexedFiles, columns: Iterable[str] = ()) -> None:
        super().__init__(index, "folder", columns)
        self._subfolders: defaultdict[str, list[str]] = defaultdict(list)
        for path in self.numbers:
            above, _, name = path.rpartition("/")
            if path:
                self._subfolders[above].append(name)

    def folder(self, path: str) -> ListedFolder:
        """A folder with its rows in the older index."""
        return ListedFolder(path, self.state(path), self.files(path), tuple(self._subfolders.get(path, ())))


@dataclass(frozen=True, kw_only=True)
class FolderSource(PartsSource):
    """The arguments of `ImageIndex.from_folder`; a subclass lists the folders."""

    @abc.abstractmethod
    def folders(self, known: KnownFolders | None) -> Iterable[ListedFolder]:
        """Lists all folders, the root among them, in any order."""

    def build(self, known: KnownParts | None, reason: str) -> IndexedFiles:
        made = super().build(known, reason)
        return known.index if known is not None and made.equals(known.index) else made

    def list_parts(self, known: KnownParts | None) -> list[ListedFolder]:
        assert known is None or isinstance(known, KnownFolders)
        # As os.walk's tuples sort, by the whole path, separators included: "a-b" before "a/b" before "ab".
        return sorted(
            self.folders(known), key=lambda folder: (folder.path.partition("/")[0], folder.path.replace("/", os.sep))
        )

    def table_of(self, parts: Sequence[ListedFolder], merged: Merged) -> tuple[Table, Sequence[str], None]:
        root, *below = parts
        classes = sorted(root.subfolders)
        if not classes:
            raise without_classes(self.root)
        unreadable = [folder.path for folder in below if not folder.readable]
        if unreadable:
            named = ", ".join(unreadable[:_NAMED]) + (", …" if len(unreadable) > _NAMED else "")
            warnings.warn(
                f"{len(unreadable)} folders of {self.root} can't be listed, so their images are missing: {named}. "
                "Check their permissions.",
                FastpipeWarning,
                stacklevel=7,
            )
        labels = {name: label for label, name in enumerate(classes)}
        folder_labels = np.array([-1, *(labels[folder.path.partition("/")[0]] for folder in below)], np.int32)
        table = Table(
            labels=np.repeat(folder_labels, np.diff(merged.starts)),
            folder_paths=joined([pack_paths([folder.path for folder in parts])]),
            folder_starts=merged.starts,
            folder_states=np.array([folder.state for folder in parts], np.int64).reshape(-1, 3),
            **merged.arrays,
        )
        return table, classes, None
