"""Reading "path and label" lists: text, CSV and Parquet files, and two sequences."""

from __future__ import annotations

import csv
import io
import operator
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import numpy as np

from fastpipe.data.parquet import opened_parquet
from fastpipe.data.table import (
    ENCODING,
    ERRORS,
    LARGEST,
    SMALLEST,
    Array,
    Table,
    joined,
    numbered,
    offsets_of,
    pack_paths,
    unpack_paths,
)
from fastpipe.errors import DatasetError
from fastpipe.paths import local
from fastpipe.sources import ByteSource
from fastpipe.types import Member, Stored

Column = str | int
Row = tuple[str, str, str | int]
"""Where it stands, for an error; the path; the label."""

_BLOCK = 1 << 16


def read_list(source: Any, columns: tuple[Column, Column]) -> tuple[Iterator[Row], bool]:
    """The rows of a source, and whether its labels are text that may stand for integers.

    Args:
        source: a path that ends in .csv, .tsv, .parquet, or anything else for "path label" lines; or two sequences.
        columns: the columns of path and label: names, or positions from 0 in a file without a line of names.

    Raises:
        DatasetError: the source is of another kind; rows raise it where they stand.
        OSError: the file can't be opened.
    """
    if isinstance(source, (str, os.PathLike)):
        path = local(source)
        ending = os.path.splitext(path)[1].lower()
        if ending == ".parquet":
            return _from_parquet(path, columns), False
        data = _content(path)
        if ending in (".csv", ".tsv"):
            return _from_csv(path, data, "\t" if ending == ".tsv" else ",", columns), True
        return _from_text(path, data), True
    if isinstance(source, Sequence) and len(source) == 2 and not isinstance(source, (str, bytes)):
        return _from_sequences(*source), False
    raise DatasetError(
        f"a list of images is a text, CSV or Parquet file, or (paths, labels); not {type(source).__name__}."
    )


def _content(path: str) -> str:
    with open(path, "rb") as file:
        data = file.read()
    try:
        return data.removeprefix(b"\xef\xbb\xbf").decode(ENCODING, ERRORS)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DatasetError(f"{path}, line {line}: it is not {ENCODING} text") from None


def _from_text(path: str, data: str) -> Iterator[Row]:
    for number, line in enumerate(io.StringIO(data), 1):
        parts = line.rsplit(None, 1)
        if not parts:
            continue
        where = f"{path}, line {number}"
        if len(parts) != 2 or not parts[0].strip():
            raise DatasetError(f"{where}: {line.strip()!r} is not a path, a space and a label")
        yield where, parts[0].strip(), parts[1]


def _from_csv(path: str, data: str, delimiter: str, columns: tuple[Column, Column]) -> Iterator[Row]:
    rows = csv.reader(io.StringIO(data, newline=""), delimiter=delimiter, strict=True)
    try:
        names = next(rows, []) if any(isinstance(column, str) for column in columns) else None
        first, second = (_position(column, names, path) for column in columns)
        for row in rows:
            if not row:
                continue
            where = f"{path}, line {rows.line_num}"
            if len(row) <= max(first, second):
                raise DatasetError(
                    f"{where}: it has {len(row)} columns, and column {max(first, second) + 1} is asked for"
                )
            if not row[first] or not row[second]:
                raise DatasetError(f"{where}: its path or label is empty")
            yield where, row[first], row[second]
    except csv.Error as error:
        raise DatasetError(f"{path}, line {rows.line_num}: {error}") from None


def _position(column: Column, names: list[str] | None, path: str) -> int:
    if isinstance(column, int):
        return column
    found = [name.strip() for name in names or ()]
    if column not in found:
        raise DatasetError(
            f"{path}, line 1: there is no column {column!r} among {', '.join(map(repr, found))}. Name the two with "
            "columns=(path, label); in a file without a line of names give positions, as columns=(0, 1)."
        )
    return found.index(column)


def _from_parquet(path: str, columns: tuple[Column, Column]) -> Iterator[Row]:
    with opened_parquet(path) as file:
        names = list(file.schema_arrow.names)
        for column in columns:
            if column not in names and not (isinstance(column, int) and 0 <= column < len(names)):
                raise DatasetError(
                    f"{path}: there is no column {column!r} among {', '.join(map(repr, names))}. "
                    "Name the two with columns=(path, label)."
                )
        chosen = [names[column] if isinstance(column, int) else column for column in columns]
        number = 0
        for batch in file.iter_batches(batch_size=_BLOCK, columns=chosen):
            paths, labels = (batch.column(batch.schema.get_field_index(name)).to_pylist() for name in chosen)
            for one, label in zip(paths, labels, strict=True):
                number += 1
                yield _checked(f"{path}, row {number}", one, label)


def _from_sequences(paths: Any, labels: Any) -> Iterator[Row]:
    if len(paths) != len(labels):
        raise DatasetError(f"there are {len(paths)} paths and {len(labels)} labels: give one label a path.")
    for number, (path, label) in enumerate(zip(paths, labels, strict=True)):
        yield _checked(f"item {number}", path, label)


def _checked(where: str, path: Any, label: Any) -> Row:
    if isinstance(path, (bytes, os.PathLike)) and not isinstance(path, str):
        path = os.fsdecode(path)
    if not isinstance(path, str) or not path:
        raise DatasetError(f"{where}: {path!r} is not a path")
    if isinstance(label, str):
        return where, path, str(label)
    try:
        return where, path, operator.index(label)
    except TypeError:
        raise DatasetError(f"{where}: the label {label!r} is neither an integer nor a string") from None


def table_of(rows: Iterable[Row], texts: bool, root: str) -> tuple[Table, list[str], list[int], str, ByteSource | None]:
    """The rows as ``(table, classes, class values, root, source)``; the root is ``""`` where a path is absolute.

    The source is that of `Stored` paths; None of others.

    Labels that are all integers stay what they are; others are classes, sorted and counted from 0.

    Args:
        rows: the rows.
        texts: whether labels came as text, so that ``"7"`` may be an integer.
        root: what relative paths start from.

    Raises:
        DatasetError: a row is bad, or integers and strings are mixed where types tell them apart.
    """
    packed: list[bytes] = []
    block: list[str] = []
    labels: list[str | int] = []
    members: list[Member] = []
    whole = False
    integers: bool | None = None
    for where, path, label in rows:
        if "\0" in path:
            raise DatasetError(f"{where}: the path {path!r} has a NUL in it")
        block.append(path)
        if isinstance(path, Member):
            members.append(path)
        whole = whole or os.path.isabs(path)
        if not texts and integers not in (None, isinstance(label, int)):
            raise DatasetError(f"{where}: the label {label!r} is of another type than those before it")
        integers = isinstance(label, int)
        if isinstance(label, int) and not SMALLEST <= label <= LARGEST:
            raise DatasetError(f"{where}: the label {label} is outside of {SMALLEST} … {LARGEST}")
        labels.append(label)
        if len(block) == _BLOCK:
            packed.append(_packed(block, where))
            block = []
    packed.append(_packed(block, "the list"))
    paths = joined(packed)
    if members and len(members) != len(labels):
        raise DatasetError(
            f"{len(members)} of the {len(labels)} images lie in containers: a list holds such, or files, not both."
        )
    source: ByteSource | None = None
    if members:
        source = _source_of(members)
        root = "" if source is None else source.name  # their names are whole, as are their containers'
        paths = paths if source is None else _below(paths, source)
    elif whole and root:
        # some stand on their own, so the root can't be put before all of them later
        joined_paths = (os.path.join(root, path) for path in paths.tobytes().decode(ENCODING, ERRORS).split("\0")[:-1])
        paths, root = joined([_packed(list(joined_paths), "the list")]), ""
    targets, classes, values = numbered(labels, texts)
    contained = _contained(members) if members else {}
    table = Table(paths, offsets_of(paths), targets, **contained)
    return table, classes, values, root, source


def _source_of(members: list[Member]) -> ByteSource | None:
    """What has the files in a store; None of members of local containers."""
    stored = [member for member in members if isinstance(member, Stored)]
    if not stored:
        return None
    first = stored[0]
    alike = {(member.source.identity, member.whole) for member in stored}
    if len(stored) < len(members) or len(alike) > 1:
        raise DatasetError(
            "a list holds files of one store, whole ones or parts of containers, or files of this machine: not both."
        )
    return cast(ByteSource, first.source)


def _below(paths: Array, source: ByteSource) -> Array:
    """URLs as what stands behind the source's name."""
    start = len(source.url("x")) - 1
    return joined([pack_paths([path[start:] for path in unpack_paths(paths.tobytes(), "/")])])


def _contained(members: list[Member]) -> dict[str, Array]:
    """The columns that say where files in containers are."""
    first = members[0]
    if isinstance(first, Stored) and first.whole:
        return {
            "sizes": np.array([member.length for member in members], np.int64),
            "versions": np.array([member.version for member in members if isinstance(member, Stored)], np.int64),
        }
    versions = {_container_of(member): getattr(member, "version", -1) for member in members}
    numbers = {path: number for number, path in enumerate(versions)}
    return {
        "containers": np.array([numbers[_container_of(member)] for member in members], np.int32),
        "starts": np.array([member.offset for member in members], np.int64),
        "sizes": np.array([member.length for member in members], np.int64),
        "container_paths": joined([_packed(list(numbers), "the list")]),
        # A list isn't looked at again: only versions matter, of containers in a store.
        "container_states": np.array([[-1, version, -1] for version in versions.values()], np.int64),
    }


def _container_of(member: Member) -> str:
    return member.key if isinstance(member, Stored) else member.container


def _packed(paths: list[str], where: str) -> bytes:
    try:
        return pack_paths([path.replace(os.sep, "/") for path in paths] if os.sep != "/" else paths)
    except UnicodeEncodeError as error:
        raise DatasetError(f"{where}, or one before it: a path can't be encoded as {ENCODING}: {error}") from None
