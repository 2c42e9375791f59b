"""A measurement for people (a table) and for programs (JSON)."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import rich.box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from fastpipe.bench.check import REQUESTS
from fastpipe.bench.choose import Choice
from fastpipe.bench.measure import Measurement, Result, Timing
from fastpipe.errors import ConfigError

__all__ = ["SCHEMA", "bench_table", "make_console", "print_measurement", "show_progress", "to_json", "write_json"]

SCHEMA = "fastpipe-bench/1"
"""Names the layout of the JSON; the number grows when a key changes its meaning or goes."""

_PLAIN_WIDTH = 140
_HEADINGS = {"full": "whole image", "region": "region", "half": "1/2 size"}


def make_console() -> Console:
    """A console on standard output: rich on a terminal, plain text of a fixed width in a pipe or file."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_PLAIN_WIDTH, no_color=True)


@contextmanager
def show_progress(quiet: bool = False) -> Iterator[Callable[[int, int, str], None] | None]:
    """A progress bar on standard error, and the function that moves it; none where that is no terminal.

    The bar is drawn by the calls alone: a thread of its own would be alive when DataLoader workers are forked.
    """
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    columns = (
        BarColumn(30),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, auto_refresh=False, transient=True) as bar:
        task = bar.add_task("", total=None)

        def move(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=escape(what), refresh=True)

        yield move


def bench_table(measurement: Measurement, format: str, choice: Choice | None = None) -> Table:
    """The results for one format: a column for each request; a row for each reader alone, then one in workers.

    The chosen reader is marked; why it was chosen, and what went wrong with others, stands below.
    """
    images, kilobytes = measurement.images[format], measurement.bytes[format] / 1000
    table = Table(
        title=f"{format}: {images} images of {kilobytes:.0f} kB, µs an image (median ± spread)",
        title_justify="left",
        box=rich.box.ASCII,
        caption_justify="left",
    )
    table.add_column("reader", no_wrap=True)
    for request in REQUESTS:
        table.add_column(_HEADINGS[request], justify="right", no_wrap=True, min_width=14)
    table.add_column("served", justify="right", min_width=6)
    by_reader: dict[str, dict[str, Result]] = {}
    for result in measurement.results:
        if result.format == format:
            by_reader.setdefault(result.reader, {})[result.request] = result
    places = {"single": "in one process:"}
    if measurement.workers:
        places["workers"] = f"in {measurement.workers} worker{'s' if measurement.workers > 1 else ''}:"
    for place, label in places.items():
        table.add_section()
        table.add_row(label)
        for reader, results in by_reader.items():
            chosen = choice is not None and choice.reader == reader
            table.add_row(
                escape(f"{reader} *" if chosen else reader),
                *(_timed(results.get(request), place) for request in REQUESTS),
                f"{min(result.served for result in results.values()):.0%}",
                style="bold" if chosen else None,
            )
    below = [] if choice is None else [f"* chosen: {choice.reason}"]
    for reader, results in by_reader.items():
        below += [f"{reader}: {note}" for note in dict.fromkeys(result.note for result in results.values()) if note]
    table.caption = escape("\n".join(below)) or None
    return table


def _timed(result: Result | None, place: str) -> str:
    if result is None:
        return "-"
    time: Timing | None = getattr(result, place)
    if time is None:
        return "wrong" if not result.exact else "-"
    return f"{time.median_us:,.0f} ± {time.spread_us:,.0f}"


def print_measurement(
    console: Console,
    measurement: Measurement,
    choices: Mapping[str, Choice],
    unavailable: Mapping[str, str] | None = None,
) -> None:
    """Prints one table for each format, what the columns mean, and the readers that don't load here and why."""
    machine = measurement.machine
    console.print(
        f"{machine['processor'] or machine['architecture']}, {machine['cpus']} CPUs, {machine['system']}; "
        f"rounds: {measurement.rounds}, DataLoader workers: {measurement.workers}",
        markup=False,
    )
    for format in measurement.images:
        console.print()
        console.print(bench_table(measurement, format, choices.get(format)))
    console.print(
        "\nwhole and region: pixels equal to Pillow's, else 'wrong' and not timed. 1/2 size: exact size and close to "
        "Pillow's.\nserved: the images that the reader decodes itself; Pillow decodes the rest, and its time counts.",
        markup=False,
    )
    for name, reason in (unavailable or {}).items():
        console.print(f"{name} is not available here: {reason}", markup=False)


def to_json(
    measurement: Measurement, choices: Mapping[str, Choice], command: Sequence[str] | None = None
) -> dict[str, Any]:
    """The measurement as plain values: schema, command, machine, versions, images, results, choices.

    Times are in microseconds an image.
    """
    import torch

    return {
        "schema": SCHEMA,
        "created": measurement.created,
        "command": list(command if command is not None else ["fastpipe", *sys.argv[1:]]),
        "machine": {**measurement.machine, "platform": platform.platform()},
        "versions": {
            **measurement.versions,
            "python": platform.python_version(),
            "torch": str(torch.__version__),
        },
        "workers": measurement.workers,
        "rounds": measurement.rounds,
        "formats": {
            format: {"images": count, "mean_bytes": round(measurement.bytes[format], 1)}
            for format, count in measurement.images.items()
        },
        "results": [_rounded(asdict(result)) for result in measurement.results],
        "choices": {format: asdict(choice) for format, choice in choices.items()},
    }


def _rounded(value: Any) -> Any:
    """The same value with every time in it rounded to a nanosecond: what a clock gives, and no more digits."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return round(value, 3) if isinstance(value, float) else value


def write_json(path: str, values: Mapping[str, Any]) -> None:
    """Writes JSON to a file, or to standard output for ``"-"``.

    Raises:
        ConfigError: the file can't be written.
    """
    text = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"can't write {path}: {error.strerror or error}; give --json a file that can be") from error
