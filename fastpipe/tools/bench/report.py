"""A record for people: tables on the terminal, pictures, and both as a page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console

from fastpipe.reporting.output import in_words, wrapped
from fastpipe.reporting.page import page
from fastpipe.reporting.plots import INK, new_figure, style
from fastpipe.reporting.tables import Table
from fastpipe.tools.bench.choose import Choice, deciding_time
from fastpipe.tools.bench.measure import REQUESTS, Measurement, Result
from fastpipe.tools.bench.pipeline import CONTENDERS, PIPELINES
from fastpipe.tools.bench.record import Record
from fastpipe.tools.timing import Timing, speedup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEGEND = """\
whole and region: pixels equal to Pillow's, else 'wrong' and not timed.
1/2 size: exact size and close to Pillow's.
served: the images that the reader decodes itself; Pillow decodes the rest, and its time counts.
spread: half the distance between the quartiles of the rounds."""

_LEAST = 12  # characters of a column of figures

# Told apart by people who see colours differently (Okabe and Ito), and legible on white and on black.
_COLORS: Mapping[str, str] = {
    "full": "#0072b2",
    "region": "#e69f00",
    "half": "#009e73",
    "fastpipe": "#e69f00",
    "torchvision": "#0072b2",
}


def _places_of(measurement: Measurement) -> dict[str, str]:
    """The places where times were taken: the attribute of a result, and what it is called in front of people."""
    places = {"single": "in one process"}
    workers = measurement.workers
    if workers:
        places["workers"] = f"in {in_words(workers, 'worker')}"
    return places


def _pipeline_places(measurement: Measurement) -> dict[str, str]:
    loader = f"DataLoader with {in_words(measurement.workers, 'worker')}"
    return {"single": "in one process and thread"} | ({"workers": loader} if measurement.workers else {})


def bench_table(measurement: Measurement, format: str, choice: Choice | None = None) -> Table:
    """The results for one format: a column for each request; a row for each reader alone, then one in workers.

    The chosen reader is marked; why it was chosen, and what went wrong with others, stands below.
    """
    images, kilobytes = measurement.images[format], measurement.bytes[format] / 1000
    columns = list(REQUESTS.values())
    title = f"{format}: {in_words(images, 'image')} of {kilobytes:.0f} kB, µs an image (median ± spread)"
    table = Table(title, ["reader", *columns, "served"], [*columns, "served"], _LEAST)
    by_reader = measurement.by_reader(format)
    for place, label in _places_of(measurement).items():
        table.add(f"{label}:", section=True)
        for reader, results in by_reader.items():
            chosen = choice is not None and choice.reader == reader
            times = [_timed(results.get(request), place) for request in REQUESTS]
            served = f"{min(result.served for result in results.values()):.0%}"
            table.add(f"{reader} *" if chosen else reader, *times, served, style="bold" if chosen else "")
    below = [] if choice is None else [f"* chosen: {choice.reason}"]
    for reader, results in by_reader.items():
        below += [f"{reader}: {note}" for note in dict.fromkeys(result.note for result in results.values()) if note]
    table.caption = "\n".join(below)
    return table


def _timed(result: Result | None, place: str) -> str:
    time: Timing | None = getattr(result, place, None)
    return time.text() if time else "wrong" if result is not None and not result.exact else "-"


def pipeline_table(record: Record, format: str) -> Table:
    """fastpipe's pipelines beside torchvision's on the files of one format, alone and through a DataLoader."""
    shown = [who for who in CONTENDERS if any(one.who == who for one in record.pipelines)]
    columns = [*shown, *(["times as fast"] if len(shown) > 1 else [])]
    title = f"{format}: from a file to a tensor, ms an image (median ± spread)"
    table = Table(title, ["pipeline", *columns], columns, _LEAST)
    for place, label in _pipeline_places(record.measurement).items():
        table.add(f"{label}:", section=True)
        for name in PIPELINES:
            found = record.pipelines_of(format, name)
            times: list[Timing] = [getattr(found[who], place) for who in shown]
            gain = [speedup(*times).text(1, 2)] if len(times) > 1 else []
            table.add(name, *(time.text(1000, 2) for time in times), *gain)
    return table


def print_record(console: Console, record: Record) -> None:
    """Prints one table for each format, what the columns mean, the pipelines, and what there is to note."""
    measurement = record.measurement

    def print_lines(*texts: str) -> None:
        for text in texts:
            console.print(wrapped(text, width=console.width), markup=False, soft_wrap=True)

    rounds, workers = in_words(measurement.rounds, "round"), in_words(measurement.workers, "DataLoader worker")
    print_lines(f"{record.machine}; {rounds}, {workers}")
    for format in measurement.images:
        console.print("", bench_table(measurement, format, record.choices.get(format)).to_rich(), sep="\n")
    print_lines("\n" + _LEGEND)
    for format in record.pipeline_formats:
        console.print("", pipeline_table(record, format).to_rich(), sep="\n")
    if record.notes:
        print_lines("\n" + "\n".join(record.notes))


def make_page(record: Record) -> str:
    """The pictures, the tables of the terminal, and how to repeat the run, as one HTML file that needs nothing else.

    Raises:
        ConfigError: matplotlib, which draws the pictures, doesn't load.
    """
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
            console.print(wrapped(line, width=console.width), markup=False, soft_wrap=True)

    return page(f"Image readers on {record.machine}", f"Measured {measured}.", draw(record), show)


def draw(record: Record) -> dict[str, Figure]:
    """One figure for each format's readers, named ``readers-jpeg``, and one for its pipelines, ``pipelines-jpeg``.

    Raises:
        ConfigError: matplotlib doesn't load.
    """
    with style():
        figures = {f"readers-{format}": _readers(record, format) for format in record.measurement.images}
        for format in record.pipeline_formats:
            figures[f"pipelines-{format}"] = _pipelines(record, format)
    return figures


def _readers(record: Record, format: str) -> Figure:
    """Readers from the fastest down, by what they were chosen by; a panel for each place."""
    measurement = record.measurement
    found = {
        reader: timed
        for reader, results in measurement.by_reader(format).items()
        if (timed := {request: one for request, one in results.items() if one.single is not None})
    }

    def slowness(reader: str) -> float:
        time = deciding_time(found[reader].get("region") or next(iter(found[reader].values())))
        return time.median_us if time else 0.0

    choice = record.choices.get(format)
    chosen = choice.reader if choice else ""
    readers = sorted(found, key=slowness, reverse=True)
    rows = {f"{reader} (chosen)" if reader == chosen else reader: found[reader] for reader in readers}
    requests = {name: word for name, word in REQUESTS.items() if any(name in results for results in found.values())}
    title = f"{format} readers: {measurement.images[format]} images of {measurement.bytes[format] / 1000:.0f} kB"
    return _bars(title, _places_of(measurement), rows, requests, "µs", 1)[0]


def _pipelines(record: Record, format: str) -> Figure:
    rows = {name: found for name in reversed(PIPELINES) if (found := record.pipelines_of(format, name))}
    shown = {who: who for who in CONTENDERS if any(one.who == who for one in record.pipelines)}
    places = _pipeline_places(record.measurement)
    figure, panels = _bars(f"{format}, from a file to a tensor", places, rows, shown, "ms", 1000)
    for panel, place in zip(panels, places, strict=True):
        for row, found in enumerate(rows.values()):
            if len(found) > 1:
                ours, theirs = (getattr(found[who], place) for who in CONTENDERS)
                where = max(ours.rounds_us) / 1000, row + 0.2
                gain = f"{speedup(ours, theirs).median_us:.1f}×"
                panel.annotate(gain, where, xytext=(5, 0), textcoords="offset points", va="center")
    return figure


def _bars(
    title: str,
    places: Mapping[str, str],
    rows: Mapping[str, Mapping[str, Any]],
    kinds: Mapping[str, str],
    unit: str,
    unit_us: float,
) -> tuple[Figure, list[Any]]:
    """A panel for each place, with the same axes; in it for each row a bar of each kind: the median, and a line from
    the least to the most; the first of a row's bars on top.
    """
    figure = new_figure(9, 1.1 + 0.24 * max(len(rows) * len(kinds), 3), title)
    panels = list(figure.subplots(1, len(places), sharex=True, sharey=True, squeeze=False)[0])
    height = 0.8 / max(1, len(kinds))
    for panel, (place, name) in zip(panels, places.items(), strict=True):
        panel.set_title(name)
        panel.set_xlabel(f"{unit} an image: median; line: least to most")
        panel.grid(axis="x", linewidth=0.6)
        panel.set_axisbelow(True)
        panel.tick_params(length=0)
        for number, (kind, label) in enumerate(kinds.items()):
            timed = [(row, getattr(results.get(kind), place, None)) for row, results in enumerate(rows.values())]
            found: list[tuple[int, Timing]] = [(row, time) for row, time in timed if time is not None]
            at = [row + 0.4 - height * (number + 0.5) for row, _ in found]
            middle = [time.median_us / unit_us for _, time in found]
            least = [(time.median_us - min(time.rounds_us)) / unit_us for _, time in found]
            most = [(max(time.rounds_us) - time.median_us) / unit_us for _, time in found]
            lines = {"ecolor": INK, "elinewidth": 1, "capsize": 0}
            color, errors = _COLORS[kind], [least, most]
            panel.barh(at, middle, height * 0.92, xerr=errors, color=color, label=label, error_kw=lines)
        panel.set_yticks(range(len(rows)), list(rows))
    figure.legend(*panels[0].get_legend_handles_labels(), loc="upper right", ncols=3)
    return figure, panels
