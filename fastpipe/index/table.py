"""The arrays behind an index: a list of files without a Python object for each file.

Paths are kept as the operating system's bytes (`os.fsencode`), relative to the root, with ``/`` between the parts on
every system and a NUL after each path. So one ``split`` turns a block of them into Python strings, and names that are
no valid UTF-8 are kept.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastpipe.errors import DatasetError

Array = NDArray[Any]

ENCODING, ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()

NO_CLASS = -(2**31)
"""The label of a sample that has none, and so can't be read."""

_BLOCK = 1 << 16
_SCANNED = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Table:
    """n files, m parts; the arrays are read-only by convention, in memory or mapped from disk."""

    paths: Array  # uint8; relative path bytes, a NUL after each
    offsets: Array  # int64 ``(n + 1,)``; where each path starts
    labels: Array  # int32 ``(n,)``
    # float64 ``(n,)``; float targets, in which case all labels are 0; None for integer targets.
    values: Array | None = None
    # relative paths of the listed parts, packed like `paths`: the folders, first the root ``""``; or the containers, or
    # the files they were unpacked to; or the list file. None if there are no parts, as `part_starts` and `part_states`.
    part_paths: Array | None = None
    # int64 ``(m + 1,)``; the first file of each part, whose files are contiguous. None if files were picked.
    part_starts: Array | None = None
    # int64 ``(m, 3)``; three numbers that change with a part (see `fastpipe.index.pieces.State`). A time of -1 never
    # equals a real one: such a part is listed again whenever the index is opened.
    part_states: Array | None = None
    sizes: Array | None = None  # int64 ``(n,)`` bytes; -1 where the file can't be reached. None where not asked for.
    # int64 ``(n,)``; for files in a store, a number that changes with the file; 0 if the store has none (see
    # `fastpipe.types.RemoteFile`)
    versions: Array | None = None
    # int32 ``(n,)``; the container that holds each file, as a position in `part_paths`. None, as `starts`, for separate
    # files. With containers, `sizes` is not None.
    containers: Array | None = None
    starts: Array | None = None  # int64 ``(n,)``; the offset of the file's bytes in its container

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def targets(self) -> Array:
        """The float values, or, if there are none, the integer labels."""
        return self.labels if self.values is None else self.values

    @property
    def folders(self) -> list[str] | None:
        """The folders' relative paths, with ``/``, first the root ``""``; None if no folders were listed."""
        if self.part_paths is None or self.containers is not None or self.part_paths[0] != 0:
            return None
        return unpack_paths(self.part_paths.tobytes(), "/")

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Yields name and array of each column that isn't None."""
        for one in fields(self):
            if (array := getattr(self, one.name)) is not None:
                yield one.name, array

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for _, array in self.arrays())

    def take(self, picks: Array) -> Table:
        """Makes a table of the files at some positions, in this order, without the folders.

        Args:
            picks: int64 ``(k,)``, each from 0 to n - 1; may repeat.
        """
        # In blocks: a Python object for each path would take several times the memory.
        paths = joined(self.packed(picks[start : start + _BLOCK]) for start in range(0, len(picks), _BLOCK))
        of_containers = ("part_paths", "part_states")
        chosen: dict[str, Array] = {}
        for name, array in self.arrays():
            if self.containers is not None and name in of_containers:
                chosen[name] = array
            elif name not in ("paths", "offsets") and not name.startswith("part_"):
                chosen[name] = array[picks]
        return Table(paths, offsets_of(paths), **chosen)

    def packed(self, picks: Array) -> bytes:
        """The paths of the files at these positions, as `pack_paths` packs them."""
        data = self.paths.data
        places = zip(self.offsets[picks].tolist(), self.offsets[picks + 1].tolist(), strict=True)
        return b"".join([data[start:stop] for start, stop in places])

    def blocks(self, separator: str = os.sep) -> Iterator[tuple[list[str], Array]]:
        """Yields all files in blocks of ``(relative paths, labels)``, so that few Python objects exist at once."""
        for start in range(0, len(self), _BLOCK):
            stop = min(start + _BLOCK, len(self))
            data = self.paths[self.offsets[start] : self.offsets[stop]].tobytes()
            yield unpack_paths(data, separator), self.targets[start:stop]


@dataclass(frozen=True, slots=True)
class Listing:
    """The files that an index lists, and their classes."""

    table: Table  # paths, labels, and other columns that the listing gives
    classes: Sequence[str]  # class names
    class_values: Sequence[int]  # the label of each class
    rooted: bool = True  # whether paths are relative to the listed root; else they are absolute

    def header(self) -> dict[str, object]:
        """The classes, and whether paths are rooted, for the JSON header on disk."""
        return {"classes": [*self.classes], "class_values": [*self.class_values], "rooted": self.rooted}

    def equals(self, other: Listing) -> bool:
        """True if both have the same classes and the same arrays."""
        return self.header() == other.header() and same_tables(self.table, other.table)


def pack_paths(paths: Sequence[str]) -> bytes:
    """Packs paths (with ``/`` between the parts, without NUL) into bytes, with a NUL after each."""
    return "\0".join([*paths, ""]).encode(ENCODING, ERRORS)


def offsets_of(packed: Array) -> Array:
    """The offset of each packed path, and the end of the last; int64 ``(n + 1,)``."""
    pieces = range(0, len(packed), _SCANNED)  # in pieces, as one comparison would take as much memory as the paths
    starts = [np.flatnonzero(packed[at : at + _SCANNED] == 0) + (at + 1) for at in pieces]
    return np.concatenate([np.zeros(1, np.int64), *starts])


def unpack_paths(packed: bytes, separator: str = os.sep) -> list[str]:
    """Unpacks paths to strings, with this system's separator or another."""
    text = packed.decode(ENCODING, ERRORS)
    return (text if separator == "/" else text.replace("/", separator)).split("\0")[:-1]


def joined(parts: Iterable[bytes]) -> Array:
    """Concatenates byte strings, also from an iterator, to one uint8 array."""
    whole = bytearray()
    for part in parts:
        whole += part
    return np.frombuffer(whole, np.uint8)


def same_tables(one: Table, other: Table) -> bool:
    """True if two tables have the same arrays."""
    mine, theirs = dict(one.arrays()), dict(other.arrays())
    return mine.keys() == theirs.keys() and all(np.array_equal(mine[name], theirs[name]) for name in mine)


SMALLEST, LARGEST = -(2**31), 2**31 - 1
"""The smallest and largest integer label that can be a target."""


_INTEGER, _FLOAT, _ODD, _NAME = "an integer", "a float", "nan or inf", "a name"


def kind_of_label(text: str) -> str:
    """The kind of a label that is a text: see `are_floats`."""
    try:
        int(text)
    except ValueError:
        pass
    else:
        return _INTEGER if SMALLEST <= int(text) <= LARGEST else _NAME
    try:
        value = float(text)
    except ValueError:
        return _NAME
    return _FLOAT if math.isfinite(value) else _ODD


def are_floats(kinds: Mapping[str, str], instead: str) -> bool:
    """True if labels that are texts are floats; False for integers and names.

    Args:
        kinds: the first label of each kind that there is, with its place, for the error.
        instead: the way to have names that look like numbers, for the error.

    Raises:
        DatasetError: some are numbers and others aren't, or some integers and others floats.
    """
    for kind in (_INTEGER, _FLOAT):
        others = [other for other in kinds if other != kind and (kind, other) != (_FLOAT, _ODD)]
        if kind in kinds and others:
            raise DatasetError(
                f"the labels are mixed: {kinds[kind]} is {kind}, {kinds[others[0]]} is {others[0]}. Labels are all "
                f"integers, all floats, or all names; {instead}."
            )
    return _FLOAT in kinds


def number_labels(
    labels: Sequence[str | float], texts: bool, others: Iterable[str] = ()
) -> tuple[Array, list[str], list[int]]:
    """Returns labels as int32 numbers, the class names, and each class's number; `others` are classes without a label.

    If all labels are integers (with `texts`, also texts such as ``"7"``), they are kept; otherwise they are class
    names, numbered from 0 in sorted order.
    """
    numbers = {name: _integer(name) if texts or isinstance(name, int) else None for name in {*labels, *others}}
    found = {name: number for name, number in numbers.items() if number is not None}
    if len(found) == len(numbers):
        values = sorted({*found.values()})
        return np.array([found[label] for label in labels], np.int32), [*map(str, values)], values
    classes = sorted(map(str, numbers))
    positions = {name: position for position, name in enumerate(classes)}
    return np.array([positions[str(label)] for label in labels], np.int32), classes, [*range(len(classes))]


def _integer(label: str | float) -> int | None:
    try:
        value = int(label)
    except ValueError:
        return None
    return value if SMALLEST <= value <= LARGEST else None
