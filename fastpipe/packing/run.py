"""`pack` and `unpack`: list files, convert and verify them in tasks, write and read back, record."""

from __future__ import annotations

import codecs
import contextlib
import csv
import fnmatch
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
from fastpipe.arguments import MOST_THREADS, whole_number
from fastpipe.atomic_write import atomic_write
from fastpipe.core.library import native
from fastpipe.environment import usable_cpus
from fastpipe.errors import ConfigError, DatasetError, FastpipeError
from fastpipe.index.cluster import Cluster, cluster_at, shared_paths
from fastpipe.index.index_source import DEFAULT_OPTIONS, BuildOptions
from fastpipe.index.shard_source import ShardSource
from fastpipe.packing.conversions import Conversion, Packing, Unpacking
from fastpipe.packing.items import Item, in_blocks
from fastpipe.packing.plan import Layout
from fastpipe.packing.record import PartState, Record, Row, open_record
from fastpipe.packing.report import PackResult
from fastpipe.packing.smaller import Smaller
from fastpipe.packing.source import PackSource, open_source
from fastpipe.packing.target import PART, OpenPart, Target, container_name, path_in
from fastpipe.packing.whole import WholeTarget, has_whole_record, open_whole
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
from fastpipe.sources.cache import parse_size
from fastpipe.sources.threads import map_in_threads

Result = TypeVar("Result")

COMMIT_S = 1.0
"""Seconds between two writes to the record."""

LIST = "labels.csv"
"""The name of the list of images and labels, in a folder that a list was packed to."""

_LEFTOVER = re.compile(rf"\.[0-9a-f]{{8,16}}(\.piece)?{re.escape(PART)}$")
_LOOKED_AT = 256  # files whose changes are checked at a time
_FILES_OF_A_TASK = {"file": 512, "archive": 64}  # files in a task on a cluster


def pack(
    source: object,
    target: str | os.PathLike[str],
    *,
    shard_size: int | str = "1 GB",
    shard_samples: int | None = None,
    image: str | None = None,
    label: str | None = None,
    max_side: int | None = None,
    short_side: int | None = None,
    quality: int | None = None,
    discard_original_bytes: bool = False,
    keep_names: bool = False,
    jobs: int | None = None,
    scheduler: str | None = None,
    progress: bool = True,
) -> PackResult:
    """Packs a dataset: stores its JPEGs' coefficients in a format that is decoded several times as fast.

    The target has the same classes, targets, order, names and times; the ending of packed images is ``.fpj``. `unpack`
    restores the same files, byte for byte. Each image is verified: the JPEG is restored from the packed image and
    compared, and the written file is read back and compared. JPEGs that can't be packed so, and other formats, are kept
    as they are. The source is never changed. The originals of images made smaller can't be restored; `unpack` gives the
    smaller ones.

    After an interrupt, a kill or a full disk, the same call continues where the run stopped, and ends with the same
    bytes. After a complete run, the same call adds files that have come to the source since.

    Args:
        source: a folder of class folders, or of images; a zip or tar of one; shards or Parquet files, or a pattern of
            them; a list; the folder of an index; a URL of any of these; an `ImageIndex`, `ImageFolder` or `ImageList`.
        target: a folder, a ``.zip`` or ``.tar``, or shards by the name of the first, as ``"train-{000000..}.tar"``.
        shard_size: approximate bytes of a shard, as an integer or a text such as ``"500 MB"``.
        shard_samples: samples in a shard; None for as many as fit its size.
        image, label: the columns of Parquet files; None for ``"image"`` and, if there is one, ``"label"``.
        max_side, short_side, quality: make larger images smaller first, as `Smaller` does: the most pixels of the
            longer or of the shorter side, and Pillow's quality. The result reports the changes. None keeps the images'
            size.
        discard_original_bytes: leave out the data needed to restore the same files, some hundred bytes an image;
            `unpack` then makes other JPEGs with the same coefficients and metadata.
        keep_names: keep all files under their own names, with packed bytes in place of JPEGs', so that the target
            stands in for the source in scripts under ``fastpipe run``. The source is a folder, of which everything is
            copied, or a ``.tar``, ``.zip`` or ``.parquet``, or a pattern of such; the target is of the same kind, with
            the members and rows of archives and Parquet files in their places.
        jobs: the number of threads; None for one for each usable CPU.
        scheduler: the address of a Dask scheduler whose workers do the work, with the same result; they must see source
            and target under the same paths. None for threads of this process.
        progress: show a progress bar in a terminal.

    Raises:
        DatasetError: the source can't be used; or the target has other content, lies in the source, or can't be
            written.
        ConfigError: an argument is out of range.
        ReaderUnavailableError: fastpipe's core isn't installed.
        FastpipeError: the cluster doesn't answer.
    """
    how = max_side, short_side, quality
    if keep_names and (how != (None, None, None) or (image or label) or shard_samples is not None):
        raise ConfigError(
            "keep_names keeps images as they are, all columns and the shards: leave out max_side, short_side, quality, "
            "image, label and shard_samples."
        )
    smaller = None if how == (None, None, None) else Smaller(*how)
    return _run(
        source,
        target,
        Packing(smaller, discard_original_bytes),
        shard_size,
        shard_samples,
        image,
        label,
        jobs,
        scheduler,
        progress,
        keep_names,
    )


def unpack(
    source: object,
    target: str | os.PathLike[str],
    *,
    shard_size: int | str = "1 GB",
    shard_samples: int | None = None,
    keep_names: bool | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
    progress: bool = True,
) -> PackResult:
    """Restores the JPEGs that were packed with the same bytes (verified by SHA-256), names and times.

    If the original bytes were discarded, it makes JPEGs with the same coefficients and metadata, so the same pixels in
    every decoder. They end in ``.jpg``; but ``cat.jpeg.fpj`` becomes ``cat.jpeg``. Other files are kept as they are.

    Args:
        source: a target of `pack`, or any source that `pack` takes.
        target: as in `pack`.
        shard_size: as in `pack`.
        shard_samples: as in `pack`.
        keep_names: as in `pack`; None if the source was packed so, which the record beside it says.
        jobs: as in `pack`.
        scheduler: as in `pack`.
        progress: as in `pack`.

    Raises:
        FastpipeError: as in `pack`.
    """
    if keep_names is None:
        keep_names = has_whole_record(source)
    return _run(
        source, target, Unpacking(), shard_size, shard_samples, None, None, jobs, scheduler, progress, keep_names
    )


def _run(
    given: object,
    to: str | os.PathLike[str],
    conversion: Conversion,
    shard_size: int | str,
    shard_samples: int | None,
    image: str | None,
    label: str | None,
    jobs: int | None,
    scheduler: str | None,
    progress: bool,
    keep_names: bool,
) -> PackResult:
    begun = time.perf_counter()
    native()  # raises an error that says how to install the core
    if shard_samples is not None:
        shard_samples = whole_number("shard_samples", shard_samples, "the samples of a shard", least=1)
    try:
        shard_bytes = max(1, parse_size(shard_size))
    except DatasetError:
        raise ConfigError(f"shard_size={shard_size!r}: give bytes, as an integer or a text such as '500 MB'") from None
    if scheduler is not None and jobs is not None:
        raise ConfigError(
            "jobs are threads of this machine: leave it out with a scheduler; its workers have their own."
        )
    if jobs is not None:
        jobs = whole_number("jobs", jobs, "the number of threads", least=1, most=MOST_THREADS)
    with cluster_at(scheduler, quiet=not progress) as cluster:
        source: PackSource
        target: Target
        if keep_names:
            source, target = open_whole(given, to)
        else:
            target = Target.of(to)
            source = open_source(given, image, label, BuildOptions(sizes=True, progress=progress, cluster=cluster))
        _check_place(source, target)
        layout = Layout(source, target, conversion, shard_bytes, shard_samples)
        if not keep_names and has_whole_record(to):
            raise DatasetError(
                f"{to} is a copy in which names are kept: continue it with --keep-names (keep_names=True), or choose "
                "another target."
            )
        if not os.path.exists(target.record) and (other := target.in_the_way()):
            raise DatasetError(
                f"{other} is there already, and fastpipe {conversion.verb} didn't begin it: choose another target, or "
                "remove it."
            )
        try:
            about, path = layout.about, target.path
            with target.made_folder(), open_record(target.record, about, path, target.in_the_way) as record:
                resumed = record.totals.files
                # Two threads for each CPU if half of the time is spent waiting for a store.
                threads = jobs or usable_cpus() * (2 if source.is_remote else 1)
                with SlowBar(f"{conversion.verb}ing", progress) as bar:
                    _PackRun(layout, record, bar, threads, cluster).run()
                totals = record.totals
                if isinstance(target, WholeTarget) and conversion.verb == "pack":
                    target.write_readme(source.name)
                return PackResult(
                    command=conversion.verb,
                    source=source.name,
                    target=target.path,
                    files=totals.files,
                    converted=totals.files - totals.kept.total(),
                    same_bytes=totals.same_bytes,
                    made_smaller=totals.smaller,
                    kept=dict(totals.kept.most_common()),
                    bytes_before=totals.before,
                    bytes_after=totals.after,
                    parts=len(record.parts),
                    resumed=resumed,
                    changes=totals.changes,
                    left_out=source.left_out(),
                    seconds=time.perf_counter() - begun,
                )
        except FastpipeError:
            raise
        except OSError as error:
            done = "Nothing was written: choose a place that can be written, and has room."
            if os.path.exists(target.record):
                done = "What was done is kept: when this is fixed, the same command continues from there."
            raise DatasetError(f"{target.path} can't be written: {error}. {done}") from error


class _PackRun:
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


def _check_place(source: PackSource, target: Target) -> None:
    """Raises DatasetError if a target lies in its source, or would be listed as a part of it the next time."""
    to = os.path.realpath(target.path)
    for place in source.places:
        own = os.path.realpath(place)
        inside = os.path.isdir(own) and source.kind != "list" and (to + os.sep).startswith(own + os.sep)
        same_folder = os.path.dirname(own) == os.path.realpath(target.folder)
        if source.kind == "samples" and target.kind == "folder":
            inside = inside or (same_folder and own.lower().endswith((".tar", ".zip")))
        elif target.kind == "shards":
            inside = inside or (same_folder and target.has(os.path.basename(own)))
        if inside or to == own:
            raise DatasetError(
                f"the target {target.path} lies in the source {place}, which is never changed: choose a place outside."
            )
    name = target.path if target.kind == "archive" else os.path.join(target.folder, target.shard(target.first))
    if target.kind != "folder" and source.kind == "samples" and fnmatch.fnmatchcase(name, source.name):
        raise DatasetError(
            f"{name} would be one of the source's files, {source.name}: choose another name or folder for the target."
        )


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
