"""Merging a listing with an older index: part by part, a part being a folder or a container.

A scan or a listing gives a `Part` for each of them: of what changed as it was listed now, of what didn't change the
rows that the older index has of it. `merge` puts them one behind the other, and remembers for each file its row in the
older index, so that what was known of it (sizes, headers) goes over, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from fastpipe.index.table import Array, Table, joined, offsets_of


class Part(NamedTuple):
    """The files of a folder or a container, in their order.

    Attributes:
        paths: as `pack_paths` packs them.
        columns: arrays of a `Table` that the listing itself gives, by name: of ``sizes``, ``versions``, ``starts``.
        old_rows: int64 ``(n,)``: each file's row in the older index; -1 for those that are new.
    """

    paths: bytes
    columns: dict[str, Array]
    old_rows: Array


def new_part(paths: bytes, **columns: Sequence[int]) -> Part:
    """The files of a folder or a container that was listed now."""
    arrays = {name: np.array(values, np.int64) for name, values in columns.items()}
    return Part(paths, arrays, np.full(paths.count(b"\0"), -1, np.int64))


def old_part(table: Table, start: int, stop: int, columns: Iterable[str] = ()) -> Part:
    """The rows of a folder or a container that hasn't changed, from the older index."""
    paths = table.paths[table.offsets[start] : table.offsets[stop]].tobytes()
    return Part(paths, {name: getattr(table, name)[start:stop] for name in columns}, np.arange(start, stop))


def with_old_rows(part: Part, known: Part) -> Part:
    """A part that was listed again, with the old rows of the files whose path and columns are still the same."""
    rows = {path: row for row, path in enumerate(known.paths.split(b"\0")[:-1])}
    found = np.array([rows.get(path, -1) for path in part.paths.split(b"\0")[:-1]], np.int64)
    same = np.flatnonzero(found >= 0)
    for name, values in part.columns.items():
        same = same[known.columns[name][found[same]] == values[same]]
    old_rows = np.full(len(found), -1, np.int64)
    old_rows[same] = known.old_rows[found[same]]
    return part._replace(old_rows=old_rows)


class Merged(NamedTuple):
    """The files of all parts, one behind the other.

    Attributes:
        paths, offsets: as in `Table`.
        columns: by name.
        starts: int64 ``(m + 1,)``; the first row of each part, and the end of the last.
        old_rows: int64 ``(n,)``, as in `Part`.
    """

    paths: Array
    offsets: Array
    columns: dict[str, Array]
    starts: Array
    old_rows: Array


def merge(parts: Sequence[Part]) -> Merged:
    """Puts parts one behind the other; all have the same columns."""
    paths = joined(part.paths for part in parts)
    counts = [len(part.old_rows) for part in parts]
    names = parts[0].columns if parts else ()
    return Merged(
        paths,
        offsets_of(paths),
        {name: np.concatenate([part.columns[name] for part in parts]) for name in names},
        np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)]),
        np.concatenate([np.zeros(0, np.int64), *(part.old_rows for part in parts)]),
    )
