"""What an index can know of each file beyond its path: its size, and what its header says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fastpipe import readers
from fastpipe.data._progress import SlowBar
from fastpipe.data.cluster import current_cluster, whole_path
from fastpipe.data.scan import threads_for_files
from fastpipe.data.table import FLAGS, Array, Table
from fastpipe.errors import DecodeError

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
    """The table with sizes and headers as far as they are asked for or were known, and the list of format names."""
    formats: Sequence[str] = ()
    if table.sizes is None and (sizes or (known is not None and known.table.sizes is not None)):
        before = None
        if known is not None and known.table.sizes is not None:
            before = _over(known.table.sizes, known.taken_over, -2)
        table = with_sizes(table, paths, before, progress=progress)
    if headers or (known is not None and known.table.heights is not None):
        arrays = None
        if known is not None and known.table.heights is not None:
            formats = known.formats
            arrays = {name: _over(getattr(known.table, name), known.taken_over, 0) for name in _HEADER_ARRAYS}
        table, formats = with_headers(table, paths, formats, arrays, progress=progress)
    return table, formats


def _over(values: Array, taken_over: Array, missing: int) -> Array:
    """The old values at their new places, `missing` elsewhere."""
    new = np.full(len(taken_over), missing, values.dtype)
    have = taken_over >= 0
    new[have] = values[taken_over[have]]
    return new


def with_sizes(table: Table, paths: Paths, known: Array | None, *, progress: bool) -> Table:
    """The table with `sizes`: bytes of each file, -1 where it can't be reached.

    Args:
        table: the files.
        paths: gives the files' paths at positions.
        known: int64 ``(n,)`` sizes, -2 for those to find out; None for all.
        progress: whether to show a bar if it takes long.
    """
    sizes = np.full(len(table), -2, np.int64) if known is None else known
    for picks, found in _in_threads(paths, sizes == -2, _size_of, "asking for sizes", progress):
        sizes[picks] = found
    return replace(table, sizes=sizes)


def with_headers(
    table: Table, paths: Paths, formats: Sequence[str], known: dict[str, Array] | None, *, progress: bool
) -> tuple[Table, list[str]]:
    """The table with `heights`, `widths`, `formats`, `orientations` and `flags`, and the list of format names.

    A file that can't be read, or is no image, has the flag "unreadable" and 0 for the rest.

    Args:
        table: the files.
        paths: gives the files' paths at positions.
        formats: the names that the known numbers stand for.
        known: arrays by name; an orientation of 0 marks a file to read. None for all.
        progress: whether to show a bar if it takes long.
    """
    if known is None:
        kinds = (np.uint32, np.uint32, np.uint8, np.uint8, np.uint8)
        known = {name: np.zeros(len(table), kind) for name, kind in zip(_HEADER_ARRAYS, kinds, strict=True)}
    names = list(formats) or [""]  # the first stands for files whose format nobody knows
    numbers = {name: number for number, name in enumerate(names)}
    missing = known["orientations"] == 0
    for picks, found in _in_threads(paths, missing, _header_of, "reading headers", progress):
        for pick, (height, width, format, orientation, flags) in zip(picks, found, strict=True):
            if format not in numbers:
                numbers[format] = len(names)
                names.append(format)
            known["heights"][pick], known["widths"][pick] = height, width
            known["formats"][pick] = numbers[format]
            known["orientations"][pick], known["flags"][pick] = orientation, flags
    return replace(table, **known), names


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
