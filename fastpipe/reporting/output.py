"""Output of results: the console, files that are whole or not there, JSON with one rounding."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from fastpipe.atomic_write import atomic_write
from fastpipe.environment import line_width
from fastpipe.errors import ConfigError


def make_console() -> Console:
    """A console on standard output: rich on a terminal, plain text in a pipe or file; as wide as `line_width` says."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=line_width(), no_color=True)


def wrap_text(text: str, *, hang: int = 2, width: int | None = None) -> str:
    """The text with its lines broken at spaces so that none is longer than `line_width` says.

    Args:
        text: lines; words that are longer than a line, such as a path, stay whole.
        hang: how much further than its line what goes on is indented.
        width: in characters, in place of `line_width`.
    """
    lines = []
    width = line_width() if width is None else width
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip()) + hang
        fitting = textwrap.wrap(
            line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
        )
        lines += fitting if len(line) > width else [line]
    return "\n".join(lines)


def encodable(text: str, encoding: str | None, instead: str) -> str:
    """The text, or another where a terminal of that encoding can't show it."""
    try:
        text.encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return instead
    return text


def check_writable(path: str | Path | None, option: str) -> None:
    """Makes sure that a file can be written, before minutes are spent on what is to stand in it, or raises ConfigError.

    None and ``"-"``, standard output, always can. The error names the option.
    """
    if path is None or path == "-":
        return
    new = not os.path.lexists(path)
    try:
        with open(path, "ab"):  # changes nothing in a file that is there
            pass
        if new:
            os.remove(path)
    except (OSError, ValueError) as error:  # a byte of zero in its name
        raise _unwritable(path, option, error) from error


def write_file(path: str | Path, content: str | Iterable[str], option: str) -> None:
    """Writes a file of text as UTF-8. What was there before stays until all is on disk.

    Raises:
        ConfigError: it can't be written, as on a full disk; what was there before is untouched.
    """
    parts = (content,) if isinstance(content, str) else content
    # surrogateescape: a file's name that is no UTF-8 is written as the bytes that it has
    write_bytes(path, (part.encode(errors="surrogateescape") for part in parts), option)


def write_bytes(path: str | os.PathLike[str], data: Iterable[bytes | memoryview], option: str) -> None:
    """Writes a file of these bytes; the rest as `write_file`."""
    file = Path(os.path.realpath(path))  # a link stays one
    try:
        if file.exists() and not (file.is_file() and os.access(file.parent, os.W_OK)):
            file.write_bytes(b"".join(data))  # a device or a pipe, or a file in a folder that can't take another
        else:
            with atomic_write(file, keeps_mode=True) as stream:
                stream.writelines(data)
    except OSError as error:
        raise _unwritable(path, option, error) from error


def write_json(path: str, values: Mapping[str, object], option: str = "--json") -> None:
    """Writes JSON to a file, or to standard output for ``"-"``; raises ConfigError where it can't."""
    text = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
    if path == "-":
        sys.stdout.write(text)
    else:
        write_file(path, text, option)


def write_json_if_asked(json: str | None, values: Mapping[str, object], quiet: bool) -> bool:
    """Writes JSON where it is asked for; whether text is to be printed as well, on standard output."""
    if json is not None:
        write_json(json, values)
    return not quiet and json != "-"


class Report(Protocol):
    """A tool's result that tells of more than a few lines."""

    def to_dict(self) -> dict[str, object]: ...

    def print_on(self, console: Console) -> None: ...


def give_report(report: Report, json: str | None, quiet: bool) -> bool:
    """Writes the JSON if it is asked for and prints the report; whether it was printed."""
    is_printed = write_json_if_asked(json, report.to_dict(), quiet)
    if is_printed:
        report.print_on(make_console())
    return is_printed


def round_times(value: object) -> Any:
    """The same value with every time in it rounded to a nanosecond: what a clock gives, and no more digits."""
    if isinstance(value, dict):
        return {key: round_times(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [round_times(item) for item in value]
    return round(value, 3) if isinstance(value, float) else value


def format_bytes(count: float) -> str:
    """Bytes with a unit, in two digits or more: ``"1.2 MB"``, ``"340 kB"``."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            break
        count /= 1000
    return f"{count:,.0f} {unit}" if count >= 10 or unit == "bytes" else f"{count:.1f} {unit}"


def pluralize(count: int, thing: str) -> str:
    """``"1 worker"``, ``"2,000 workers"``."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def _unwritable(path: str | os.PathLike[str], option: str, error: OSError | ValueError) -> ConfigError:
    reason = getattr(error, "strerror", None) or error
    return ConfigError(f"can't write {path}: {reason}; give {option} a place that can be written")
