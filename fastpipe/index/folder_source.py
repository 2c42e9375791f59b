"""The index of a folder of class folders: scanned once, then only where something changed."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpipe.errors import FastpipeWarning
from fastpipe.index.image_index import ImageIndex
from fastpipe.index.listing import find_classes
from fastpipe.index.local_scan import Unchanged, scan, unchanged_folders
from fastpipe.index.metadata import Known, completed
from fastpipe.index.table import same_tables


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
            find_classes(self.root)  # says what is wrong

    @property
    def identity(self) -> dict[str, Any]:
        return {"root": os.path.abspath(self.root), "extensions": list(self.extensions)}

    def look(self, index: ImageIndex) -> tuple[Unchanged | None, str]:
        """The folders that are unchanged, and why the index won't do."""
        if index.table.folder_states is None:
            return None, "what was there is of a file"
        unchanged = unchanged_folders(self.root, index.table)
        if unchanged is not None:
            changed = len(index.table.folder_states) - len(unchanged.numbers)
            return unchanged, f"{changed} of {len(index.table.folder_states)} folders may have changed"
        if (self.sizes and index.sizes is None) or (self.headers and index.table.heights is None):
            return None, "sizes or headers were not in it"
        return None, ""

    def build(self, old: ImageIndex | None, unchanged: Unchanged | None, reason: str) -> ImageIndex:
        """A new index, or `old` itself where a scan finds that it still holds."""
        if old is not None and unchanged is None:  # only sizes or headers are missing
            table, classes = old.table, old.classes
            taken_over = np.arange(len(table))
            unreadable: tuple[str, ...] = ()
        else:
            found = scan(self.root, self.extensions, unchanged, progress=self.progress)
            table, classes, taken_over, unreadable = found.table, found.classes, found.taken_over, found.unreadable
        if not classes:
            find_classes(self.root)  # says what is wrong
        if unreadable:
            warnings.warn(
                f"{len(unreadable)} folders of {self.root} can't be listed, so their images are missing: "
                f"{', '.join(unreadable[:5])}{', …' if len(unreadable) > 5 else ''}. Check their permissions.",
                FastpipeWarning,
                stacklevel=5,
            )
        paths = ImageIndex(table, root=self.root, classes=classes).paths
        before = None if old is None else Known(old.table, old.formats, taken_over)
        table, formats = completed(table, paths, before, self.sizes, self.headers, progress=self.progress)
        if old is not None and classes == old.classes and same_tables(table, old.table):
            return old
        return ImageIndex(table, root=self.root, classes=classes, formats=formats, origin=f"built: {reason}")
