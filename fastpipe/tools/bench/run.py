"""The measurement of ``fastpipe bench`` and ``fastpipe configure``, from the images to the choice of readers."""

from __future__ import annotations

import os
import platform
from collections.abc import Collection, Sequence

from fastpipe.config import format_key
from fastpipe.errors import UnsupportedRequestError
from fastpipe.progress_bar import ProgressCallback, no_progress
from fastpipe.readers import available_readers, default_order, get_reader, reader_status
from fastpipe.tools.bench.choose import choose
from fastpipe.tools.bench.measure import measure
from fastpipe.tools.bench.result import BenchResult
from fastpipe.tools.bench.samples import made_samples, sample_folder


def bench(
    path: str | os.PathLike[str] | None = None,
    *,
    readers: Sequence[str] | None = None,
    formats: Sequence[str] | None = None,
    workers: int | None = None,
    images: int = 24,
    rounds: int = 7,
    progress: ProgressCallback = no_progress,
) -> BenchResult:
    """Measures readers, and chooses one for each format; the options are the command's.

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
    if not measurement.results:
        formats_there = ", ".join(measurement.images)
        raise UnsupportedRequestError(f"none of the readers {', '.join(measured)} decodes {formats_there} images")
    choices = choose(measurement)
    notes = () if names else tuple(_absent(measurement.images))
    command = (
        *("fastpipe", "bench"),
        *([] if path is None else [os.fspath(path)]),
        *([f"--readers={','.join(names)}"] if names else []),
        *([f"--format={','.join(keys)}"] if keys else []),
        # Defaults that depend on the machine are spelt out.
        *(f"--workers={measurement.workers}", f"--images={images}", f"--rounds={rounds}"),
    )
    return BenchResult(command, measurement, choices, platform.platform(), notes)


def _absent(formats: Collection[str]) -> list[str]:
    """Reasons why readers that come before others by default don't load here; whoever wants one more installs it."""
    usual = {name for format in formats for name in default_order(format.upper())}
    return [status.reason for name, status in reader_status().items() if name in usual and not status.available]


def _split(items: Sequence[str] | None) -> list[str]:
    """``["pil,cv2", "imageio"]`` as three names."""
    return [name.strip() for item in items or () for name in item.split(",") if name.strip()]
