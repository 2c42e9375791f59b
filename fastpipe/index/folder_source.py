"""The index of a folder of class folders: scanned once, then only where something changed."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpipe.errors import FastpipeWarning
from fastpipe.index.folders import FolderTable, KnownFolders
from fastpipe.index.indexed_files import IndexedFiles
from fastpipe.index.listing import class_folders
from fastpipe.index.local_scan import scan, unchanged_folders
from fastpipe.index.metadata import with_metadata


@dataclass(frozen=True, slots=True)
class FolderSource:
    """The arguments of `ImageIndex.from_folder`, of a folder.

    Raises:
        FileNotFoundError: `root` is no folder.
    """

    root: str
    extensions: tuple[str, ...]
    sizes: bool
    headers: bool
    refresh: bool
    progress: bool

    @property
    def bytes_from(self) -> None:
        """Files of this machine."""

    def __post_init__(self) -> None:
        if not os.path.isdir(self.root):
            class_folders(self.root)  # says what is wrong

    @property
    def identity(self) -> dict[str, Any]:
        return {"root": os.path.abspath(self.root), "extensions": list(self.extensions)}

    def find_unchanged(self, index: IndexedFiles) -> tuple[KnownFolders | None, str]:
        """The folders that are unchanged, and why the index won't do."""
        if index.table.folder_states is None:
            return None, "what was there is of a file"
        unchanged = unchanged_folders(self.root, index.table)
        if unchanged is not None:
            count = len(index.table.folder_states)
            return unchanged, f"{count - len(unchanged)} of {count} folders may have changed"
        if (self.sizes and index.sizes is None) or (self.headers and index.table.heights is None):
            return None, "sizes or headers were not in it"
        return None, ""

    def build(self, old: IndexedFiles | None, unchanged: KnownFolders | None, reason: str) -> IndexedFiles:
        """A new index, or `old` itself where a scan finds that it still holds."""
        if old is not None and old.table.folder_states is None:  # of an archive that was in its place
            old = None
        if old is not None and unchanged is None:  # only sizes or headers are missing
            found = FolderTable(old.classes, old.table, np.arange(len(old)), ())
        else:
            found = scan(self.root, self.extensions, unchanged, progress=self.progress)
        if not found.classes:
            class_folders(self.root)  # says what is wrong
        if found.unreadable:
            warnings.warn(
                f"{len(found.unreadable)} folders of {self.root} can't be listed, so their images are missing: "
                f"{', '.join(found.unreadable[:5])}{', …' if len(found.unreadable) > 5 else ''}. "
                "Check their permissions.",
                FastpipeWarning,
                stacklevel=6,
            )
        made = IndexedFiles(found.table, root=self.root, classes=found.classes, origin=f"built: {reason}")
        made = with_metadata(made, old, found.old_rows, self.sizes, self.headers, progress=self.progress)
        return old if old is not None and made.equals(old) else made
