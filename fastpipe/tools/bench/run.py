"""The measurement of ``fastpipe bench`` and ``fastpipe configure``, from the images to the choice of readers."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Collection, Sequence

from fastpipe.config import MachineConfig, format_key
from fastpipe.errors import FastpipeError, UnsupportedRequestError
from fastpipe.progress_bar import ProgressCallback, no_progress
from fastpipe.readers import available_readers, default_order, get_reader, reader_status
from fastpipe.tools.bench.choose import choose
from fastpipe.tools.bench.measure import measure
from fastpipe.tools.bench.pipeline import CONTENDERS, PipelineResult, measure_pipelines
from fastpipe.tools.bench.result import BenchResult
from fastpipe.tools.bench.samples import made_samples, sample_folder, write_samples
from fastpipe.tools.torchvision_mirror import import_torchvision


def bench(
    path: str | os.PathLike[str] | None = None,
    *,
    readers: Sequence[str] | None = None,
    formats: Sequence[str] | None = None,
    workers: int | None = None,
    images: int = 24,
    rounds: int = 7,
    pipeline: bool = False,
    progress: ProgressCallback = no_progress,
) -> BenchResult:
    """Measures readers, and whole pipelines if they are asked for, and chooses a reader for each format.

    Args:
        path: a folder or file of the user's; None for made images.
        readers: names, each item maybe several with commas between; None for all that load here.
        formats: the config's keys of formats, likewise; None for all that are found.
        workers: DataLoader workers; None for one a usable CPU.
        images: of each format, at most.
        rounds: timed ones.
        pipeline: also time pipelines, beside torchvision's where that loads.
        progress: told of each step.

    Raises:
        DatasetError: no image to measure.
        ReaderError: a named reader is unknown or doesn't load here, or none decodes the images.
    """
    names = _split(readers)
    keys = list(dict.fromkeys(map(format_key, _split(formats))))
    for name in names:
        get_reader(name)  # before minutes of measuring
    if path is None:
        samples = made_samples(keys or None, images, progress=progress)
    else:
        samples = sample_folder(path, keys or None, images, progress=progress)
    measured = names or available_readers()
    measurement = measure(samples, measured, workers=workers, rounds=rounds, progress=progress)
    refused = _refused(measured, measurement.images)
    if not measurement.results:
        said = [f"none of the readers {', '.join(measured)} decodes {', '.join(measurement.images)} images", *refused]
        raise UnsupportedRequestError("; ".join(said))
    choices = choose(measurement)
    notes = [*([] if names else _absent(measurement.images)), *refused]
    pipelines: tuple[PipelineResult, ...] = ()
    if pipeline:
        contenders = list(CONTENDERS)
        try:
            import_torchvision()
        except FastpipeError as error:
            contenders.remove("torchvision")
            notes.append(f"no comparison of pipelines: {error}")
        with tempfile.TemporaryDirectory(prefix="fastpipe-bench-") as folder:
            pipelines = measure_pipelines(
                write_samples(samples, folder),
                MachineConfig(readers={format: choice.reader for format, choice in choices.items()}),
                contenders=contenders,
                workers=measurement.workers,
                rounds=rounds,
                progress=progress,
            )
    command = (
        *("fastpipe", "bench"),
        *([] if path is None else [os.fspath(path)]),
        *([f"--readers={','.join(names)}"] if names else []),
        *([f"--format={','.join(keys)}"] if keys else []),
        # Defaults that depend on the machine are spelt out.
        *(f"--workers={measurement.workers}", f"--images={images}", f"--rounds={rounds}"),
        *(["--pipeline"] if pipeline else []),
    )
    return BenchResult(command, measurement, choices, pipelines, platform.platform(), tuple(notes))


def _absent(formats: Collection[str]) -> list[str]:
    """Reasons why readers that come before others by default don't load here; whoever wants one more installs it."""
    usual = {name for format in formats for name in default_order(format.upper())}
    return [status.reason for name, status in reader_status().items() if name in usual and not status.available]


def _refused(names: Sequence[str], formats: Collection[str]) -> list[str]:
    """The files that readers don't decode of these formats because of a defect in their library's version."""
    return [
        f"{name} doesn't decode {defect}"
        for name in names
        for defect in get_reader(name).defects
        if not {format_key(format) for format in defect.formats}.isdisjoint(formats)
    ]


def _split(items: Sequence[str] | None) -> list[str]:
    """``["pil,cv2", "imageio"]`` as three names."""
    return [name.strip() for item in items or () for name in item.split(",") if name.strip()]
