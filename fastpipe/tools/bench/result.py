"""``fastpipe bench``: runs the measurement and the choice of readers; the result as a value, as tables and as JSON."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.markup import escape

from fastpipe.arguments import MOST_PROCESSES, whole_number
from fastpipe.config import format_key
from fastpipe.errors import ConfigError, UnsupportedRequestError
from fastpipe.progress_bar import ProgressCallback, no_progress
from fastpipe.readers import available_readers, default_order, get_reader, reader_status
from fastpipe.reporting.output import pluralize, round_times
from fastpipe.reporting.tables import ReportTable, print_text
from fastpipe.tools.bench.choose import Choice, choose
from fastpipe.tools.bench.measure import REQUESTS, Measurement, ReaderResult, default_workers, measure
from fastpipe.tools.bench.samples import made_samples, sample_folder
from fastpipe.tools.timing import Timing

SCHEMA = "fastpipe-bench/6"
"""Identifies the layout of the JSON; the number grows when a key is added, is removed or changes its meaning."""

_LEGEND = """\
Pixels equal Pillow's, else 'wrong' and not timed.
decoded: the images that the reader decodes itself; Pillow decodes the rest, and its time counts.
spread: half the distance between the quartiles of the rounds."""

_MOST = 1 << 20  # the most images, or rounds
_LEAST_WIDTH = 12  # the smallest width of a column of figures, in characters


@dataclass(frozen=True, slots=True)
class BenchResult:
    """The measurements of one run, and the choice of readers."""

    measurement: Measurement
    choices: Mapping[str, Choice]  # the chosen reader by format
    notes: tuple[str, ...] = ()  # readers that don't load here, and other remarks

    @property
    def machine(self) -> str:
        """Describes the machine in one line."""
        machine = self.measurement.machine
        return f"{machine['processor'] or machine['architecture']}, {machine['cpus']} CPUs, {machine['system']}"

    def to_dict(self) -> dict[str, object]:
        """The result as JSON values; times in microseconds an image."""
        values = asdict(self)
        return {"schema": SCHEMA, **round_times(values.pop("measurement") | values)}

    def print_on(self, console: Console) -> None:
        """Prints a table for each format, the meaning of the columns, and the notes."""
        measurement = self.measurement
        rounds, workers = pluralize(measurement.rounds, "round"), pluralize(measurement.workers, "DataLoader worker")
        print_text(console, f"{self.machine}; {rounds}, {workers}")
        for format in measurement.images:
            console.print("", reader_table(measurement, format, self.choices.get(format)), sep="\n")
        print_text(console, "\n" + _LEGEND)
        if self.notes:
            print_text(console, "\n" + "\n".join(self.notes))


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
    """Measures readers, and chooses one for each format; the arguments are the command's options.

    Raises:
        ConfigError: a number is out of its range, or a list of names is empty.
        DatasetError: there is no image to measure.
        ReaderError: a named reader is unknown or doesn't load here, or no reader decodes the images.
    """
    names = _split("readers", readers)
    keys = list(dict.fromkeys(map(format_key, _split("formats", formats))))
    images = whole_number("images", images, "how many images are measured of each format", least=1, most=_MOST)
    rounds = whole_number("rounds", rounds, "how often each is measured", least=1, most=_MOST)
    workers = default_workers() if workers is None else workers
    workers = whole_number("workers", workers, "the number of a loader's workers", most=MOST_PROCESSES)
    for name in names:
        get_reader(name)  # raises for an unknown reader before minutes of measuring
    if path is None:
        samples = made_samples(keys or None, images, progress=progress)
    else:
        samples = sample_folder(path, keys or None, images, progress=progress)
    measured = names or available_readers()
    measurement = measure(samples, measured, workers=workers, rounds=rounds, progress=progress)
    if not measurement.results:
        formats_there = ", ".join(measurement.images)
        raise UnsupportedRequestError(f"none of the readers {', '.join(measured)} decodes {formats_there} images")
    return BenchResult(measurement, choose(measurement), () if names else tuple(_absent(measurement.images)))


def _absent(formats: Collection[str]) -> list[str]:
    """Reasons why readers that are used by default don't load here."""
    usual = {name for format in formats for name in default_order(format.upper())}
    return [status.reason for name, status in reader_status().items() if name in usual and not status.available]


def _split(argument: str, items: Sequence[str] | None) -> list[str]:
    """Splits names at commas: ``["pil,cv2", "imageio"]`` is three names.

    Raises:
        ConfigError: there is no name.
    """
    names = [name.strip() for item in items or () for name in item.split(",") if name.strip()]
    if items and not names:
        raise ConfigError(f"{argument}={list(items)!r:.80} names none: give some, or leave it out for all.")
    return names


def reader_table(measurement: Measurement, format: str, choice: Choice | None = None) -> ReportTable:
    """The results for one format: a column for each request; rows for each reader in one process, then in workers.

    The chosen reader is marked; below the table are the reason for the choice, and other readers' errors.
    """
    images = measurement.images[format]
    columns = [*REQUESTS.values(), "decoded"]
    title = (
        f"{format}: {pluralize(images.count, 'image')} of {images.mean_bytes / 1000:.0f} kB, µs an image "
        "(median ± spread)"
    )
    table = ReportTable(["reader", *columns], columns, title=title, least_width=_LEAST_WIDTH)
    by_reader = measurement.by_reader(format)
    places = {"single": "in one process"}
    if measurement.workers:
        places["workers"] = f"in {pluralize(measurement.workers, 'worker')}"
    for place, label in places.items():
        table.add_section()
        table.add_row(f"{label}:")
        for reader, results in by_reader.items():
            chosen = choice is not None and choice.reader == reader
            times = [_time_text(results.get(request), place) for request in REQUESTS]
            decoded = f"{min(result.decoded for result in results.values()):.0%}"
            table.add_row(f"{reader} *" if chosen else reader, *times, decoded, style="bold" if chosen else None)
    below = [] if choice is None else [f"* chosen: {choice.reason}"]
    for reader, results in by_reader.items():
        below += [f"{reader}: {note}" for note in dict.fromkeys(result.note for result in results.values()) if note]
    table.caption = escape("\n".join(below))
    return table


def _time_text(result: ReaderResult | None, place: str) -> str:
    time: Timing | None = getattr(result, place, None)
    return time.text() if time else "wrong" if result is not None and not result.exact else "-"
