"""What ``fastpipe bench`` and ``fastpipe configure`` do once their arguments are parsed."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from fastpipe.bench.choose import Choice, choose, to_config
from fastpipe.bench.compare import compare as compare_records
from fastpipe.bench.compare import comparison_json, print_comparison
from fastpipe.bench.measure import Measurement, measure
from fastpipe.bench.page import make_page
from fastpipe.bench.pipeline import CONTENDERS, PipelineResult, measure_pipelines
from fastpipe.bench.plots import check_matplotlib, draw, to_png
from fastpipe.bench.record import Record, all_versions, read_record, to_json
from fastpipe.bench.reference import import_torchvision
from fastpipe.bench.report import (
    check_writable,
    make_console,
    make_folder,
    print_record,
    show_progress,
    write_file,
    write_json,
)
from fastpipe.bench.samples import Sample, made_samples, sample_folder, write_samples
from fastpipe.bench.stored import print_readers
from fastpipe.config import MachineConfig, format_key
from fastpipe.errors import ConfigError, FastpipeError, UnsupportedRequestError
from fastpipe.readers import available_readers, get_reader, reader_status

__all__ = ["bench", "configure"]


def bench(
    path: str | os.PathLike[str] | None = None,
    *,
    readers: Sequence[str] | None = None,
    formats: Sequence[str] | None = None,
    workers: int | None = None,
    images: int = 24,
    rounds: int = 7,
    pipeline: bool = False,
    measured: str | None = None,
    compare: str | None = None,
    json: str | None = None,
    html: str | None = None,
    plots: str | None = None,
    quiet: bool = False,
) -> Record:
    """Measures, or takes what was measured, prints tables, and writes what is asked for.

    Args:
        path: a folder or file of the user's; None for made images.
        readers: names, each item maybe several with commas between; None for all that load here.
        formats: the config's keys of formats, likewise; None for all found.
        workers: DataLoader workers; None for one a usable CPU.
        images: of each format, at most.
        rounds: timed rounds.
        pipeline: also measure whole pipelines, beside torchvision's where that loads.
        measured: an earlier run's JSON, to report on in place of measuring.
        compare: an older run's JSON, to compare with.
        json: a file; ``"-"`` for standard output, where the tables then don't go.
        html: a file for the report as a page.
        plots: a folder for the report's pictures as PNG.
        quiet: no progress bar and no table.

    Returns:
        What was measured.

    Raises:
        DatasetError: no image to measure.
        ReaderError: a named reader is unknown or doesn't load here, or none decodes the images.
        ConfigError: a JSON file can't be read, or a file can't be written.
        FastpipeError: pictures are asked for and matplotlib isn't there.
    """
    for file, option in ((json, "--json"), (html, "--html")):
        if file is not None:
            check_writable(file, option)
    if plots is not None:
        make_folder(plots, "--plots")
    if html is not None or plots is not None:
        check_matplotlib()
    before = None if compare is None else read_record(compare)
    if measured is not None:
        record = read_record(measured)
    else:
        record = _measure(path, readers, formats, workers, images, rounds, quiet, pipeline)
    comparison = None if before is None else compare_records(before, record)
    if not quiet and json != "-":
        console = make_console()
        print_record(console, record)
        if comparison is not None and before is not None:
            console.print()
            print_comparison(console, comparison, before, record)
    if json is not None:
        write_json(json, to_json(record) | ({"comparison": comparison_json(comparison)} if comparison else {}))
    written = []
    if html is not None:
        write_file(html, make_page(record, comparison, before), "--html")
        written.append(html)
    if plots is not None:
        for name, figure in draw(record).items():
            file = os.path.join(plots, f"{name}.png")
            write_file(file, to_png(figure), "--plots")
            written.append(file)
    if written and not quiet and json != "-":
        print(f"\nWritten: {', '.join(written)}")
    return record


def configure(
    path: str | os.PathLike[str] | None = None,
    *,
    readers: Sequence[str] | None = None,
    formats: Sequence[str] | None = None,
    workers: int | None = None,
    images: int = 24,
    rounds: int = 7,
    json: str | None = None,
    quiet: bool = False,
    file: Path | None = None,
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
    if json is not None:
        check_writable(json, "--json")
    record = _measure(path, readers, formats, workers, images, rounds, quiet)
    config = to_config(record.measurement, record.choices, earlier)
    written = config.save(file)  # first of all: a closed pipe must not cost the measurement
    if json is not None:
        write_json(json, to_json(record))
    if not quiet and json != "-":
        print_record(make_console(), record)
        print(f"\nWritten to {written}:")
        print_readers(config)
    return config


def _measure(
    path: str | os.PathLike[str] | None,
    readers: Sequence[str] | None,
    formats: Sequence[str] | None,
    workers: int | None,
    images: int,
    rounds: int,
    quiet: bool,
    pipeline: bool = False,
) -> Record:
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
        notes = [] if names else [status.reason for status in reader_status().values() if not status.available]
        notes += refused
        found: tuple[PipelineResult, ...] = ()
        if pipeline:
            found, said = _pipelines(samples, choices, measurement, progress)
            notes += said
    return Record(
        command=_command(path, names, keys, measurement.workers, images, rounds, pipeline),
        measurement=measurement,
        choices=choices,
        pipelines=found,
        platform=platform.platform(),
        versions=all_versions(measurement.versions),
        notes=tuple(notes),
    )


def _refused(names: Sequence[str], formats: Collection[str]) -> list[str]:
    """What readers don't decode of these formats because of a defect in their library's version."""
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
    progress: Callable[[int, int, str], None] | None,
) -> tuple[tuple[PipelineResult, ...], list[str]]:
    """The pipelines on the samples, written to a folder of their own, and what there is to note."""
    contenders, notes = list(CONTENDERS), []
    try:
        import_torchvision()
    except FastpipeError as error:
        contenders.remove("torchvision")
        notes.append(f"no comparison of pipelines: {error}")
    config = MachineConfig(readers={format: choice.reader for format, choice in choices.items()})
    with tempfile.TemporaryDirectory(prefix="fastpipe-bench-") as folder:
        found = measure_pipelines(
            write_samples(samples, folder),
            config,
            contenders=contenders,
            workers=measurement.workers,
            rounds=measurement.rounds,
            progress=progress,
        )
    return found, notes


def _command(
    path: str | os.PathLike[str] | None,
    readers: Sequence[str] | None,
    formats: Sequence[str] | None,
    workers: int,
    images: int,
    rounds: int,
    pipeline: bool,
) -> tuple[str, ...]:
    """What repeats a measurement anywhere: defaults that depend on the machine are spelt out."""
    return (
        *("fastpipe", "bench"),
        *([] if path is None else [os.fspath(path)]),
        *([f"--readers={','.join(readers)}"] if readers else []),
        *([f"--format={','.join(formats)}"] if formats else []),
        *(f"--workers={workers}", f"--images={images}", f"--rounds={rounds}"),
        *(["--pipeline"] if pipeline else []),
    )


def _split(items: Sequence[str] | None) -> list[str] | None:
    """``["pil,cv2", "imageio"]`` as three names; None where nothing is named."""
    names = [name.strip() for item in items or () for name in item.split(",") if name.strip()]
    return names or None
