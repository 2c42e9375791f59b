"""List files whose parsed index is kept as long as the file's size and times don't change."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from fastpipe.counts import pluralize
from fastpipe.errors import DatasetError
from fastpipe.index.image_index import ImageIndex
from fastpipe.index.index_source import IndexSource
from fastpipe.index.pieces import UNSETTLED, Parts, listed_parts, settled_state, state_of
from fastpipe.index.read_list import Column, pack_list_paths, read_list, table_of
from fastpipe.index.table import Array, Listing, joined
from fastpipe.paths import absolute_path
from fastpipe.sources import ByteSource
from fastpipe.types import ArchiveMember, RemoteFile

_SMALL = 1 << 16  # a list file of fewer bytes is parsed each time
_MS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class ListSource(IndexSource):
    """A text, CSV or Parquet file of paths and labels."""

    path: str  # the list file
    columns: tuple[Column, Column] = ("path", "label")  # the columns of path and label, as in `ImageList`

    kind = "lists"

    @property
    def identity(self) -> dict[str, object]:
        own = {"kind": "list", "list": absolute_path(self.path), "columns": list(self.columns)}
        return {"root": self.root, "extensions": [], **own, "store": self.bytes_from is not None}

    def index(self) -> ImageIndex:
        """The list's index: kept in the cache folder, unless the list is small."""
        small = os.stat(self.path).st_size <= _SMALL
        return ImageIndex.load_or_build(self, None if small else "auto")

    def find_unchanged(self, kept: Listing, confirmed_ns: int) -> tuple[Parts, str]:
        same = tuple(listed_parts(kept.table)[1][0].tolist()) == state_of(self.path)
        return {}, "" if same else f"{self.path} may have changed"

    def list_files(self, known: Parts) -> Listing:
        size, modified, changed = settled_state(self.path)  # first, to notice a change during parsing
        listing = table_of(*read_list(self.path, self.columns), "" if self.bytes_from else self.root)
        if modified == UNSETTLED and changed % _MS:  # the clock is finer than the time that parsing takes
            after = settled_state(self.path)
            modified = after[1] if (after[0], after[2]) == (size, changed) else UNSETTLED
        table = replace(
            listing.table,
            part_paths=joined([pack_list_paths([os.path.basename(self.path)])]),
            part_starts=np.array([0, len(listing.table)], np.int64),
            part_states=np.array([[size, modified, changed]], np.int64),
        )
        return replace(listing, table=table)


def index_of_rows(rows: Any, root: str = "", source: ByteSource | None = None) -> ImageIndex:
    """Makes the index of two sequences, paths and labels.

    Paths are relative to the root, keys of the source, absolute, or `RemoteFile`.
    """
    blocks, texts = read_list(rows, ("path", "label"))
    paths, labels = rows
    places: dict[str, Array] = {}
    kinds = set(map(type, paths))
    if any(issubclass(kind, ArchiveMember) for kind in kinds):
        members = [path for path in paths if isinstance(path, ArchiveMember)]
        if len(members) != len(paths):
            raise DatasetError(
                f"{len(members)} of {pluralize(len(paths), 'image')} lie in containers: a list has such "
                "images or files, not both."
            )
        places, root = _places_of(members), ""  # paths and containers' paths are absolute
        if (store := _source_of(members)) is not None:
            source = store
            start = len(store.url("x")) - 1
            blocks, texts = read_list(([path[start:] for path in members], labels), ("path", "label"))
    listing = table_of(blocks, texts, "" if source is not None else root)
    listing = replace(listing, table=replace(listing.table, **places))
    return ImageIndex.from_listing(listing, root if source is None else source.name, source)


def _source_of(members: list[ArchiveMember]) -> ByteSource | None:
    """The common source of members in a store; None for members of local containers."""
    stored = [member for member in members if isinstance(member, RemoteFile)]
    if not stored:
        return None
    alike = {(member.source.identity, member.whole) for member in stored}
    if len(stored) < len(members) or len(alike) > 1:
        raise DatasetError(
            "a list holds files of one store, whole ones or parts of containers, or files of this machine: not both."
        )
    return cast(ByteSource, stored[0].source)


def _places_of(members: list[ArchiveMember]) -> dict[str, Array]:
    """The columns of a `Table` with the places of files in containers or in a store."""
    sizes = np.array([member.length for member in members], np.int64)
    if isinstance(members[0], RemoteFile) and members[0].whole:
        return {"sizes": sizes, "versions": np.array([getattr(member, "version", 0) for member in members], np.int64)}
    containers = [member.key if isinstance(member, RemoteFile) else member.container for member in members]
    versions = {path: getattr(member, "version", -1) for path, member in zip(containers, members, strict=True)}
    numbers = {path: number for number, path in enumerate(versions)}
    return {
        "containers": np.array([numbers[path] for path in containers], np.int32),
        "starts": np.array([member.offset for member in members], np.int64),
        "sizes": sizes,
        "part_paths": joined([pack_list_paths(list(numbers))]),
        # Sequences aren't compared with the disk later, so only the versions of containers in a store matter.
        "part_states": np.array([[-1, version, -1] for version in versions.values()], np.int64),
    }
