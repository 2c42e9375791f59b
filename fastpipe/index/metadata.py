"""Options of making an index, and the sizes of its files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fastpipe import readers
from fastpipe.index.cluster import Cluster, whole_path
from fastpipe.index.indexed_files import IndexedFiles
from fastpipe.index.table import SCHEMA, Array, Table
from fastpipe.progress_bar import SlowBar
from fastpipe.sources.threads import map_in_threads, threads_for_files

_CHUNK = 256
_CHUNK_ON_A_CLUSTER = 4096

_MISSING = -2  # in place of a size that is to be asked for


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """Options of making an index.

    Attributes:
        sizes: whether each file's size is wanted.
        refresh: whether everything is to be looked at again, whatever is kept.
        progress: whether a terminal gets a bar if it takes long.
        cluster: its workers list and read; None for this process.
    """

    sizes: bool = False
    refresh: bool = False
    progress: bool = True
    cluster: Cluster | None = None

    def missing_in(self, table: Table) -> str:
        """The reason why a table won't do; ``""`` if it has what is wanted."""
        return "it had no sizes of the files" if self.sizes and table.sizes is None else ""


DEFAULT_OPTIONS = BuildOptions()


def with_sizes(
    files: IndexedFiles, old: IndexedFiles | None, old_rows: Array | None, options: BuildOptions
) -> IndexedFiles:
    """The files with their sizes, where they are asked for or an older index knows them.

    A size of -1 is that of a file that can't be reached.

    Args:
        files: listed now.
        old: the older index.
        old_rows: int64 ``(n,)``: each file's row there, -1 where it's new; None if all are.
        options: say whether sizes are wanted.
    """
    known = None if old is None else old.table.sizes
    if files.table.sizes is not None or not (options.sizes or known is not None):
        return files
    sizes: Array = np.full(len(files), _MISSING, SCHEMA["sizes"])
    if known is not None and old_rows is not None:
        have = old_rows >= 0
        sizes[have] = known[old_rows[have]]
    for rows, found in _sizes_at(files, np.flatnonzero(sizes == _MISSING), options):
        sizes[rows] = found
    return files.with_sizes(sizes)


def _size_of(path: str) -> int:
    try:
        return readers.stat_file(path)[0]
    except OSError:
        return -1


def _sizes_of(paths: list[str]) -> list[int]:
    return [*map(_size_of, paths)]


def _sizes_at(files: IndexedFiles, positions: Array, options: BuildOptions) -> Iterator[tuple[Array, list[int]]]:
    """``(positions, sizes)`` of files, a chunk at a time; from the workers of a cluster in any order."""
    cluster = options.cluster
    size = _CHUNK if cluster is None else _CHUNK_ON_A_CLUSTER
    chunks = [positions[start : start + size] for start in range(0, len(positions), size)]
    if cluster is None:
        found = map_in_threads(_sizes_of, (files.paths(picks) for picks in chunks), threads_for_files())
    else:
        found = cluster.map(_sizes_of, ([*map(whole_path, files.paths(picks))] for picks in chunks))
    with SlowBar("asking for sizes", options.progress) as bar:
        bar.expect(len(positions))
        for number, answers in found:
            bar.advance(len(answers))
            yield chunks[number], answers
