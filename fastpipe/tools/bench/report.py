"""A record for people: tables on the terminal, or as a page."""

from __future__ import annotations

import shlex

from rich.console import Console
from rich.markup import escape

from fastpipe.reporting.output import pluralize, wrap_text
from fastpipe.reporting.page import page
from fastpipe.reporting.tables import ReportTable
from fastpipe.tools.bench.choose import Choice
from fastpipe.tools.bench.measure import REQUESTS, Measurement, Result
from fastpipe.tools.bench.pipeline import CONTENDERS, PIPELINES
from fastpipe.tools.bench.record import Record
from fastpipe.tools.timing import Timing, speedup

_LEGEND = """\
whole and region: pixels equal to Pillow's, else 'wrong' and not timed.
1/2 size: exact size and close to Pillow's.
served: the images that the reader decodes itself; Pillow decodes the rest, and its time counts.
spread: half the distance between the quartiles of the rounds."""

_LEAST_WIDTH = 12  # characters of a column of figures


def _places_of(measurement: Measurement, alone: str, together: str) -> dict[str, str]:
    """The places where times were taken: the attribute of a result, and what it is called in front of people."""
    workers = pluralize(measurement.workers, "worker")
    return {"single": alone} | ({"workers": f"{together} {workers}"} if measurement.workers else {})


def bench_table(measurement: Measurement, format: str, choice: Choice | None = None) -> ReportTable:
    """The results for one format: a column for each request; a row for each reader alone, then one in workers.

    The chosen reader is marked; why it was chosen, and what went wrong with others, stands below.
    """
    images, kilobytes = measurement.images[format], measurement.bytes[format] / 1000
    columns = list(REQUESTS.values())
    title = f"{format}: {pluralize(images, 'image')} of {kilobytes:.0f} kB, µs an image (median ± spread)"
    table = ReportTable(["reader", *columns, "served"], [*columns, "served"], title=title, least_width=_LEAST_WIDTH)
    by_reader = measurement.by_reader(format)
    for place, label in _places_of(measurement, "in one process", "in").items():
        table.add_section()
        table.add_row(f"{label}:")
        for reader, results in by_reader.items():
            chosen = choice is not None and choice.reader == reader
            times = [_timed(results.get(request), place) for request in REQUESTS]
            served = f"{min(result.served for result in results.values()):.0%}"
            table.add_row(f"{reader} *" if chosen else reader, *times, served, style="bold" if chosen else None)
    below = [] if choice is None else [f"* chosen: {choice.reason}"]
    for reader, results in by_reader.items():
        below += [f"{reader}: {note}" for note in dict.fromkeys(result.note for result in results.values()) if note]
    table.caption = escape("\n".join(below))
    return table


def _timed(result: Result | None, place: str) -> str:
    time: Timing | None = getattr(result, place, None)
    return time.text() if time else "wrong" if result is not None and not result.exact else "-"


def pipeline_table(record: Record, format: str) -> ReportTable:
    """fastpipe's pipelines beside torchvision's on the files of one format, alone and through a DataLoader."""
    shown = [who for who in CONTENDERS if any(one.who == who for one in record.pipelines)]
    columns = [*shown, *(["times as fast"] if len(shown) > 1 else [])]
    title = f"{format}: from a file to a tensor, ms an image (median ± spread)"
    table = ReportTable(["pipeline", *columns], columns, title=title, least_width=_LEAST_WIDTH)
    for place, label in _places_of(record.measurement, "in one process and thread", "DataLoader with").items():
        table.add_section()
        table.add_row(f"{label}:")
        for name in PIPELINES:
            found = record.pipelines_of(format, name)
            times: list[Timing] = [getattr(found[who], place) for who in shown]
            gain = [speedup(*times).text(1, 2)] if len(times) > 1 else []
            table.add_row(name, *(time.text(1000, 2) for time in times), *gain)
    return table


def print_record(console: Console, record: Record) -> None:
    """Prints one table for each format, what the columns mean, the pipelines, and what there is to note."""
    measurement = record.measurement

    def print_lines(*texts: str) -> None:
        for text in texts:
            console.print(wrap_text(text, width=console.width), markup=False, soft_wrap=True)

    rounds, workers = pluralize(measurement.rounds, "round"), pluralize(measurement.workers, "DataLoader worker")
    print_lines(f"{record.machine}; {rounds}, {workers}")
    for format in measurement.images:
        console.print("", bench_table(measurement, format, record.choices.get(format)), sep="\n")
    print_lines("\n" + _LEGEND)
    for format in record.pipeline_formats:
        console.print("", pipeline_table(record, format), sep="\n")
    if record.notes:
        print_lines("\n" + "\n".join(record.notes))


def make_page(record: Record) -> str:
    """The tables of the terminal, and how to repeat the run, as one HTML file that needs nothing else."""
    measured = record.measurement.created.replace("T", ", ").replace("+00:00", " UTC")

    def show(console: Console) -> None:
        print_record(console, record)
        lines = ["To measure again:", f"  {record.command_line}"]
        if record.choices:
            chosen = [f"--set={format}={one.reader}" for format, one in record.choices.items()]
            lines += ["To use the chosen readers:", f"  {shlex.join(['fastpipe', 'configure', *chosen])}"]
        versions = ", ".join(f"{name} {version}" for name, version in sorted(record.versions.items()))
        lines += [f"Platform: {record.platform}", f"Versions: {versions}"]
        for line in ("", *lines):
            console.print(wrap_text(line, width=console.width), markup=False, soft_wrap=True)

    return page(f"Image readers on {record.machine}", f"Measured {measured}.", show)
