"""Reads lists of paths and labels: text, CSV and Parquet files, and two sequences."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import math
import operator
import os
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, SupportsIndex, cast

import numpy as np

from fastpipe.counts import pluralize
from fastpipe.errors import DatasetError
from fastpipe.index.parquet import open_parquet
from fastpipe.index.table import (
    ENCODING,
    ERRORS,
    LARGEST,
    NO_CLASS,
    SMALLEST,
    Listing,
    Table,
    are_floats,
    joined,
    kind_of_label,
    number_labels,
    offsets_of,
    pack_paths,
)
from fastpipe.paths import local_path, open_regular

Column = str | int

_ROWS = 1 << 16
_NONE = -1  # the position of the label that a row doesn't have
_PIECE = 1 << 22  # bytes of text split at a time


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows of a list, so that not all rows of a long list exist as Python objects at once."""

    source: str  # text before a row's number in errors: ``"photos.txt, line"``
    numbers: Sequence[int]  # the number of each row
    paths: list[str]  # the path of each row
    labels: list[str | float | None]  # the label of each row: str, int or float; None for a row without path or label

    def where(self, place: int) -> str:
        """Names a row, by its place in the block, for errors."""
        return f"{self.source} {self.numbers[place]}"


Row = tuple[int, str, str | float | None]
"""A row of a list: its number, the path, the label; ``""`` and None for a row that lacks one of them."""


def read_list(source: object, columns: tuple[Column, Column]) -> tuple[Iterator[Block], bool]:
    """Reads a list; returns blocks of its rows, and whether labels are text that may mean integers.

    The source is a path that ends in .csv, .tsv or .parquet, a path of any other ending for "path label" lines, or two
    sequences. Columns are names, or positions from 0 in a file without a header line.

    Raises:
        DatasetError: the source is of another kind; while blocks are read, also for a bad row.
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
    given = type(source).__name__
    if isinstance(source, Sequence) and len(source) == 2 and not isinstance(source, bytes):
        if not hasattr(source[0], "__len__"):
            raise DatasetError(f"paths={source[0]!r:.80}: give a sequence of paths.")
        if not any(map(_is_path_or_row, source)):
            return _from_sequences(*source), False
        given = "two paths, or two pairs"
    raise DatasetError(
        f"a list of images is a text, CSV or Parquet file, or (paths, labels), two sequences; not {given}. Of pairs "
        "give tuple(zip(*pairs)), of a DataFrame (frame['path'], frame['label']), of paths alone "
        "(paths, [0] * len(paths)). An existing dataset stays one: ImageFolder, or torch.utils.data.Subset of it."
    )


def _is_path_or_row(part: object) -> bool:
    """True for one path, or one path with its label, given where a sequence of all paths is expected."""
    known = (str, bytes, os.PathLike)
    if isinstance(part, (tuple, list)) and len(part) == 2:
        return isinstance(part[0], known) and isinstance(part[1], int)
    return isinstance(part, known)


def _in_blocks(source: str, rows: Iterator[Row]) -> Iterator[Block]:
    while some := tuple(itertools.islice(rows, _ROWS)):
        numbers, paths, labels = map(list, zip(*some, strict=True))
        yield Block(source, numbers, paths, labels)


def _opened(path: str) -> BinaryIO:
    """Opens a text file at its first byte after the byte order mark, if it has one."""
    file = open_regular(path)
    if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
        file.seek(0)
    return file


def _from_text(path: str) -> Iterator[Block]:
    done = 0
    with _opened(path) as file:
        while pieces := file.readlines(_PIECE):
            try:
                lines = b"".join(pieces).decode(ENCODING, ERRORS).split("\n")
            except UnicodeDecodeError as error:
                bad = done + error.object.count(b"\n", 0, error.start) + 1
                raise DatasetError(f"{path}, line {bad}: it is not {ENCODING} text") from None
            numbers: list[int] = []
            block = Block(f"{path}, line", numbers, [], [])
            for number, line in enumerate(lines, done + 1):
                parts = line.rsplit(None, 1)
                if len(parts) == 2:
                    numbers.append(number)
                    block.paths.append(parts[0].lstrip())
                    block.labels.append(parts[1])
                elif parts:  # a path or a label alone
                    numbers.append(number)
                    block.paths.append("")
                    block.labels.append(None)
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
                path_and_label = row[first : first + 1] + row[second : second + 1]
                whole = len(path_and_label) == 2 and all(path_and_label)
                yield (rows.line_num, row[first], row[second]) if whole else (rows.line_num, "", None)
        except csv.Error as error:
            raise DatasetError(f"{path}, line {rows.line_num}: {error}") from None
        except UnicodeDecodeError:  # the text is decoded in pieces
            raise DatasetError(f"{path}, after line {rows.line_num}: it is not {ENCODING} text") from None


def _position(column: Column, names: list[str] | None, path: str) -> int:
    if isinstance(column, int):
        return column
    columns = [name.strip() for name in names or ()]
    if column not in columns:
        raise DatasetError(
            f"{path}, line 1: there is no column {column!r} among {', '.join(map(repr, columns))}. Name the two with "
            "columns=(path, label); in a file without a line of names give positions, as columns=(0, 1)."
        )
    return columns.index(column)


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
            yield Block(f"{path}, row", range(done + 1, done + 1 + len(paths)), paths, labels)
            done += len(paths)


def _from_sequences(paths: Sequence[object], labels: Any) -> Iterator[Block]:
    if not hasattr(labels, "__len__"):
        raise DatasetError(f"labels={labels!r:.80}: give a sequence, one label a path.")
    if len(paths) != len(labels):
        raise DatasetError(
            f"there are {pluralize(len(paths), 'path')} and {pluralize(len(labels), 'label')}: give one label a path."
        )
    labels = labels.tolist() if hasattr(labels, "tolist") else labels  # arrays and tensors to Python's numbers
    left_paths, left_labels = iter(paths), iter(labels)
    for start in range(0, len(paths), _ROWS):
        some, theirs = (list(itertools.islice(left, _ROWS)) for left in (left_paths, left_labels))
        yield Block("item", range(start, start + len(some)), some, theirs)


def _convert(block: Block, first: str | float | None) -> str | float | None:
    """Converts a block's paths to str, and labels to int, float or str, in place; returns the list's first label.

    `first` is None before the first row with a path and a label. A row without one of them gets the path ``""`` and
    the label None. Raises DatasetError for a label of another type or size.
    """
    paths: list[Any] = block.paths
    labels: list[Any] = block.labels
    kinds = set(map(type, labels)) | ({type(first)} if first is not None else set())
    alike = set(map(type, paths)) == {str} and all(paths) and kinds in ({int}, {float}, {str})
    if alike and (kinds != {int} or SMALLEST <= min(labels) <= max(labels) <= LARGEST):
        return labels[0] if first is None else first
    for place, (path, label) in enumerate(zip(paths, labels, strict=True)):
        name = os.fsdecode(path) if isinstance(path, (bytes, os.PathLike)) and not isinstance(path, str) else path
        if label is None or not isinstance(name, str) or not name:
            paths[place], labels[place] = "", None
            continue
        try:
            plain = _plain(label)
        except TypeError:
            where = block.where(place)
            raise DatasetError(f"{where}: the label {label!r} is neither a number nor a string") from None
        first = plain if first is None else first
        if type(plain) is not type(first):
            raise DatasetError(f"{block.where(place)}: the label {plain!r} is of another type than those before it")
        if isinstance(plain, int) and not SMALLEST <= plain <= LARGEST:
            raise DatasetError(f"{block.where(place)}: the label {plain} is outside of {SMALLEST} … {LARGEST}")
        paths[place], labels[place] = name, plain
    return first


def _plain(label: str | float | SupportsIndex) -> str | float:
    """Converts a label to int, float or str; raises TypeError if it is neither a number nor a string."""
    if isinstance(label, str):
        return str(label)
    return float(label) if isinstance(label, (float, np.floating)) else int(operator.index(label))


def table_of(blocks: Iterable[Block], texts: bool, root: str) -> Listing:
    """Builds the listing of some rows. If one path is absolute, all become absolute.

    If labels are all integers, or all floats, they are the targets; otherwise they are class names, numbered from 0 in
    sorted order. With `texts`, a text such as ``"7"`` counts as an integer, and ``"7.0"`` as a float.

    Raises:
        DatasetError: a row is bad, or integers, floats and names are mixed.
    """
    rooted = True
    positions: defaultdict[str | float, int] = defaultdict()
    positions.default_factory = positions.__len__  # numbers the labels in the order of their first occurrence
    numbers, floats = array("i"), array("d")
    kinds: dict[str, str] = {}  # the first label of each kind, with its row, if labels are texts

    lacking = ""  # the first row without a path or a label

    def packed() -> Iterator[bytes]:
        nonlocal rooted, lacking
        first = None
        for block in blocks:
            if not texts:
                first = _convert(block, first)
            if None in block.labels and not lacking:
                lacking = block.where(block.labels.index(None))
            rooted = rooted and not (root and _any_whole(block.paths))
            if isinstance(first, float):
                floats.extend(math.nan if label is None else cast("float", label) for label in block.labels)
            else:
                known = len(positions)
                numbers.extend(_NONE if label is None else positions[label] for label in block.labels)
                for label in itertools.islice(positions, known, None) if texts else ():
                    if (kind := kind_of_label(str(label))) not in kinds:
                        kinds[kind] = f"{label!r} ({block.where(block.labels.index(label))})"
            yield _packed(block)

    paths = joined(packed())
    offsets = offsets_of(paths)
    if lacking and not positions and all(map(math.isnan, floats)):
        raise DatasetError(f"{lacking} is not a path and a label, and neither is any other row.")
    if are_floats(kinds, "names that look like numbers are given as (paths, labels)"):
        floats_of = np.array([*map(float, positions), math.nan])
        floats.extend(floats_of[np.frombuffer(numbers, np.int32)].tolist())
    if floats:
        table = Table(paths, offsets, np.zeros(len(floats), np.int32), np.frombuffer(floats, np.float64))
        classes, values = list[str](), list[int]()
    else:
        values_of, classes, values = number_labels(list(positions), texts)
        values_of = np.append(values_of, np.int32(NO_CLASS))  # where `_NONE` points
        table = Table(paths, offsets, values_of[np.frombuffer(numbers, np.int32)])
    if not rooted:  # some are absolute, so the root can't be put before all later
        whole = joined(
            pack_list_paths([os.path.join(root, path) if path else "" for path in some])
            for some, _ in table.blocks("/")
        )
        table = replace(table, paths=whole, offsets=offsets_of(whole))
    return Listing(table, classes, values, rooted)


def _packed(block: Block) -> bytes:
    """A block's paths, packed as in a `Table`."""
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
    """Packs paths that have this system's separator, as `pack_paths` does."""
    return pack_paths([path.replace(os.sep, "/") for path in paths] if os.sep != "/" else paths)


def _any_whole(paths: Sequence[str]) -> bool:
    """True if one of some paths is absolute."""
    return "\0/" in "\0".join(["", *paths]) if os.sep == "/" else any(map(os.path.isabs, paths))
