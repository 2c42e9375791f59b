"""Parts of an index, folders or containers: listed now, or taken over from an older index where they haven't changed.

`merge` puts them one behind the other, and remembers for each file its row in the older index, so that what was known
of it (sizes, headers) goes over, too.
"""

from __future__ import annotations

import copy
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from typing_extensions import Self

from fastpipe.index.file_states import State
from fastpipe.index.indexed_files import IndexedFiles
from fastpipe.index.table import Array, joined, offsets_of, unpack_paths


class PartFiles(NamedTuple):
    """The files of a part, in their order.

    Attributes:
        paths: from the root on, as `pack_paths` packs them.
        columns: arrays of a `Table` that the listing itself gives, by name: of ``sizes``, ``versions``, ``starts``.
        old_rows: int64 ``(n,)``: each file's row in the older index; -1 for those that are new.
    """

    paths: bytes
    columns: dict[str, Array]
    old_rows: Array


@dataclass(frozen=True, slots=True)
class Part:
    """A folder or a container.

    Attributes:
        path: relative to the root, with ``/`` between the parts; ``""`` for the root itself.
        state: differs once the part has changed.
        files: of the part.
    """

    path: str
    state: State
    files: PartFiles


def new_files(paths: bytes, **columns: Sequence[int]) -> PartFiles:
    """The files of a part that was listed now."""
    arrays = {name: np.array(values, np.int64) for name, values in columns.items()}
    return PartFiles(paths, arrays, np.full(paths.count(b"\0"), -1, np.int64))


class KnownParts:
    """Parts of an older index, to be taken over where they haven't changed.

    Args:
        index: the older one; it has such parts.
        kind: of the parts.
        columns: the arrays that the parts' files have.
    """

    def __init__(self, index: IndexedFiles, kind: Literal["folder", "container"], columns: Iterable[str] = ()) -> None:
        self.index, self._columns = index, tuple(columns)
        packed, self._starts, self.states = (
            getattr(index.table, f"{kind}_{name}") for name in ("paths", "starts", "states")
        )
        # Behind the containers that were listed are those that some were unpacked to.
        paths = unpack_paths(packed.tobytes(), "/")[: len(self._starts) - 1]
        self.numbers = {path: number for number, path in enumerate(paths)}

    def __contains__(self, path: str) -> bool:
        return path in self.numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def without(self, changed: Container[str]) -> Self:
        """These parts but for some, by their paths."""
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

    def files(self, path: str) -> PartFiles:
        table, rows = self.index.table, self.rows(path)
        paths = table.paths[table.offsets[rows.start] : table.offsets[rows.stop]].tobytes()
        columns = {name: getattr(table, name)[rows] for name in self._columns}
        return PartFiles(paths, columns, np.arange(rows.start, rows.stop))


def with_old_rows(files: PartFiles, known: PartFiles) -> PartFiles:
    """Files that were listed again, with the old rows of those whose path and columns are still the same."""
    rows = {path: row for row, path in enumerate(known.paths.split(b"\0")[:-1])}
    found = np.array([rows.get(path, -1) for path in files.paths.split(b"\0")[:-1]], np.int64)
    same = np.flatnonzero(found >= 0)
    for name, values in files.columns.items():
        same = same[known.columns[name][found[same]] == values[same]]
    old_rows = np.full(len(found), -1, np.int64)
    old_rows[same] = known.old_rows[found[same]]
    return files._replace(old_rows=old_rows)


class Merged(NamedTuple):
    """The files of all parts, one behind the other.

    Attributes:
        arrays: of a `Table`, by name: ``paths``, ``offsets``, and the parts' columns.
        starts: int64 ``(m + 1,)``; the first row of each part, and the end of the last.
        old_rows: int64 ``(n,)``, as in `PartFiles`.
    """

    arrays: dict[str, Array]
    starts: Array
    old_rows: Array


def merge(parts: Sequence[Part]) -> Merged:
    """Puts parts one behind the other; all have the same columns."""
    files = [part.files for part in parts]
    paths = joined(one.paths for one in files)
    columns = {name: np.concatenate([one.columns[name] for one in files]) for name in files[0].columns}
    return Merged(
        {"paths": paths, "offsets": offsets_of(paths), **columns},
        np.cumsum([0, *(len(one.old_rows) for one in files)], dtype=np.int64),
        np.concatenate([one.old_rows for one in files]),
    )
