"""`pack` and `unpack`: list files, convert and verify them in tasks, write and read back, record."""

from __future__ import annotations

import fnmatch
import os
import time

from fastpipe.arguments import MOST_THREADS, whole_number
from fastpipe.core.library import native
from fastpipe.environment import usable_cpus
from fastpipe.errors import ConfigError, DatasetError, FastpipeError
from fastpipe.index.cluster import cluster_at
from fastpipe.index.index_source import BuildOptions
from fastpipe.packing.conversions import Conversion, Packing, Unpacking
from fastpipe.packing.pack_run import PackRun
from fastpipe.packing.plan import Layout
from fastpipe.packing.record import open_record
from fastpipe.packing.report import PackResult
from fastpipe.packing.smaller import Smaller
from fastpipe.packing.source import PackSource, open_source
from fastpipe.packing.target import Target
from fastpipe.packing.whole import WholeTarget, has_whole_record, open_whole
from fastpipe.progress_bar import SlowBar
from fastpipe.sources.cache import parse_size


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
                    PackRun(layout, record, bar, threads, cluster).run()
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
