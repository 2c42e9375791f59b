"""`check`: examines every file in parallel, then writes the report."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import starmap
from typing import get_args

import numpy as np
from PIL import Image, ImageFile

from fastpipe.arguments import MOST_PROCESSES, check_path, real_number, whole_number
from fastpipe.datasets import ImageIndex
from fastpipe.environment import usable_cpus
from fastpipe.errors import ConfigError
from fastpipe.index.cluster import cluster_at
from fastpipe.index.index_source import BuildOptions
from fastpipe.index.open import loose_images
from fastpipe.paths import local_path
from fastpipe.progress_bar import SlowBar
from fastpipe.readers import MaxPixels, check_formats, configured_reader, machine_config, pixel_limit
from fastpipe.reporting.output import check_writable
from fastpipe.tools.check.examine import Rules, Task
from fastpipe.tools.check.files import check_annotations, index_of, other_images
from fastpipe.tools.check.findings import Findings, Rows
from fastpipe.tools.check.pool import CHUNK, examine_all, examine_on
from fastpipe.tools.check.report import CheckResult, Decode, ending_of, write_report

_CHUNK = {"full": 16, "header": 256}


def check(
    source: object,
    *,
    decode: Decode = "full",
    jobs: int | None = None,
    size: int = 224,
    timeout: float = 60.0,
    max_pixels: MaxPixels = "auto",
    report: str | os.PathLike[str] | None = None,
    json: str | os.PathLike[str] | None = None,
    scheduler: str | None = None,
    progress: bool = True,
) -> CheckResult:
    """Examines every image file of a dataset: finds those that would fail in training, and notes unusual ones.

    A file is bad if `fastpipe.ImageFolder`, and so torchvision's with Pillow, would raise for it; other findings are
    noted. Separate processes read the files, so that a file that kills or hangs its reader is a finding, and the check
    goes on.

    Args:
        source: a folder of class folders; a folder that holds images itself; a zip or tar of class folders, shards or
            Parquet files with images; the folder of an index; a list file of `ImageList`; one image file; an
            `ImageIndex`, `ImageFolder` or `ImageList`; a `CocoDetection`, `VOCDetection` or `VOCSegmentation`, whose
            annotations are read as well.
        decode: ``"full"`` decodes all pixels; ``"header"`` reads headers only, many times as fast, and finds neither
            truncated files nor damaged pixels.
        jobs: the number of processes; None for one for each usable CPU.
        size: the side in pixels that training needs; files of more than four times that are noted as large.
        timeout: the most seconds for reading and decoding one file.
        max_pixels: as in `fastpipe.readers.read_image`.
        report: a file to write all rows to: ``.csv``, ``.json`` or ``.txt``.
        json: another file to write all rows to, as JSON whatever its ending.
        scheduler: the address of a Dask scheduler whose workers examine the files, with the same result; they must see
            the files under the same paths. None for processes of this machine.
        progress: show a progress bar in a terminal.

    Raises:
        DatasetError: there is no image.
        ConfigError: an argument is out of range, or the report can't be written.
        FastpipeError: the processes die or hang, whatever file they read.
    """
    outputs = []
    for name, file in (("report", report), ("json", json)):
        if file is not None:
            check_path(name, file, "the file to write")
            outputs.append((file, ".json" if name == "json" else ending_of(file), f"--{name}"))
    for file, _, option in outputs:
        check_writable(local_path(file), option)
    begun = time.perf_counter()
    if decode not in get_args(Decode):
        raise ConfigError(f"decode={decode!r}: choose one of {', '.join(map(repr, get_args(Decode)))}")
    if scheduler is not None and jobs is not None:
        raise ConfigError("jobs are processes of this machine: with a scheduler each thread of its workers runs one.")
    jobs = usable_cpus() if jobs is None else jobs
    jobs = whole_number("jobs", jobs, "the number of processes", least=1, most=MOST_PROCESSES)
    size = whole_number("size", size, "the side in pixels that training needs", least=1)
    timeout = real_number("timeout", timeout, "the seconds that a file may take")
    for format in machine_config().readers:
        configured_reader(format)  # warn about a missing reader now, and not in each process
    check_formats(machine_config().readers)
    with cluster_at(scheduler, ("index", str(source)), quiet=not progress) as cluster:
        index = index_of(source, BuildOptions(progress=progress, cluster=cluster))
    rules = Rules(
        decode == "full", size, pixel_limit(max_pixels), Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES
    )
    findings = Findings(len(index))
    chunks = _chunks(index, CHUNK if scheduler else _CHUNK[decode])
    if scheduler is None:
        answering = examine_all(chunks, rules, jobs, timeout)
    else:
        answering = examine_on(scheduler, chunks, rules, timeout, not progress)
    with (
        SlowBar("checking files", progress) as bar,
        closing(answering) as answers,  # ends the processes after an interrupt
    ):
        bar.expect(len(index))
        for number, seen in answers:
            findings.put(number, seen)
            bar.advance()
    check_annotations(source, findings)
    result = _result(index, findings, decode, rules, time.perf_counter() - begun)
    for file, ending, option in outputs:
        write_report(result, file, ending, option)
    return result


def _chunks(index: ImageIndex, size: int) -> Iterator[list[Task]]:
    """Yields the files to examine, `size` at a time."""
    number = 0
    for paths, _ in index.blocks():
        for start in range(0, len(paths), size):
            some = paths[start : start + size]
            yield [*starmap(Task, enumerate(some, number))]
            number += len(some)


def _result(index: ImageIndex, findings: Findings, decode: Decode, rules: Rules, seconds: float) -> CheckResult:
    bad = findings.bad
    noted = (findings.bits != 0) & ~bad
    good = np.flatnonzero(~bad)
    left = set(np.unique(index.labels[good]).tolist())
    classes = zip(index.classes, index.class_values, strict=True)
    folder = index.table.folders is not None
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
        seconds=seconds,
    )
