"""What an index can know of each file beyond its path: its size, and what its header says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fastpipe import readers
from fastpipe.errors import DecodeError
from fastpipe.index._progress import SlowBar
from fastpipe.index.cluster import current_cluster, whole_path
from fastpipe.index.local_scan import threads_for_files
from fastpipe.index.table import FLAGS, SCHEMA, Array, Table

Paths = Callable[[Array], list[str]]

_CHUNK = 256
_CHUNK_ON_A_CLUSTER = 4096

_HEADER_ARRAYS = ("heights", "widths", "formats", "orientations", "flags")


class Known(NamedTuple):
    """What an older index knows: its table and format names, and each file's position in it, -1 where it's new."""

    table: Table
    formats: Sequence[str]
    taken_over: Array


def completed(
    table: Table, paths: Paths, known: Known | None, sizes: bool, headers: bool, *, progress: bool
) -> tuple[Table, Sequence[str]]:
    """The table with sizes and headers as far as they are asked for or were known, and the list of format names.

    A size of -1 is that of a file that can't be reached. One that can't be read, or is no image, has the flag
    "unreadable", and 0 for the rest of its header.
    """
    if table.sizes is None and (sizes or (known is not None and known.table.sizes is not None)):
        found = _before(known, "sizes", len(table), -2)
        for picks, some in _in_threads(paths, found == -2, _size_of, "asking for sizes", progress):
            found[picks] = some
        table = replace(table, sizes=found)
    if not headers and (known is None or known.table.heights is None):
        return table, ()
    arrays = {name: _before(known, name, len(table), 0) for name in _HEADER_ARRAYS}
    names = list(known.formats if known is not None and known.table.heights is not None else ())
    names = names or [""]  # the first stands for files whose format nobody knows
    numbers = {name: number for number, name in enumerate(names)}
    missing = arrays["orientations"] == 0
    for picks, some in _in_threads(paths, missing, _header_of, "reading headers", progress):
        for pick, (height, width, format, orientation, flags) in zip(picks, some, strict=True):
            if format not in numbers:
                numbers[format] = len(names)
                names.append(format)
            values = height, width, numbers[format], orientation, flags
            for name, value in zip(_HEADER_ARRAYS, values, strict=True):
                arrays[name][pick] = value
    return replace(table, **arrays), names


def _before(known: Known | None, name: str, count: int, missing: int) -> Array:
    """What was known, at its files' new places; `missing` elsewhere."""
    values = None if known is None else getattr(known.table, name)
    new = np.full(count, missing, SCHEMA[name])
    if known is not None and values is not None:
        have = known.taken_over >= 0
        new[have] = values[known.taken_over[have]]
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
