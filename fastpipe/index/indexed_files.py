"""`IndexedFiles`: files and their labels in arrays, and what makes paths of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import Self

from fastpipe.index import format
from fastpipe.index.table import ENCODING, ERRORS, Array, Table, same_tables, unpack_paths
from fastpipe.sources import ByteSource
from fastpipe.types import ArchiveMember, RemoteFile

_FEW = 4  # files, of which numpy costs more than it saves


class IndexedFiles:
    """n image files and their labels in arrays, without a Python object a file: an `ImageIndex`, however it was made.

    Listings make these, and `fastpipe.index.cache` keeps them; `ImageIndex` has the doors for users.

    Its attributes are those of `ImageIndex`, and:

    Attributes:
        rooted: False where the paths are whole by themselves, though the source has a root.
        identity: of the `IndexSource` that it was kept of; empty otherwise.
    """

    def __init__(
        self,
        table: Table,
        *,
        root: str,
        classes: Sequence[str],
        class_values: Sequence[int] | None = None,
        rooted: bool = True,
        location: Path | None = None,
        generation: str = "",
        origin: str = "built in memory",
        identity: dict[str, Any] | None = None,
        source: ByteSource | None = None,
    ) -> None:
        self.table = table
        self.root = root = root if rooted else ""
        self.rooted = rooted
        self.source = source
        self._separator = os.sep if source is None else "/"
        if source is None:
            self.prefix = os.path.join(root, "") if root else ""
        else:
            self.prefix = root.rstrip("/") + "/"
        self.classes = tuple(classes)
        self.class_values = tuple(range(len(self.classes))) if class_values is None else tuple(class_values)
        self.location = location
        self.generation = generation
        self.origin = origin
        self.identity = identity or {}
        self._bytes = table.paths.data
        self._offsets = table.offsets.data  # items of a memoryview are plain integers
        # Of files in containers: which one, where, how many bytes.
        self._places = None
        if table.containers is not None and table.starts is not None and table.sizes is not None:
            self._places = (table.containers, table.starts, table.sizes)
        self._containers: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.table)

    def path(self, number: int) -> str:
        """The path of a file, from 0 to n - 1: the root as given, then the relative path.

        Of a file in a container it is a `fastpipe.types.ArchiveMember`, which knows where its bytes are.
        """
        start, stop = self._offsets[number], self._offsets[number + 1]
        name = str(self._bytes[start : stop - 1], ENCODING, ERRORS)
        if self._separator != "/":
            name = name.replace("/", self._separator)
        if self.source is None and self._places is None:
            return self.prefix + name
        return self._placed([name], slice(number, number + 1))[0]

    def blocks(self) -> Iterator[tuple[list[str], Array]]:
        """Yields all files in blocks of ``(paths, labels)``, paths as `path` gives them: few objects alive at once."""
        done = 0
        for names, labels in self.table.blocks(self._separator):
            yield self._placed(names, slice(done, done + len(names))), labels
            done += len(names)

    def paths(self, picks: Array) -> list[str]:
        """The paths of many files, as `path` gives them: int64 positions from 0 to n - 1."""
        return self._placed(unpack_paths(self.table.packed(picks), self._separator), picks)

    def samples_at(self, indices: Sequence[int]) -> Iterable[tuple[str, int]]:
        """The paths and labels of files at positions from 0 to n - 1."""
        labels = self.table.targets
        if len(indices) < _FEW:
            return [(self.path(one), labels.item(one)) for one in indices]
        picks = np.array(indices)
        return zip(self.paths(picks), labels[picks].tolist(), strict=True)

    def _placed(self, names: list[str], picks: Any) -> list[str]:
        if self.source is not None:
            return self._remote(names, picks)
        prefix = self.prefix
        paths = [prefix + name for name in names]
        if self._places is None:
            return paths
        containers = self.containers
        places = (array[picks].tolist() for array in self._places)
        return [ArchiveMember(path, containers[at], *place) for path, at, *place in zip(paths, *places, strict=True)]

    def _remote(self, names: list[str], picks: Any) -> list[str]:
        """Paths of files in a store, which know how they are read."""
        table, source, prefix = self.table, self.source, self.prefix
        assert source is not None
        count = len(names)
        sizes = [-1] * count if table.sizes is None else table.sizes[picks].tolist()
        if self._places is None:
            versions = [0] * count if table.versions is None else table.versions[picks].tolist()
            files = zip(names, sizes, versions, strict=True)
            return [RemoteFile(prefix + name, source, name, 0, size, version) for name, size, version in files]
        assert table.part_states is not None
        containers, starts, _ = (array[picks] for array in self._places)
        versions = table.part_states[containers, 1].tolist()
        keys = [self.containers[at] for at in containers.tolist()]
        parts = zip(names, keys, starts.tolist(), sizes, versions, strict=True)
        return [
            RemoteFile(prefix + name, source, key, start, size, version, False)
            for name, key, start, size, version in parts
        ]

    @property
    def containers(self) -> tuple[str, ...]:
        """The paths of the containers that hold the files, of those in a store their keys; none where files lie by
        themselves."""
        if self._containers is None:
            packed = None if self._places is None else self.table.part_paths
            names = () if packed is None else unpack_paths(packed.tobytes(), self._separator)
            if self.source is None:
                names = [os.path.normpath(os.path.join(self.root, name)) for name in names]
            self._containers = tuple(names)
        return self._containers

    @property
    def labels(self) -> Array:
        """int32 ``(n,)``, read-only where it is mapped; float64 of a list whose labels are floats."""
        return self.table.targets

    @property
    def sizes(self) -> Array | None:
        """int64 ``(n,)`` bytes, -1 where a file can't be reached; None where they weren't asked for."""
        return self.table.sizes

    def counts(self) -> Array:
        """The number of files in each class: int64 ``(classes,)``."""
        folders, starts = self.table.folders, self.table.part_starts
        if folders is not None and starts is not None:  # a look at the folders, not at every file
            in_class = dict.fromkeys(self.classes, 0)
            for path, count in zip(folders, np.diff(starts).tolist(), strict=True):
                if path:
                    in_class[path.partition("/")[0]] += count
            return np.array([*in_class.values()], np.int64)
        values, counts = np.unique(self.labels, return_counts=True)
        found = dict(zip(values.tolist(), counts.tolist(), strict=True))
        return np.array([found.get(value, 0) for value in self.class_values], np.int64)

    def read_through(self, source: ByteSource) -> Self:
        """The same index, whose files come from another source of the same name, as one with a cache is."""
        return self if source is self.source else self._copy(source=source)

    def with_sizes(self, sizes: Array) -> Self:
        """The same files with their sizes; in memory."""
        return self._copy(table=replace(self.table, sizes=sizes))

    def _copy(self, **changes: Any) -> Self:
        other = type(self).__new__(type(self))  # copy.copy would open it again
        other.__dict__ = self.__dict__ | changes
        return other

    def equals(self, other: IndexedFiles) -> bool:
        """Whether both have the same classes and the same arrays."""
        return self.classes == other.classes and same_tables(self.table, other.table)

    def damaged_arrays(self) -> tuple[str, ...]:
        """The names of the arrays whose content is no longer what was written; reads all of them."""
        if self.location is None:
            return ()
        try:
            return format.damaged_arrays(self.location, self.generation, self.table)
        except format.UnusableIndex as error:
            return (str(error),)

    def header(self) -> dict[str, Any]:
        """The header of the index on disk, beside its arrays, as JSON has it."""
        lists = {name: list(getattr(self, name)) for name in ("classes", "class_values")}
        return {**lists, "rooted": self.rooted}

    def __repr__(self) -> str:
        where = "in memory" if self.location is None else f"at {self.location}"
        return f"ImageIndex({len(self)} files in {len(self.classes)} classes, root={self.root!r}, {where})"


def open_index(
    location: Path, root: str, origin: str, generation: str | None = None, source: ByteSource | None = None
) -> IndexedFiles:
    """Opens the index at a location, its current generation or a given one; raises UnusableIndex."""
    name = generation or format.last_generation(location)
    header, table = format.read_table(location, name)
    try:
        about: dict[str, Any] = {key: header[key] for key in ("classes", "class_values", "rooted")}
    except KeyError as error:
        raise format.UnusableIndex(f"its header has no {error}") from None
    about |= {"location": location, "generation": name, "identity": header.get("identity")}
    return IndexedFiles(table, root=root, origin=origin, source=source, **about)
