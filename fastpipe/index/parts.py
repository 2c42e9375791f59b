"""Parts of an index, folders or containers: listed now, or taken over from an older index where they haven't changed.

`merge` puts them one after the other, and remembers for each file its row in the older index, so that what was known
of it (sizes) goes over, too.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from typing_extensions import Self

from fastpipe.index.file_states import State
from fastpipe.index.indexed_files import IndexedFiles
from fastpipe.index.table import Array, joined, offsets_of, unpack_paths


@dataclass(frozen=True, slots=True)
class Part:
    """A folder or a container, and its files in their order.

    Attributes:
        path: relative to the root, with ``/`` between the parts; ``""`` for the root itself.
        state: differs once the part has changed.
        paths: of the files, from the root on, as `pack_paths` packs them.
        columns: arrays of a `Table` that the listing itself gives, by name: of ``sizes``, ``versions``, ``starts``.
        old_rows: int64 ``(n,)``: each file's row in the older index, -1 for those that are new; None if all are.
        subfolders: names of the folders in a folder.
        readable: False for a folder that can't be listed; as in torchvision, its files are missing.
        labels, classes, unpacked: of a container, as of `fastpipe.index.containers.ContainerListing`.
    """

    path: str
    state: State
    paths: bytes = b""
    columns: dict[str, Array] = field(default_factory=dict)
    old_rows: Array | None = None
    subfolders: Sequence[str] = ()
    readable: bool = True
    labels: Sequence[str] = ()
    classes: Sequence[str] = ()
    unpacked: str | None = None


class KnownParts:
    """Parts of an older index, to be taken over where they haven't changed.

    Args:
        index: the older one; it has parts.
        columns: the arrays that the parts' files have.
    """

    def __init__(self, index: IndexedFiles, columns: Iterable[str] = ()) -> None:
        self.index, self._columns = index, tuple(columns)
        table = index.table
        assert table.part_paths is not None
        assert table.part_starts is not None
        assert table.part_states is not None
        self._starts, self.states = table.part_starts, table.part_states
        # After the containers that were listed come those that some were unpacked to.
        paths = unpack_paths(table.part_paths.tobytes(), "/")[: len(self._starts) - 1]
        self.numbers = {path: number for number, path in enumerate(paths)}
        self._subfolders: defaultdict[str, list[str]] = defaultdict(list)
        for path in paths if table.containers is None else ():
            above, _, name = path.rpartition("/")
            if path:
                self._subfolders[above].append(name)

    def __contains__(self, path: str) -> bool:
        return path in self.numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def without(self, changed: Container[str]) -> Self:
        """A copy of these parts without those at some paths."""
        other = copy.copy(self)
        other.numbers = {path: number for path, number in self.numbers.items() if path not in changed}
        return other

    def state(self, path: str) -> State:
        first, second, third = self.states[self.numbers[path]].tolist()
        return first, second, third

    def rows(self, path: str) -> slice:
        """The rows of a part's files."""
        number = self.numbers[path]
        return slice(*self._starts[number : number + 2].tolist())

    def part(self, path: str) -> Part:
        """A part as it was: its labels are those of its rows."""
        table, rows = self.index.table, self.rows(path)
        paths = table.paths[table.offsets[rows.start] : table.offsets[rows.stop]].tobytes()
        columns = {name: getattr(table, name)[rows] for name in self._columns}
        old_rows = np.arange(rows.start, rows.stop)
        return Part(path, self.state(path), paths, columns, old_rows, self._subfolders.get(path, ()))


def with_old_rows(part: Part, known: Part) -> Part:
    """A part that was listed again, with the old rows of the files whose path and columns are still the same."""
    assert known.old_rows is not None
    rows = {path: row for row, path in enumerate(known.paths.split(b"\0")[:-1])}
    found = np.array([rows.get(path, -1) for path in part.paths.split(b"\0")[:-1]], np.int64)
    same = np.flatnonzero(found >= 0)
    for name, values in part.columns.items():
        same = same[known.columns[name][found[same]] == values[same]]
    old_rows = np.full(len(found), -1, np.int64)
    old_rows[same] = known.old_rows[found[same]]
    return replace(part, old_rows=old_rows)


class Merged(NamedTuple):
    """The files of all parts, one after the other.

    Attributes:
        arrays: of a `Table`, by name: ``paths``, ``offsets``, and the parts' columns.
        starts: int64 ``(m + 1,)``; the first row of each part, and the end of the last.
        old_rows: int64 ``(n,)``, as of `Part`.
    """

    arrays: dict[str, Array]
    starts: Array
    old_rows: Array


def merge(parts: Sequence[Part]) -> Merged:
    """Puts parts one after the other; all have the same columns."""
    paths = joined(part.paths for part in parts)
    columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns}
    starts = np.cumsum([0, *(part.paths.count(b"\0") for part in parts)], dtype=np.int64)
    old_rows = np.full(starts[-1], -1, np.int64)
    for part, start, end in zip(parts, starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        if part.old_rows is not None:
            old_rows[start:end] = part.old_rows
    return Merged({"paths": paths, "offsets": offsets_of(paths), **columns}, starts, old_rows)
