"""`IndexSource`: something that an index can be made of, listed part by part, and again only where it changed."""

from __future__ import annotations

import abc
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fastpipe.index.indexed_files import IndexedFiles
from fastpipe.index.metadata import DEFAULT_OPTIONS, BuildOptions, with_sizes
from fastpipe.index.parts import KnownParts
from fastpipe.index.table import Array, Table
from fastpipe.sources import ByteSource

__all__ = ["DEFAULT_OPTIONS", "BuildOptions", "IndexSource", "Listing"]


class Listing(NamedTuple):
    """The files of a source.

    Attributes:
        table: paths, labels, and what else the listing itself tells.
        classes: class names.
        class_values: the label of each class; None for 0, 1, ….
        old_rows: int64 ``(n,)``: each file's row in the older index, -1 for those that are new; None if all are.
        rooted: whether the paths start from the source's root; else they are whole by themselves.
    """

    table: Table
    classes: Sequence[str]
    class_values: Sequence[int] | None = None
    old_rows: Array | None = None
    rooted: bool = True


@dataclass(frozen=True, kw_only=True)
class IndexSource(abc.ABC):
    """Something that an index can be made of: class folders, containers, a list.

    Attributes:
        root: the folder or URL that the index's paths start from.
        extensions: lower-case endings of the files that count.
        options: how the index is made.
        bytes_from: the source of the files; None for this machine's file system.
    """

    root: str
    extensions: tuple[str, ...] = ()
    options: BuildOptions = DEFAULT_OPTIONS
    bytes_from: ByteSource | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """The values that tell this source's index from others: ``root``, ``extensions`` and more, as JSON has them."""
        root = os.path.abspath(self.root) if self.bytes_from is None else self.root
        store = {} if self.bytes_from is None else {"store": self.bytes_from.identity}
        return {"root": root, "extensions": list(self.extensions), **self.about, **store}

    @property
    def about(self) -> dict[str, Any]:
        """Other arguments that the listing depends on, for `identity`."""
        return {}

    @abc.abstractmethod
    def find_unchanged(self, index: IndexedFiles) -> tuple[KnownParts | None, str]:
        """Compares a kept index with what is there now.

        Returns:
            The unchanged parts, None where there are no such parts, and why the index won't do; ``""`` if it does.
        """

    @abc.abstractmethod
    def list_files(self, known: KnownParts | None) -> Listing:
        """Lists all files as they are now; parts that are known haven't changed, and are taken over."""

    def build(self, known: KnownParts | None, reason: str) -> IndexedFiles:
        """A new index, or the older one itself where it turns out to hold."""
        table, classes, values, old_rows, rooted = self.list_files(known)
        made = IndexedFiles(
            table,
            root=self.root,
            classes=classes,
            class_values=values,
            rooted=rooted,
            origin=f"built: {reason}",
            source=self.bytes_from,
        )
        old = None if known is None else known.index
        made = with_sizes(made, old, old_rows, self.options)
        return old if old is not None and made.equals(old) else made
