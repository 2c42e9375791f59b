"""The commands ``fastpipe bench`` and ``fastpipe configure``, their arguments parsed."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from fastpipe.config import MachineConfig, format_key
from fastpipe.environment import versions
from fastpipe.errors import ConfigError, FastpipeError, UnsupportedRequestError
from fastpipe.readers import available_readers, default_order, get_reader, reader_status
from fastpipe.reporting.output import (
    ProgressCallback,
    check_writable,
    make_console,
    show_progress,
    wrap_text,
    write_file,
    write_json_if_asked,
)
from fastpipe.tools.bench.choose import Choice, choose, print_readers, to_config
from fastpipe.tools.bench.measure import Measurement, measure
from fastpipe.tools.bench.pipeline import CONTENDERS, PipelineResult, measure_pipelines
from fastpipe.tools.bench.record import Record, to_json
from fastpipe.tools.bench.report import make_page, print_record
from fastpipe.tools.bench.samples import Sample, made_samples, sample_folder, write_samples
from fastpipe.tools.torchvision_mirror import import_torchvision


def bench(
    path: str | os.PathLike[str] | None = None,
    *,
    json: str | None = None,
    html: str | None = None,
    quiet: bool = False,
    **sampling: Any,
) -> Record:
    """Measures readers, prints tables, and writes what is asked for.

    Args:
        path, sampling: as `measure_record` takes them.
        json: a file; ``"-"`` for standard output, where the tables then don't go.
        html: a file for the report as a page.
        quiet: no progress bar and no table.

    Raises:
        ConfigError: a file can't be written; and what `measure_record` raises.
    """
    check_writable(json, "--json")
    check_writable(html, "--html")
    record = measure_record(path, quiet, **sampling)
    shown = write_json_if_asked(json, to_json(record), quiet)
    if shown:
        print_record(make_console(), record)
    if html is not None:
        write_file(html, make_page(record), "--html")
        if shown:
            print(wrap_text(f"\nWritten: {html}"))
    return record


def configure(
    path: str | os.PathLike[str] | None = None,
    *,
    json: str | None = None,
    quiet: bool = False,
    file: Path | None = None,
    **sampling: Any,
) -> MachineConfig:
    """Measures as `bench` does, chooses a reader for each format and writes the config file.

    What an earlier file says of formats that were not measured now is kept where it still holds on this machine.

    Args:
        file: the config file; None for the user's. The others are `bench`'s.

    Raises:
        ConfigError: the config file can't be written; and what `bench` raises.
    """
    try:
        earlier = MachineConfig.load(file, check=False)
    except ConfigError:
        earlier = None  # about to be replaced
    check_writable(json, "--json")
    record = measure_record(path, quiet, **sampling)
    config = to_config(record.measurement, record.choices, earlier)
    written = config.save(file)  # first of all: a closed pipe must not cost the measurement
    if write_json_if_asked(json, to_json(record), quiet):
        print_record(make_console(), record)
        print(f"\nWritten to {written}:")
        print_readers(config)
    return config


def measure_record(
    path: str | os.PathLike[str] | None,
    quiet: bool,
    *,
    readers: Sequence[str] | None = None,
    formats: Sequence[str] | None = None,
    workers: int | None = None,
    images: int = 24,
    rounds: int = 7,
    pipeline: bool = False,
) -> Record:
    """Measures readers, and whole pipelines if they are asked for, and chooses a reader for each format.

    Args:
        path: a folder or file of the user's; None for made images.
        quiet: no progress bar.
        readers: names, each item maybe several with commas between; None for all that load here.
        formats: the config's keys of formats, likewise; None for all that are found.
        workers: DataLoader workers; None for one a usable CPU.
        images: of each format, at most.
        rounds: timed ones.
        pipeline: also time pipelines, beside torchvision's where that loads.

    Raises:
        DatasetError: no image to measure.
        ReaderError: a named reader is unknown or doesn't load here, or none decodes the images.
    """
    names, wanted = _split(readers), _split(formats)
    keys = None if wanted is None else list(dict.fromkeys(format_key(name) for name in wanted))
    for name in names or ():
        get_reader(name)  # before minutes of measuring
    with show_progress(quiet) as progress:
        if path is None:
            samples = made_samples(keys or ("jpeg", "png", "webp"), images, progress=progress)
        else:
            samples = sample_folder(path, keys, images, progress=progress)
        measurement = measure(samples, names, workers=workers, rounds=rounds, progress=progress)
        refused = _refused(names or available_readers(), measurement.images)
        if not measurement.results:
            tried = ", ".join(names or available_readers())
            said = [f"none of the readers {tried} decodes {', '.join(measurement.images)} images", *refused]
            raise UnsupportedRequestError("; ".join(said))
        choices = choose(measurement)
        notes = [*([] if names else _absent(measurement.images)), *refused]
        pipelines = _pipelines(samples, choices, measurement, progress, notes) if pipeline else ()
    command = (
        *("fastpipe", "bench"),
        *([] if path is None else [os.fspath(path)]),
        *([f"--readers={','.join(names)}"] if names else []),
        *([f"--format={','.join(keys)}"] if keys else []),
        # Defaults that depend on the machine are spelt out.
        *(f"--workers={measurement.workers}", f"--images={images}", f"--rounds={rounds}"),
        *(["--pipeline"] if pipeline else []),
    )
    found = {**measurement.versions, **versions("torch")}
    return Record(command, measurement, choices, pipelines, platform.platform(), found, tuple(notes))


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


def _pipelines(
    samples: Sequence[Sample],
    choices: Mapping[str, Choice],
    measurement: Measurement,
    progress: ProgressCallback | None,
    notes: list[str],
) -> tuple[PipelineResult, ...]:
    """The pipelines on the samples, written to a folder of their own; gives notes a reason to compare nothing."""
    contenders = list(CONTENDERS)
    try:
        import_torchvision()
    except FastpipeError as error:
        contenders.remove("torchvision")
        notes.append(f"no comparison of pipelines: {error}")
    config = MachineConfig(readers={format: choice.reader for format, choice in choices.items()})
    options: dict[str, Any] = {"workers": measurement.workers, "rounds": measurement.rounds, "progress": progress}
    with tempfile.TemporaryDirectory(prefix="fastpipe-bench-") as folder:
        return measure_pipelines(write_samples(samples, folder), config, contenders=contenders, **options)


def _split(items: Sequence[str] | None) -> list[str] | None:
    """``["pil,cv2", "imageio"]`` as three names; None where nothing is named."""
    names = [name.strip() for item in items or () for name in item.split(",") if name.strip()]
    return names or None
