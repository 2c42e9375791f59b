"""A run of `pack` or `unpack`: tasks are converted in threads or on a cluster, written, and recorded."""

from __future__ import annotations

import codecs
import contextlib
import csv
import glob
import os
import re
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from fastpipe import readers
from fastpipe.atomic_write import atomic_write
from fastpipe.errors import DatasetError
from fastpipe.index.cluster import Cluster, shared_paths
from fastpipe.index.index_source import DEFAULT_OPTIONS
from fastpipe.index.shard_source import ShardSource
from fastpipe.packing.items import Item, in_blocks
from fastpipe.packing.plan import Layout
from fastpipe.packing.record import PartState, Record, Row
from fastpipe.packing.target import PART, OpenPart, container_name, path_in
from fastpipe.packing.work import (
    FILES,
    ArchivePiece,
    Task,
    make,
    reading,
    state_of,
    write_files,
    write_files_on_cluster,
    write_part,
    write_piece,
    write_shard,
)
from fastpipe.progress_bar import SlowBar
from fastpipe.sources.threads import map_in_threads

Result = TypeVar("Result")

COMMIT_S = 1.0
"""Seconds between two writes to the record."""

LIST = "labels.csv"
"""The name of the list of images and labels, in a folder that a list was packed to."""

_LEFTOVER = re.compile(rf"\.[0-9a-f]{{8,16}}(\.piece)?{re.escape(PART)}$")
_LOOKED_AT = 256  # files whose changes are checked at a time
_FILES_OF_A_TASK = {"file": 512, "archive": 64}  # files in a task on a cluster


class PackRun:
    """One run of `pack` or `unpack`."""

    def __init__(self, layout: Layout, record: Record, bar: SlowBar, jobs: int, cluster: Cluster | None) -> None:
        self._layout = layout
        self._target = layout.target
        self._record = record
        self._bar = bar
        self._jobs = jobs
        self._cluster = cluster
        self._open: OpenPart | None = None
        self._committed = time.monotonic()

    def run(self) -> None:
        """Converts all remaining files."""
        self._bar.expect(self._layout.source.expected)
        self._bar.advance(self._record.totals.files)
        try:
            self._check_whole()
            if self._cluster is not None:
                self._run_on_cluster(self._cluster)
            else:
                self._run_in_threads()
            self._finish_begun()
        except BaseException:  # also Ctrl-C: what was written is recorded, and the run can go on later
            with contextlib.suppress(OSError):  # on a full disk, the unrecorded work will be done again
                self._commit()
            if self._open is not None and self._open.end:
                self._open.close()
            elif self._open is not None:
                self._open.abandon()
            raise
        self._commit()
        if self._layout.listed:
            self._write_list()
        if self._cluster is not None:
            self._sweep()

    def _run_in_threads(self) -> None:
        function: Callable[[Task], ArchivePiece | list[Row]] = write_files if self._layout.is_one_file_each else make
        for _, result in map_in_threads(function, self._tasks(FILES), self._jobs):
            if isinstance(result, ArchivePiece):
                self._take(result)
            else:
                self._take_rows(result)

    def _run_on_cluster(self, cluster: Cluster) -> None:
        """Lets workers write files, a few hundred in a task, or whole shards, or pieces of a single archive."""
        shards = self._layout.source.containers
        if self._layout.keeps_containers and isinstance(shards, ShardSource):
            self._shards_on_cluster(cluster, shards)  # then what is left are shards that were begun by a process alone
        if self._target.kind == "archive":
            tasks = map(_for_workers, self._tasks(_FILES_OF_A_TASK["archive"]))
            for rows, name in _in_order(cluster.map(write_piece, tasks)):
                piece = self._path(name)
                self._take(ArchivePiece(rows, Path(piece).read_bytes()))
                os.unlink(piece)
            return
        function, files = write_part, None
        if self._layout.is_one_file_each:
            function, files = write_files_on_cluster, _FILES_OF_A_TASK["file"]
        for _, rows in cluster.map(function, self._unbegun(self._tasks(files))):
            self._take_rows(rows)

    def _unbegun(self, tasks: Iterator[Task]) -> Iterator[Task]:
        """Yields tasks for workers; does those itself whose archives were begun by a run without a cluster."""
        for task in tasks:
            if task.part in self._record.parts:
                for few in in_blocks(task.items, FILES):
                    self._take(make(task._replace(items=few)))
            else:
                yield _for_workers(task)

    def _shards_on_cluster(self, cluster: Cluster, shards: ShardSource) -> None:
        """Lets workers list and write shards that keep their names, so that one process can feed thousands of cores."""
        folder, conversion = self._target.folder, self._layout.conversion
        parts = {path: container_name(shards.name_of(path).rstrip("/")) for path in shards.paths}
        asked = (
            (Task(folder, part, conversion, ()), replace(shards, paths=(path,), options=DEFAULT_OPTIONS))
            for path, part in parts.items()
            if part not in self._record.parts
        )
        for _, rows in cluster.map(write_shard, asked):
            self._take_rows(rows)

    def _check_whole(self) -> None:
        """Raises DatasetError if a source's shard that was recorded as a whole has changed since."""
        shards = self._layout.source.containers
        if self._record.whole and isinstance(shards, ShardSource):
            for path in shards.paths:
                known = self._record.whole.get(shards.name_of(path))
                if known is not None and known != state_of(path):
                    raise self._changed(path)

    def _take(self, converted: ArchivePiece) -> None:
        """Appends a piece to its archive, and records its rows."""
        self._take_rows(self._part(converted.rows[0].part).append(*converted))

    def _take_rows(self, rows: Iterable[Row]) -> None:
        """Records the rows of written files; commits every ``COMMIT_S`` seconds."""
        before = self._record.totals.files
        self._record.add(rows)
        self._bar.advance(self._record.totals.files - before)
        if time.monotonic() - self._committed >= COMMIT_S:
            self._commit()

    def _commit(self) -> None:
        self._record.commit(self._sync)
        self._committed = time.monotonic()

    def _sync(self) -> None:
        if self._open is not None:
            self._open.sync()
        elif hasattr(os, "sync"):  # many small files: one call for all of them
            os.sync()

    def _part(self, name: str) -> OpenPart:
        """Opens the archive of that name; completes the one before."""
        path = self._path(name)
        if self._open is None or self._open.path != path:
            self._finish()
            end = self._record.parts.get(name, PartState()).end
            rows = self._record.read() if end else ()
            self._open = OpenPart(path, end, (place for row in rows if row.part == name for place in row.places))
        return self._open

    def _finish(self) -> None:
        if self._open is not None:
            self._commit()
            self._open.finish()
            self._open = None

    def _finish_begun(self) -> None:
        """Completes the open archive, and any that was only left to be completed when a run was killed."""
        self._finish()
        for name in self._record.parts:
            if not self._is_complete(name):
                self._part(name)
                self._finish()

    def _path(self, name: str) -> str:
        return path_in(self._target.folder, name)

    def _is_complete(self, name: str) -> bool:
        return os.path.exists(self._path(name)) and not os.path.exists(self._path(name) + PART)

    def _tasks(self, at_once: int | None) -> Iterator[Task]:
        """The remaining tasks, each of at most `at_once` files; None for all files of an archive."""
        items = self._layout.items(self._record.whole)
        parts = dict(self._record.parts)
        complete = {name for name in parts if self._is_complete(name)}
        return self._layout.tasks(self._left(items), parts, complete, at_once)

    def _left(self, items: Iterator[Item]) -> Iterator[Item]:
        """Yields the files that aren't in the target yet; raises DatasetError if one that is there has changed."""

        def not_there(some: tuple[Item, ...]) -> list[Item]:
            return [item for item in some if not self._is_there(item)]

        with reading(self._layout.source.name):
            if self._record.is_new:
                yield from items
                return
            if self._layout.is_one_file_each:
                self._check_files()
            for _, left in map_in_threads(not_there, in_blocks(items, _LOOKED_AT), self._jobs):
                yield from left

    def _check_files(self) -> None:
        """Raises DatasetError if a written file is gone."""
        for row in self._record.read():
            path = self._path(row.places[0].name)
            if not os.path.exists(path):
                raise DatasetError(
                    f"{path} is gone, but its record is still there: remove {self._target.path} to start again."
                )

    def _is_there(self, item: Item) -> bool:
        known = self._record.known(item.key)
        if known is None or not item.path:
            return known is not None
        size, stamp, crc = known
        now, changed = state_of(item.path)
        same = now in (size, -1) and changed == stamp
        if same or (now == size and zlib.crc32(readers.read_file(item.path, None)) == crc):
            return True
        raise self._changed(item.path)

    def _changed(self, path: str) -> DatasetError:
        return DatasetError(
            f"{path} has changed since it came to {self._target.path}: choose another target, or remove this one."
        )

    def _write_list(self) -> None:
        """Writes the list file of a folder packed from a list: its images in order, with their labels."""
        names = {row.key: row.places[0].name for row in self._record.read()}
        labels = self._layout.source.labels
        with atomic_write(os.path.join(self._target.folder, LIST)) as stream:
            writer = csv.writer(codecs.getwriter("utf-8")(stream, "surrogateescape"), lineterminator="\n")
            writer.writerow(["path", "label"])
            for key, label in self._layout.source.listed_keys():
                writer.writerow([names[key], labels[label]])

    def _sweep(self) -> None:
        """Removes temporary files of killed workers."""
        folder = Path(self._target.folder)
        own = "**/*" if self._target.kind == "folder" else f"{glob.escape(self._target.start)}*"
        for left in folder.glob(f"{own}{PART}"):
            if _LEFTOVER.search(left.name):
                left.unlink()


def _for_workers(task: Task) -> Task:
    """The task with paths that are valid on other machines."""
    paths = shared_paths([item.path for item in task.items])
    items = tuple(item._replace(path=path) for item, path in zip(task.items, paths, strict=True))
    return task._replace(items=items)


def _in_order(results: Iterable[tuple[int, Result]]) -> Iterator[Result]:
    """Yields results in the order of their numbers, from 0."""
    early: dict[int, Result] = {}
    turn = 0
    for number, result in results:
        early[number] = result
        while turn in early:
            yield early.pop(turn)
            turn += 1
