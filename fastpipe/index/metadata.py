"""Sizes and headers of an index's files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from fastpipe import readers
from fastpipe.errors import DecodeError
from fastpipe.index._progress import SlowBar
from fastpipe.index.cluster import current_cluster, whole_path
from fastpipe.index.indexed_files import IndexedFiles
from fastpipe.index.local_scan import threads_for_files
from fastpipe.index.table import FLAGS, SCHEMA, Array

Paths = Callable[[Array], list[str]]

_CHUNK = 256
_CHUNK_ON_A_CLUSTER = 4096

_HEADER_ARRAYS = ("heights", "widths", "formats", "orientations", "flags")


def with_metadata(
    files: IndexedFiles, old: IndexedFiles | None, old_rows: Array, sizes: bool, headers: bool, *, progress: bool
) -> IndexedFiles:
    """The files with sizes and headers, as far as they are asked for or an older index knows them.

    A size of -1 is that of a file that can't be reached. One that can't be read, or is no image, has the flag
    "unreadable", and 0 for the rest of its header.

    Args:
        files: listed now.
        old: the older index.
        old_rows: int64 ``(n,)``: each file's row there, -1 where it's new.
        sizes, headers: whether they are asked for.
        progress: whether a terminal gets a bar if it takes long.
    """
    table, count = files.table, len(files)
    arrays: dict[str, Array] = {}
    if table.sizes is None and (sizes or (old is not None and old.table.sizes is not None)):
        found = arrays["sizes"] = _known(old, old_rows, "sizes", count, -2)
        for rows, answers in _in_threads(files.paths, found == -2, _size_of, "asking for sizes", progress):
            found[rows] = answers
    formats: Sequence[str] = ()
    known = old is not None and old.table.heights is not None
    if headers or known:
        arrays |= {name: _known(old, old_rows, name, count, 0) for name in _HEADER_ARRAYS}
        # The first stands for files whose format nobody knows.
        numbers = {name: number for number, name in enumerate((known and old and old.formats) or ("",))}
        missing = arrays["orientations"] == 0
        for rows, answers in _in_threads(files.paths, missing, _header_of, "reading headers", progress):
            for row, (height, width, format, orientation, flags) in zip(rows, answers, strict=True):
                values = height, width, numbers.setdefault(format, len(numbers)), orientation, flags
                for name, value in zip(_HEADER_ARRAYS, values, strict=True):
                    arrays[name][row] = value
        formats = [*numbers]
    return files.with_table(replace(table, **arrays), formats)


def _known(old: IndexedFiles | None, old_rows: Array, name: str, count: int, missing: int) -> Array:
    """An array of the older index, at its files' new places; `missing` elsewhere."""
    new = np.full(count, missing, SCHEMA[name])
    values = None if old is None else getattr(old.table, name)
    if values is not None:
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


def _in_threads(
    paths: Paths, wanted: Array, ask: Callable[[str], Any], text: str, progress: bool
) -> Iterator[tuple[Array, list[Any]]]:
    """``(positions, answers)`` for the wanted files, a chunk at a time; from the workers of a cluster in any order."""
    positions = np.flatnonzero(wanted)
    cluster = current_cluster()
    size = _CHUNK if cluster is None else _CHUNK_ON_A_CLUSTER
    chunks = [positions[start : start + size] for start in range(0, len(positions), size)]
    if cluster is not None:
        with SlowBar(text, progress) as bar:
            bar.expect(len(positions))
            asked = ((ask, [whole_path(path) for path in paths(picks)]) for picks in chunks)
            for number, answers in cluster.map(_answers, asked):
                bar.advance(len(answers))
                yield chunks[number], answers
        return

    def answer(picks: Array) -> list[Any]:
        answers = [ask(path) for path in paths(picks)]
        bar.advance(len(picks))
        return answers

    with (
        SlowBar(text, progress) as bar,
        ThreadPoolExecutor(threads_for_files(), thread_name_prefix="fastpipe-index") as pool,
    ):
        bar.expect(len(positions))
        yield from zip(chunks, pool.map(answer, chunks), strict=True)
