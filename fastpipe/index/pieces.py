"""Parts of an index, folders or containers: listed now, or copied from an older index if unchanged."""

from __future__ import annotations

import os
import stat
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from fastpipe.index.table import Array, Table, joined, offsets_of, pack_paths, unpack_paths
from fastpipe.types import RemoteFile

State = tuple[int, int, int]
"""Size in bytes (of a folder: its inode), modification time and change time in ns; of a file in a store: size, version,
0."""

UNSETTLED = -1
"""A modification time that no file has, so that the state always counts as changed."""

NO_STATE: State = 0, UNSETTLED, 0
"""The state of a folder that is to be listed each time."""

SETTLED_NS = 3_000_000_000
"""The age in ns after which a further change is sure to change the times, whose resolution is up to 2 s (FAT)."""


def state_of(path: str) -> State:
    """The state of a file or folder now."""
    if isinstance(path, RemoteFile):
        return path.length, path.version, 0
    status = os.stat(path)
    first = status.st_ino & 0x7FFFFFFFFFFFFFFF if stat.S_ISDIR(status.st_mode) else status.st_size
    return first, status.st_mtime_ns, status.st_ctime_ns


def settled_state(path: str) -> State:
    """The state to keep of a file or folder before it is read; unsettled if it may change again unseen.

    It may if it changed just now, or if its system has no times (0).
    """
    now = time.time_ns()
    size, mtime, ctime = state_of(path)
    settled = isinstance(path, RemoteFile) or (mtime > 0 and max(mtime, ctime) <= now - SETTLED_NS)
    return size, mtime if settled else UNSETTLED, ctime


@dataclass(frozen=True, slots=True)
class Part:
    """A folder or a container, and its files in order."""

    path: str  # relative to the root, with ``/`` between the parts; ``""`` for the root itself
    state: State  # differs once the part has changed
    paths: bytes = b""  # the files' paths relative to the root, as `pack_paths` packs them
    # the files' known columns of a `Table` by name, among ``sizes``, ``versions``, ``starts``
    columns: Mapping[str, Array] = field(default_factory=dict)
    subfolders: Sequence[str] = ()  # names of the folders in this folder
    readable: bool = True  # False for a folder that can't be listed; as in torchvision, its files are missing
    # labels and classes: for a container, as in `fastpipe.index.containers.ContainerListing`
    labels: Sequence[str | None] = ()
    classes: Sequence[str] = ()

    def __len__(self) -> int:
        return self.paths.count(b"\0")


Parts: TypeAlias = dict[str, Part]
"""Parts by their paths."""


def listed_parts(table: Table) -> tuple[list[str], Array]:
    """The paths of a table's parts, and their states: int64 ``(m, 3)``."""
    assert table.part_paths is not None
    assert table.part_states is not None
    return unpack_paths(table.part_paths.tobytes(), "/"), table.part_states


def parts_of(table: Table, columns: Sequence[str], chosen: Iterable[int]) -> Parts:
    """The chosen parts of an older table, by number, with those of the named columns that the table has."""
    paths, states = listed_parts(table)
    assert table.part_starts is not None
    starts = table.part_starts.tolist()
    subfolders: defaultdict[str, list[str]] = defaultdict(list)
    for path in filter(None, paths):
        above, _, name = path.rpartition("/")
        subfolders[above].append(name)
    arrays = {name: array for name, array in table.arrays() if name in columns}
    parts: Parts = {}
    for number in chosen:
        (first, second, third), rows, path = states[number].tolist(), slice(*starts[number : number + 2]), paths[number]
        packed = table.paths[table.offsets[rows.start] : table.offsets[rows.stop]].tobytes()
        of_files = {name: array[rows] for name, array in arrays.items()}
        parts[path] = Part(path, (first, second, third), packed, of_files, subfolders.get(path, ()))
    return parts


def merge(parts: Sequence[Part], labels: Array) -> Table:
    """Concatenates one or more parts, all with the same columns, to a table; `labels` is int32 ``(n,)``."""
    paths = joined(part.paths for part in parts)
    columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns}
    return Table(
        paths,
        offsets_of(paths),
        labels,
        part_paths=joined([pack_paths([part.path for part in parts])]),
        part_starts=np.cumsum([0, *map(len, parts)], dtype=np.int64),
        part_states=np.array([part.state for part in parts], np.int64),
        **columns,
    )
