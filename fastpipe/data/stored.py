"""The index of class folders in a store: listed, in torchvision's order, and compared with what was known."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fastpipe.data._progress import SlowBar
from fastpipe.data.details import Known, completed
from fastpipe.data.index import ImageIndex
from fastpipe.data.table import Array, Table, joined, offsets_of, pack_paths, same_tables
from fastpipe.sources import ByteSource, Entry
from fastpipe.sources.base import version_of


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
        """A store doesn't say what has changed, so it is listed again."""
        return None, "the store was listed again"

    def build(self, old: ImageIndex | None, unchanged: None, reason: str) -> ImageIndex:
        """A new index, or `old` itself where the list is the same."""
        entries, classes = self._listed()
        if not classes:
            raise FileNotFoundError(
                f"Couldn't find any class folder in {self.root}. "
                "ImageFolder expects one folder a class, with the images inside: class/image.jpg."
            )
        keys = [entry.key for entry in entries]
        labels = {name: label for label, name in enumerate(classes)}
        packed = joined([pack_paths(keys)] if keys else [])
        table = Table(
            packed,
            offsets_of(packed),
            np.array([labels[key.partition("/")[0]] for key in keys], np.int32),
            sizes=np.array([entry.size for entry in entries], np.int64),
            versions=np.array([version_of(entry.etag) for entry in entries], np.int64),
        )
        made = ImageIndex(table, root=self.root, classes=classes, source=self.bytes_from)
        known = None
        if old is not None and old.table.heights is not None:
            known = Known(old.table, old.formats, _taken_over(made, old))
        table, formats = completed(table, made.paths, known, False, self.headers, progress=self.progress)
        if old is not None and tuple(classes) == old.classes and same_tables(table, old.table):
            return old
        return ImageIndex(
            table,
            root=self.root,
            classes=classes,
            formats=formats,
            origin=f"built: {reason}",
            source=self.bytes_from,
        )

    def _listed(self) -> tuple[list[Entry], list[str]]:
        """The images in torchvision's order, and the class folders."""
        found: list[Entry] = []
        classes: set[str] = set()
        with SlowBar("listing the store", self.progress) as bar:
            for entry in self._entries():
                bar.advance()
                name, slash, _ = entry.key.partition("/")
                if slash:
                    classes.add(name)
                    if entry.key.lower().endswith(self.extensions):
                        found.append(entry)
        found.sort(key=lambda entry: _order(entry.key))
        return found, sorted(classes)

    def _entries(self) -> Iterable[Entry]:
        return self.bytes_from.list()


def _order(key: str) -> tuple[str, str, str]:
    """By class, then folder as os.walk's paths sort, then name."""
    folder, _, name = key.rpartition("/")
    return key.partition("/")[0], folder, name


def _taken_over(index: ImageIndex, old: ImageIndex) -> Array:
    """Where in the old index each file is, if it has the same size and version, which is known; -1 for the others."""
    mine, theirs = index.table, old.table
    if theirs.versions is None or theirs.sizes is None or not len(old):
        return np.full(len(index), -1, np.int64)
    assert mine.versions is not None
    assert mine.sizes is not None
    places = {str(path): number for number, (path, _) in enumerate(_pairs(old))}
    found = np.array([places.get(path, -1) for path, _ in _pairs(index)], np.int64)
    same = (
        (found >= 0)
        & (mine.versions != 0)
        & (theirs.versions[found] == mine.versions)
        & (theirs.sizes[found] == mine.sizes)
    )
    return np.where(same, found, -1)


def _pairs(index: ImageIndex) -> Iterable[tuple[str, int]]:
    for paths, labels in index.blocks():
        yield from zip(paths, labels.tolist(), strict=True)
