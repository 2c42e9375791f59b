"""A record for people, as tables on the terminal, and where what is written goes."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
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
from fastpipe.bench.pipeline import CONTENDERS, PIPELINES, PipelineResult, speedup
from fastpipe.bench.record import Record
from fastpipe.errors import ConfigError

__all__ = [
    "HEADINGS",
    "bench_table",
    "check_writable",
    "make_console",
    "make_folder",
    "pipeline_table",
    "places_of",
    "plain_table",
    "print_record",
    "show_progress",
    "write_file",
    "write_json",
]

HEADINGS = {"full": "whole image", "region": "region", "half": "1/2 size"}
"""What a request is called in front of people."""

_PLAIN_WIDTH = 140
_LEGEND = """\
whole and region: pixels equal to Pillow's, else 'wrong' and not timed. 1/2 size: exact size and close to Pillow's.
served: the images that the reader decodes itself; Pillow decodes the rest, and its time counts.
spread: half the distance between the quartiles of the rounds."""


def make_console() -> Console:
    """A console on standard output: rich on a terminal, plain text of a fixed width in a pipe or file."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_PLAIN_WIDTH, no_color=True)


@contextlib.contextmanager
def show_progress(quiet: bool = False) -> Iterator[Callable[[int, int, str], None] | None]:
    """A progress bar on standard error, and the function that moves it; none where that is no terminal.

    The function takes the steps done, all of them (0: nobody knows), and what is done now. The bar is drawn by the
    calls alone: a thread of its own would be alive when DataLoader workers are forked.
    """
    console = Console(stderr=True)
    if quiet or not console.is_terminal or console.is_dumb_terminal:
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
            bar.update(task, completed=done, total=total or None, description=escape(what), refresh=True)

        yield move


def places_of(measurement: Measurement) -> dict[str, str]:
    """Where times were taken: the attribute of a result, and what it is called in front of people."""
    places = {"single": "in one process"}
    if measurement.workers:
        places["workers"] = f"in {measurement.workers} worker{'s' if measurement.workers > 1 else ''}"
    return places


def bench_table(measurement: Measurement, format: str, choice: Choice | None = None) -> Table:
    """The results for one format: a column for each request; a row for each reader alone, then one in workers.

    The chosen reader is marked; why it was chosen, and what went wrong with others, stands below.
    """
    images, kilobytes = measurement.images[format], measurement.bytes[format] / 1000
    table = plain_table(f"{format}: {_counted(images, 'image')} of {kilobytes:.0f} kB, µs an image (median ± spread)")
    table.add_column("reader", no_wrap=True)
    for request in REQUESTS:
        table.add_column(HEADINGS[request], justify="right", no_wrap=True, min_width=14)
    table.add_column("served", justify="right", min_width=6)
    by_reader: dict[str, dict[str, Result]] = {}
    for result in measurement.results:
        if result.format == format:
            by_reader.setdefault(result.reader, {})[result.request] = result
    for place, label in places_of(measurement).items():
        table.add_section()
        table.add_row(f"{label}:")
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


def plain_table(title: str) -> Table:
    """A table without columns yet, that looks the same on a terminal and in a file."""
    return Table(title=title, title_justify="left", box=rich.box.ASCII, caption_justify="left")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _timed(result: Result | None, place: str) -> str:
    if result is None:
        return "-"
    time: Timing | None = getattr(result, place)
    if time is None:
        return "wrong" if not result.exact else "-"
    return f"{time.median_us:,.0f} ± {time.spread_us:,.0f}"


def pipeline_table(record: Record, format: str) -> Table:
    """fastpipe's pipelines beside torchvision's on the files of one format, alone and through a DataLoader."""
    measurement = record.measurement
    table = plain_table(f"{format}: from a file to a tensor, ms an image (median ± spread)")
    table.add_column("pipeline", no_wrap=True)
    shown = [who for who in CONTENDERS if any(one.who == who for one in record.pipelines)]
    for heading in (*shown, *(["times as fast"] if len(shown) > 1 else [])):
        table.add_column(heading, justify="right", no_wrap=True, min_width=14)
    for place, label in places_of(measurement).items():
        table.add_section()
        table.add_row("in one process and thread:" if place == "single" else f"DataLoader with {label[3:]}:")
        for name in PIPELINES:
            found = record.pipelines_of(format, name)
            table.add_row(name, *_pipeline_cells(found, shown, place))
    return table


def _pipeline_cells(found: Mapping[str, PipelineResult], shown: list[str], place: str) -> list[str]:
    times: dict[str, Timing] = {who: getattr(found[who], place) for who in shown}
    cells = [f"{time.median_us / 1e3:,.2f} ± {time.spread_us / 1e3:,.2f}" for time in times.values()]
    if len(times) > 1:
        gain = speedup(times["fastpipe"], times["torchvision"])
        cells.append(f"{gain.median_us:.2f} ± {gain.spread_us:.2f}")
    return cells


def print_record(console: Console, record: Record) -> None:
    """Prints one table for each format, what the columns mean, the pipelines, and what there is to note."""
    measurement = record.measurement
    console.print(
        f"{record.machine}; {_counted(measurement.rounds, 'round')}, "
        f"{_counted(measurement.workers, 'DataLoader worker')}",
        markup=False,
    )
    for format in measurement.images:
        console.print()
        console.print(bench_table(measurement, format, record.choices.get(format)))
    console.print(f"\n{_LEGEND}", markup=False)
    for format in dict.fromkeys(one.format for one in record.pipelines):
        console.print()
        console.print(pipeline_table(record, format))
    for number, note in enumerate(record.notes):
        console.print(f"{'' if number else chr(10)}{note}", markup=False)


def check_writable(path: str | Path, option: str) -> None:
    """Makes sure that a file can be written, before minutes are spent on what is to stand in it.

    Args:
        path: a file; ``"-"``, standard output, always can.
        option: the command line's, for the error.

    Raises:
        ConfigError: it can't be.
    """
    if path == "-":
        return
    new = not os.path.lexists(path)
    try:
        with open(path, "ab"):  # changes nothing in a file that is there
            pass
        if new:
            os.remove(path)
    except OSError as error:
        raise _unwritable(path, option, error) from error


def make_folder(path: str | Path, option: str) -> None:
    """Makes a folder where there is none.

    Raises:
        ConfigError: it can't be made.
    """
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, option, error) from error


def write_file(path: str | Path, content: str | bytes, option: str) -> None:
    """Writes a file, text as UTF-8. What was there before stays until all is on disk.

    Raises:
        ConfigError: it can't be written, as on a full disk; what was there before is untouched.
    """
    data = content.encode() if isinstance(content, str) else content
    file = Path(os.path.realpath(path))  # a link stays one
    try:
        if file.exists() and not (file.is_file() and os.access(file.parent, os.W_OK)):
            file.write_bytes(data)  # a device or a pipe, or a file in a folder that can't take another
        else:
            _replace(file, data)
    except OSError as error:
        raise _unwritable(path, option, error) from error


def _replace(file: Path, data: bytes) -> None:
    beside = file.with_name(f".{file.name}.{secrets.token_hex(4)}.part")
    try:
        with open(beside, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if file.exists():
            shutil.copymode(file, beside)
        os.replace(beside, file)
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()


def write_json(path: str, values: Mapping[str, Any]) -> None:
    """Writes JSON to a file, or to standard output for ``"-"``.

    Raises:
        ConfigError: the file can't be written.
    """
    text = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
    if path == "-":
        sys.stdout.write(text)
    else:
        write_file(path, text, "--json")


def _unwritable(path: str | Path, option: str, error: OSError) -> ConfigError:
    return ConfigError(f"can't write {path}: {error.strerror or error}; give {option} a place that can be written")
