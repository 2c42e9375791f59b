"""List files whose index is kept: what was parsed holds as long as the file's size and times do."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fastpipe.index.file_states import NEVER_EQUAL, settled_state, state_of
from fastpipe.index.image_index import ImageIndex
from fastpipe.index.index_source import IndexSource, Listing
from fastpipe.index.indexed_files import IndexedFiles
from fastpipe.index.list_files import Column, read_list, table_of
from fastpipe.index.parts import KnownParts
from fastpipe.paths import absolute_path
from fastpipe.sources import ByteSource

_SMALL = 1 << 16  # bytes of a list that is parsed each time
_MS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class ListSource(IndexSource):
    """A text, CSV or Parquet file of paths and labels.

    Attributes:
        path: of the file.
        columns: path's and label's, as of `ImageList`.
        root: what relative paths start from; ``""`` for nothing.
        bytes_from: the store that paths are keys of; None for this machine's files.
    """

    path: str
    columns: tuple[Column, Column] = ("path", "label")

    @property
    def identity(self) -> dict[str, Any]:
        own = {"kind": "list", "list": absolute_path(self.path), "columns": list(self.columns)}
        return {"root": self.root, "extensions": [], **own, "store": self.bytes_from is not None}

    def index(self) -> ImageIndex:
        """The list's index: kept in the cache folder, unless the list is small."""
        small = os.stat(self.path).st_size <= _SMALL
        index = ImageIndex.load_or_build(self, None if small else "auto")
        state = index.table.list_state
        assert state is not None
        return index if state[-1] else index.without_root()

    def find_unchanged(self, index: IndexedFiles) -> tuple[None, str]:
        state = index.table.list_state
        same = state is not None and tuple(state[:-1].tolist()) == state_of(self.path)
        return None, "" if same else f"{self.path} may have changed"

    def list_files(self, known: KnownParts | None) -> Listing:
        size, modified, changed = settled_state(self.path)  # before: what changes meanwhile shows the next time
        blocks, texts = read_list(self.path, self.columns)
        store = self.bytes_from
        table, classes, values, root, _ = table_of(blocks, texts, "" if store else self.root)
        if modified == NEVER_EQUAL and changed % _MS:  # times are finer than what reading takes
            after = settled_state(self.path)
            modified = after[1] if (after[0], after[2]) == (size, changed) else NEVER_EQUAL
        rooted = store is not None or root == self.root
        table = replace(table, list_state=np.array([size, modified, changed, rooted], np.int64))
        return Listing(table, classes, values)


def index_of_rows(rows: Any, root: str = "", source: ByteSource | None = None) -> ImageIndex:
    """The index of files that no list file has.

    Args:
        rows: two sequences, paths and labels.
        root: the folder that relative paths start from.
        source: the store that paths are keys of; None for this machine's files, and for paths that know their store.
    """
    blocks, texts = read_list(rows, ("path", "label"))
    table, classes, values, start, own = table_of(blocks, texts, root if source is None else "")
    if own is None and source is not None:
        own, start = source, source.name
    return ImageIndex.from_table(table, root=start, classes=classes, class_values=values, source=own)
