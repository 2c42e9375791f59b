"""`check`: every file examined, in parallel, with a journal; then the report and the quarantine."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, replace
from typing import Any, get_args

import numpy as np
from PIL import Image, ImageFile

from fastpipe.config import current_config
from fastpipe.datasets import ImageIndex
from fastpipe.environment import usable_cpus, versions
from fastpipe.errors import ConfigError, DatasetError
from fastpipe.index.cluster import cluster_at
from fastpipe.index.index_source import BuildOptions
from fastpipe.index.journal import Journal
from fastpipe.index.open import loose_images
from fastpipe.paths import local_path
from fastpipe.progress_bar import SlowBar
from fastpipe.readers import MaxPixels, configured_reader, pixel_limit
from fastpipe.reporting.output import check_writable
from fastpipe.tools.check.examine import Rules
from fastpipe.tools.check.findings import Findings, Rows
from fastpipe.tools.check.journal import known, note, open_journal
from fastpipe.tools.check.pool import CHUNK, examine_all, examine_on
from fastpipe.tools.check.quarantine import check_target, move_away
from fastpipe.tools.check.report import CheckResult, Decode, ending_of, write_report
from fastpipe.tools.check.worker import Task
from fastpipe.tools.inputs import index_of, other_images

_CHUNK = {"full": 16, "header": 256}


def check(
    source: Any,
    *,
    decode: Decode = "full",
    jobs: int | None = None,
    size: int = 224,
    timeout: float = 60.0,
    max_pixels: MaxPixels = "auto",
    report: str | os.PathLike[str] | None = None,
    json: str | os.PathLike[str] | None = None,
    move_to: str | os.PathLike[str] | None = None,
    restart: bool = False,
    scheduler: str | None = None,
    progress: bool = True,
) -> CheckResult:
    """Examines every image file of a data set: which would fail in training, and what is odd about the others.

    A file is bad where `fastpipe.ImageFolder`, and so torchvision's on Pillow, would raise; everything else is noted.
    Files are read by processes of their own, so that one that kills or hangs its reader is a finding and not the
    end. If the check itself is killed, the next one of the same files goes on where it stopped.

    Args:
        source: a folder of class folders; a folder that holds images itself; a zip or tar of class folders, shards or
            Parquet files with images; the folder of an index; a list file of `ImageList`; one image file; an
            `ImageIndex`, `ImageFolder` or `ImageList`.
        decode: ``"full"`` decodes all pixels; ``"header"`` reads headers only, many times as fast, and finds neither
            truncated files nor damaged pixels.
        jobs: processes; None for one a usable CPU.
        size: the side in pixels that training needs; four times that is noted as large.
        timeout: seconds that reading and decoding one file may take.
        max_pixels: as `fastpipe.readers.read_image` takes it.
        report: a file that all rows are written to: ``.csv``, ``.json`` or ``.txt``.
        json: another one, written as JSON whatever its ending.
        move_to: a folder outside the data set that bad files are moved to; see `fastpipe.tools.check.quarantine`.
        restart: examine everything anew, whatever an interrupted check has left.
        scheduler: the address of a Dask scheduler whose workers examine the files, with the same result; they see them
            under the same paths. None for processes of this machine.
        progress: whether to say on standard error that an earlier check is continued, and show a terminal a bar.

    Raises:
        DatasetError: there is no image, or `move_to` can't be used.
        ConfigError: an argument is out of range, or the report can't be written.
        FastpipeError: the processes die or hang whatever file they read.
    """
    outputs = [] if report is None else [(report, ending_of(report))]
    outputs += [] if json is None else [(json, ".json")]
    for file, option in ((report, "--report"), (json, "--json")):
        check_writable(None if file is None else local_path(file), option)
    begun = time.perf_counter()
    if decode not in get_args(Decode):
        raise ConfigError(f"decode={decode!r}: choose one of {', '.join(map(repr, get_args(Decode)))}")
    if scheduler is not None and jobs is not None:
        raise ConfigError("jobs are processes of this machine: with a scheduler each thread of its workers runs one.")
    jobs = usable_cpus() if jobs is None else jobs
    for name, value in (("jobs", jobs), ("size", size)):
        if value < 1:
            raise ConfigError(f"{name}={value}: give a whole number from 1")
    if not timeout > 0:
        raise ConfigError(f"timeout={timeout}: give seconds, more than 0")
    for format in current_config().readers:
        configured_reader(format)  # one that isn't there is told now, and not by each process
    with cluster_at(scheduler, ("index", str(source)), quiet=not progress) as cluster:
        index = index_of(source, BuildOptions(progress=progress, cluster=cluster))
    if move_to is not None and index.source is not None:
        raise DatasetError(
            f"the files lie in {index.source.name}, and none can be moved out of it: check without move_to, and leave "
            "the bad ones out with on_error='skip' or 'replace'."
        )
    if move_to is not None and index.containers:
        raise DatasetError(
            f"the files lie in {index.containers[0]}, and none can be moved out of it: check without move_to, and "
            "train with on_error='skip' or make the container anew without them."
        )
    target = None if move_to is None else check_target(move_to, index.root)
    rules = Rules(
        decode == "full", size, pixel_limit(max_pixels), Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES
    )
    about = {**asdict(rules), "versions": versions("pillow")}
    findings = Findings(len(index))
    with open_journal(index, about, restart) as journal:
        before = journal.count()
        if progress and before:
            print(
                f"fastpipe: goes on with a check that was interrupted: {before:,} of {len(index):,} files are done "
                "already (--restart examines them anew)",
                file=sys.stderr,
            )
        resumed = 0
        chunks = _chunks(index, journal if before else None, CHUNK if scheduler else _CHUNK[decode])
        if scheduler is None:
            answering = examine_all(chunks, rules, jobs, timeout)
        else:
            answering = examine_on(scheduler, chunks, rules, timeout, not progress)
        with (
            SlowBar("checking files", progress) as bar,
            closing(answering) as answers,  # no process outlives an interruption
        ):
            bar.expect(len(index))
            for number, seen in answers:
                path = index.path(number)
                if seen is None:
                    resumed += 1
                    seen = known(journal, path)
                    assert seen is not None
                else:
                    note(journal, path, seen)
                findings.put(number, seen)
                bar.advance()
        result = _result(index, findings, decode, rules, resumed, time.perf_counter() - begun)
        for file, ending in outputs:
            write_report(result, file, ending, journal.problem)
        if target is not None:
            rows = result.rows[: result.bad]
            moved = move_away(
                rows, index.prefix, {row.number: int(findings.table["mtime_ns"][row.number]) for row in rows}, target
            )
            result = replace(result, moved=moved)
        return result


def _chunks(index: ImageIndex, journal: Journal | None, size: int) -> Iterator[list[Task]]:
    """Yields the files to examine, so many at a time; what the journal has of one holds if the file didn't change."""
    number = 0
    for paths, _ in index.blocks():
        for start in range(0, len(paths), size):
            tasks = []
            for path in paths[start : start + size]:
                seen = None if journal is None else known(journal, path)
                tasks.append(Task(number, path, None if seen is None else (seen.bytes, seen.mtime_ns)))
                number += 1
            yield tasks


def _result(
    index: ImageIndex, findings: Findings, decode: Decode, rules: Rules, resumed: int, seconds: float
) -> CheckResult:
    bad = findings.bad
    noted = (findings.bits != 0) & ~bad
    good = np.flatnonzero(~bad)
    left = set(np.unique(index.labels[good]).tolist())
    classes = zip(index.classes, index.class_values, strict=True)
    folder = index.table.folder_paths is not None
    return CheckResult(
        index=index,
        decode=decode,
        size=rules.size,
        max_pixels=rules.max_pixels,
        rows=Rows(index, findings, np.concatenate([np.flatnonzero(bad), np.flatnonzero(noted)])),
        counts=findings.counts(),
        bad=int(bad.sum()),
        noted=int(noted.sum()),
        good=good,
        empty_classes=tuple(name for name, value in classes if value not in left) if folder else (),
        loose=len(loose_images(index.root)) if folder and index.source is None else 0,
        other_images=other_images(index),
        resumed=resumed,
        seconds=seconds,
    )
