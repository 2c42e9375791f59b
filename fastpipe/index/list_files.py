"""Reading "path and label" lists: text, CSV and Parquet files, and two sequences."""

from __future__ import annotations

import csv
import io
import itertools
import operator
import os
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, SupportsIndex, cast

import numpy as np

from fastpipe.errors import DatasetError
from fastpipe.index.parquet import open_parquet
from fastpipe.index.table import (
    ENCODING,
    ERRORS,
    LARGEST,
    SMALLEST,
    Listing,
    Table,
    joined,
    number_labels,
    offsets_of,
    pack_paths,
)
from fastpipe.paths import local_path

Column = str | int

_ROWS = 1 << 16
_PIECE = 1 << 22  # bytes of a text that are split at once


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows of a list, so that one of millions isn't held as Python objects."""

    source: str  # what a row's number counts, for errors: ``"photos.txt, line"``
    numbers: Sequence[int]  # the number of each row
    paths: list[str]  # the path of each
    labels: list[str | float]  # the label of each: texts, integers or floats

    def where(self, place: int) -> str:
        """The name of a row in errors."""
        return f"{self.source} {self.numbers[place]}"


Row = tuple[int, str, str | float]
"""A row of a list: its number, the path, the label."""


def read_list(source: object, columns: tuple[Column, Column]) -> tuple[Iterator[Block], bool]:
    """The rows of a source, and whether its labels are text that may stand for integers.

    The source is a path that ends in .csv, .tsv, .parquet, or anything else for "path label" lines; or two sequences.
    Columns are names, or positions from 0 in a file without a line of names.

    Raises:
        DatasetError: the source is of another kind; blocks raise it where rows are bad.
        OSError: the file can't be opened.
    """
    if isinstance(source, (str, os.PathLike)):
        path = local_path(source)
        ending = os.path.splitext(path)[1].lower()
        if ending == ".parquet":
            return _from_parquet(path, columns), False
        if ending in (".csv", ".tsv"):
            rows = _from_csv(path, "\t" if ending == ".tsv" else ",", columns)
            return _in_blocks(f"{path}, line", rows), True
        return _from_text(path), True
    if isinstance(source, Sequence) and len(source) == 2 and not isinstance(source, (str, bytes)):
        return _from_sequences(*source), False
    raise DatasetError(
        f"a list of images is a text, CSV or Parquet file, or (paths, labels); not {type(source).__name__}."
    )


def _in_blocks(source: str, rows: Iterator[Row]) -> Iterator[Block]:
    while some := tuple(itertools.islice(rows, _ROWS)):
        numbers, paths, labels = map(list, zip(*some, strict=True))
        yield Block(source, numbers, paths, labels)


def _opened(path: str) -> BinaryIO:
    """A text file, open for reading after its byte order mark, if it has one."""
    file = open(path, "rb")  # noqa: SIM115  # the caller closes it
    if file.read(len(_MARK)) != _MARK:
        file.seek(0)
    return file


_MARK = b"\xef\xbb\xbf"


def _not_text(path: str) -> DatasetError:
    """The error that names the first line that can't be decoded."""
    with _opened(path) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode(ENCODING, ERRORS)
            except UnicodeDecodeError:
                return DatasetError(f"{path}, line {number}: it is not {ENCODING} text")
    return DatasetError(f"{path}: it is not {ENCODING} text")


def _from_text(path: str) -> Iterator[Block]:
    done = 0
    with _opened(path) as file:
        while pieces := file.readlines(_PIECE):
            try:
                lines = b"".join(pieces).decode(ENCODING, ERRORS).split("\n")
            except UnicodeDecodeError:
                raise _not_text(path) from None
            numbers: list[int] = []
            block = Block(f"{path}, line", numbers, [], [])
            for number, line in enumerate(lines, done + 1):
                parts = line.rsplit(None, 1)
                if len(parts) == 2:
                    numbers.append(number)
                    block.paths.append(parts[0].lstrip())
                    block.labels.append(parts[1])
                elif parts:
                    raise DatasetError(f"{path}, line {number}: {parts[0]!r} is not a path, a space and a label")
            done += len(pieces)
            yield block


def _from_csv(path: str, delimiter: str, columns: tuple[Column, Column]) -> Iterator[Row]:
    with io.TextIOWrapper(_opened(path), ENCODING, ERRORS, newline="") as text:
        rows = csv.reader(text, delimiter=delimiter, strict=True)
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
                yield rows.line_num, row[first], row[second]
        except csv.Error as error:
            raise DatasetError(f"{path}, line {rows.line_num}: {error}") from None
        except UnicodeDecodeError:
            raise _not_text(path) from None


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


def _from_parquet(path: str, columns: tuple[Column, Column]) -> Iterator[Block]:
    with open_parquet(path) as file:
        names = list(file.schema_arrow.names)
        for column in columns:
            if column not in names and not (isinstance(column, int) and 0 <= column < len(names)):
                raise DatasetError(
                    f"{path}: there is no column {column!r} among {', '.join(map(repr, names))}. "
                    "Name the two with columns=(path, label)."
                )
        chosen = [names[column] if isinstance(column, int) else column for column in columns]
        done = 0
        for batch in file.iter_batches(batch_size=_ROWS, columns=chosen):
            paths, labels = (batch.column(batch.schema.get_field_index(name)).to_pylist() for name in chosen)
            yield _checked(f"{path}, row", done + 1, paths, labels)
            done += len(paths)


def _from_sequences(paths: Sequence[object], labels: Any) -> Iterator[Block]:
    if not hasattr(labels, "__len__"):
        raise DatasetError(f"labels={labels!r:.80}: give a sequence, one label a path.")
    if len(paths) != len(labels):
        raise DatasetError(f"there are {len(paths)} paths and {len(labels)} labels: give one label a path.")
    labels = labels.tolist() if hasattr(labels, "tolist") else labels  # an array's or a tensor's numbers are Python's
    left_paths, left_labels = iter(paths), iter(labels)
    for start in range(0, len(paths), _ROWS):
        yield _checked("item", start, *(list(itertools.islice(left, _ROWS)) for left in (left_paths, left_labels)))


def _checked(source: str, first: int, paths: list[Any], labels: list[Any]) -> Block:
    """The block of rows of any types."""
    block = Block(source, range(first, first + len(paths)), paths, labels)
    if set(map(type, paths)) == {str} and all(paths) and set(map(type, labels)) in ({int}, {str}):
        return block
    for place, (path, label) in enumerate(zip(paths, labels, strict=True)):
        name = os.fsdecode(path) if isinstance(path, (bytes, os.PathLike)) and not isinstance(path, str) else path
        if not isinstance(name, str) or not name:
            raise DatasetError(f"{block.where(place)}: {path!r} is not a path")
        paths[place] = name
        try:
            labels[place] = _plain(label)
        except TypeError:
            where = block.where(place)
            raise DatasetError(f"{where}: the label {label!r} is neither a number nor a string") from None
    return block


def _plain(label: str | float | SupportsIndex) -> str | float:
    """A label as Python's own type; raises TypeError where it is neither a number nor a string."""
    if isinstance(label, str):
        return str(label)
    return float(label) if isinstance(label, (float, np.floating)) else operator.index(label)


def table_of(blocks: Iterable[Block], texts: bool, root: str) -> Listing:
    """The rows; where a path is absolute, all are whole.

    Labels that are all integers, or all floats, stay what they are; others are classes, sorted and counted from 0. As
    `texts`, ``"7"`` may be an integer.

    Raises:
        DatasetError: a row is bad, or integers and strings are mixed where types tell them apart.
    """
    rooted = True
    positions: defaultdict[Any, int] = defaultdict()  # of each label among those seen
    positions.default_factory = positions.__len__
    numbers, floats = array("i"), array("d")

    def packed() -> Iterator[bytes]:
        nonlocal rooted
        first = None
        for block in blocks:
            if not texts:
                first = block.labels[0] if first is None else first
                _check_labels(block, first)
            rooted = rooted and not (root and _any_whole(block.paths))
            if isinstance(first, float):
                floats.extend(cast("list[float]", block.labels))
            else:
                numbers.extend(map(positions.__getitem__, block.labels))
            yield _packed(block)

    paths = joined(packed())
    offsets = offsets_of(paths)
    if floats:
        table = Table(paths, offsets, np.zeros(len(floats), np.int32), np.frombuffer(floats, np.float64))
        classes, values = list[str](), list[int]()
    else:
        values_of, classes, values = number_labels(list(positions), texts)
        table = Table(paths, offsets, values_of[np.frombuffer(numbers, np.int32)] if numbers else values_of)
    if not rooted:  # some stand on their own, so the root can't be put before all of them later
        whole = joined(pack_list_paths([os.path.join(root, path) for path in some]) for some, _ in table.blocks("/"))
        table = replace(table, paths=whole, offsets=offsets_of(whole))
    return Listing(table, classes, values, rooted)


def _packed(block: Block) -> bytes:
    """A block's paths, as a `Table` has them."""
    try:
        packed = pack_list_paths(block.paths)
    except UnicodeEncodeError as error:
        where = block.where(-1)
        raise DatasetError(f"{where}, or one before it: a path can't be encoded as {ENCODING}: {error}") from None
    if packed.count(b"\0") != len(block.paths):
        bad = next(place for place, path in enumerate(block.paths) if "\0" in path)
        raise DatasetError(f"{block.where(bad)}: the path {block.paths[bad]!r} has a NUL in it")
    return packed


def pack_list_paths(paths: list[str]) -> bytes:
    """Paths with this system's separator, as `pack_paths` packs them."""
    return pack_paths([path.replace(os.sep, "/") for path in paths] if os.sep != "/" else paths)


def _any_whole(paths: Sequence[str]) -> bool:
    """True if one of some paths is absolute."""
    return "\0/" in "\0".join(["", *paths]) if os.sep == "/" else any(map(os.path.isabs, paths))


def _check_labels(block: Block, first: str | float) -> None:
    """Labels are all integers, as int32 has them, all floats or all strings, as the list's first one."""
    labels: Any = block.labels
    if type(first) is int and set(map(type, labels)) == {int} and SMALLEST <= min(labels) <= max(labels) <= LARGEST:
        return
    kind = next(kind for kind in (int, float, str) if isinstance(first, kind))
    for place, label in enumerate(block.labels):
        if not isinstance(label, kind):
            raise DatasetError(f"{block.where(place)}: the label {label!r} is of another type than those before it")
        if isinstance(label, int) and not SMALLEST <= label <= LARGEST:
            raise DatasetError(f"{block.where(place)}: the label {label} is outside of {SMALLEST} … {LARGEST}")
