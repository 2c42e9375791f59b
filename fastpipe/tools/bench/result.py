"""The result of one run of ``fastpipe bench``: as a value, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape

from fastpipe.reporting.output import pluralize, round_times
from fastpipe.reporting.tables import ReportTable, print_text
from fastpipe.tools.bench.choose import Choice
from fastpipe.tools.bench.measure import REQUESTS, Measurement, ReaderResult
from fastpipe.tools.timing import Timing

SCHEMA = "fastpipe-bench/4"
"""Names the layout of the JSON; the number grows when a key changes its meaning, comes or goes."""

_LEGEND = """\
Pixels equal Pillow's, else 'wrong' and not timed.
served: the images that the reader decodes itself; Pillow decodes the rest, and its time counts.
spread: half the distance between the quartiles of the rounds."""

_LEAST_WIDTH = 12  # characters of a column of figures


@dataclass(frozen=True, slots=True)
class BenchResult:
    """The measurements of one run, and what follows from them."""

    command: tuple[str, ...]  # what repeats it, word by word, every default spelt out
    measurement: Measurement  # the readers'
    choices: Mapping[str, Choice]  # format to the reader that the measurement speaks for
    platform: str  # the operating system, in words
    notes: tuple[str, ...] = ()  # readers that don't load here, and what else a person should know

    @property
    def machine(self) -> str:
        """The machine in a line."""
        machine = self.measurement.machine
        return f"{machine['processor'] or machine['architecture']}, {machine['cpus']} CPUs, {machine['system']}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; times in microseconds an image."""
        values = asdict(self)
        return {"schema": SCHEMA, **round_times(values.pop("measurement") | values)}

    def print_on(self, console: Console) -> None:
        """Prints one table for each format, what the columns mean, and what there is to note."""
        measurement = self.measurement
        rounds, workers = pluralize(measurement.rounds, "round"), pluralize(measurement.workers, "DataLoader worker")
        print_text(console, f"{self.machine}; {rounds}, {workers}")
        for format in measurement.images:
            console.print("", reader_table(measurement, format, self.choices.get(format)), sep="\n")
        print_text(console, "\n" + _LEGEND)
        if self.notes:
            print_text(console, "\n" + "\n".join(self.notes))


def reader_table(measurement: Measurement, format: str, choice: Choice | None = None) -> ReportTable:
    """The results for one format: a column for each request; a row for each reader alone, then one in workers.

    The chosen reader is marked; why it was chosen, and what went wrong with others, stands below.
    """
    images = measurement.images[format]
    columns = [*REQUESTS.values(), "served"]
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
            served = f"{min(result.served for result in results.values()):.0%}"
            table.add_row(f"{reader} *" if chosen else reader, *times, served, style="bold" if chosen else None)
    below = [] if choice is None else [f"* chosen: {choice.reason}"]
    for reader, results in by_reader.items():
        below += [f"{reader}: {note}" for note in dict.fromkeys(result.note for result in results.values()) if note]
    table.caption = escape("\n".join(below))
    return table


def _time_text(result: ReaderResult | None, place: str) -> str:
    time: Timing | None = getattr(result, place, None)
    return time.text() if time else "wrong" if result is not None and not result.exact else "-"
