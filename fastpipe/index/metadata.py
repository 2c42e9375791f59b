"""Sizes and headers of an index's files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpipe import readers
from fastpipe.errors import DecodeError
from fastpipe.index.cluster import Cluster, whole_path
from fastpipe.index.indexed_files import IndexedFiles
from fastpipe.index.table import FLAGS, SCHEMA, Array, Table
from fastpipe.progress_bar import SlowBar
from fastpipe.sources.threads import map_in_threads, threads_for_files

_CHUNK = 256
_CHUNK_ON_A_CLUSTER = 4096

_HEADER_ARRAYS = ("heights", "widths", "formats", "orientations", "flags")


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """Options of making an index.

    Attributes:
        sizes: whether each file's size is wanted.
        headers: whether each file's header is wanted.
        refresh: whether everything is to be looked at again, whatever is kept.
        progress: whether a terminal gets a bar if it takes long.
        cluster: its workers list and read; None for this process.
    """

    sizes: bool = False
    headers: bool = False
    refresh: bool = False
    progress: bool = True
    cluster: Cluster | None = None

    def missing_in(self, table: Table) -> str:
        """The reason why a table won't do; ``""`` if it has what is wanted."""
        if self.headers and table.heights is None:
            return "it had no headers of the files"
        return "it had no sizes of the files" if self.sizes and table.sizes is None else ""


DEFAULT_OPTIONS = BuildOptions()


def with_metadata(
    files: IndexedFiles, old: IndexedFiles | None, old_rows: Array | None, options: BuildOptions
) -> IndexedFiles:
    """The files with sizes and headers, as far as they are asked for or an older index knows them.

    A size of -1 is that of a file that can't be reached. One that can't be read, or is no image, has the flag
    "unreadable", and 0 for the rest of its header.

    Args:
        files: listed now.
        old: the older index.
        old_rows: int64 ``(n,)``: each file's row there, -1 where it's new; None if all are.
        options: say whether sizes and headers are wanted.
    """
    table, count = files.table, len(files)
    arrays: dict[str, Array] = {}
    if table.sizes is None and (options.sizes or (old is not None and old.table.sizes is not None)):
        found = arrays["sizes"] = _known(old, old_rows, "sizes", count, -2)
        for rows, answers in _ask(files, found == -2, _size_of, "asking for sizes", options):
            found[rows] = answers
    formats: Sequence[str] = ()
    known = old is not None and old.table.heights is not None
    if options.headers or known:
        arrays |= {name: _known(old, old_rows, name, count, 0) for name in _HEADER_ARRAYS}
        # The first stands for files whose format nobody knows.
        numbers = {name: number for number, name in enumerate((known and old and old.formats) or ("",))}
        missing = arrays["orientations"] == 0
        for rows, answers in _ask(files, missing, _header_of, "reading headers", options):
            for row, (height, width, format, orientation, flags) in zip(rows, answers, strict=True):
                values = height, width, numbers.setdefault(format, len(numbers)), orientation, flags
                for name, value in zip(_HEADER_ARRAYS, values, strict=True):
                    arrays[name][row] = value
        formats = [*numbers]
    return files.with_metadata(arrays, formats)


def _known(old: IndexedFiles | None, old_rows: Array | None, name: str, count: int, missing: int) -> Array:
    """An array of the older index, at its files' new places; `missing` elsewhere."""
    new = np.full(count, missing, SCHEMA[name])
    values = None if old is None else getattr(old.table, name)
    if values is not None and old_rows is not None:
        have = old_rows >= 0
        new[have] = values[old_rows[have]]
    return new


def _size_of(path: str) -> int:
    try:
        return readers.stat_file(path)[0]
    except OSError:
        return -1


def _header_of(path: str) -> tuple[int, int, str, int, int]:
    try:
        header = readers.read_header(path)
    except (DecodeError, OSError):
        return 0, 0, "", 1, FLAGS["unreadable"]
    flags = FLAGS["progressive"] * header.progressive + FLAGS["animated"] * header.animated
    flags += FLAGS["cmyk"] * (header.color_space in ("CMYK", "YCCK"))
    return header.height, header.width, header.format, header.orientation, flags


def _answers(asked: tuple[Callable[[str], Any], list[str]]) -> list[Any]:
    ask, paths = asked
    return [ask(path) for path in paths]


def _ask(
    files: IndexedFiles, wanted: Array, ask: Callable[[str], Any], text: str, options: BuildOptions
) -> Iterator[tuple[Array, list[Any]]]:
    """``(positions, answers)`` for the wanted files, a chunk at a time; from the workers of a cluster in any order."""
    cluster = options.cluster
    positions = np.flatnonzero(wanted)
    size = _CHUNK if cluster is None else _CHUNK_ON_A_CLUSTER
    chunks = [positions[start : start + size] for start in range(0, len(positions), size)]
    if cluster is None:
        found = map_in_threads(_answers, ((ask, files.paths(picks)) for picks in chunks), threads_for_files())
    else:
        found = cluster.map(_answers, ((ask, [*map(whole_path, files.paths(picks))]) for picks in chunks))
    with SlowBar(text, options.progress) as bar:
        bar.expect(len(positions))
        for number, answers in found:
            bar.advance(len(answers))
            yield chunks[number], answers
