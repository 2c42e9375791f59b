"""Output of results: the console, files written atomically, JSON with rounded times."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from rich.console import Console

from fastpipe.atomic_write import atomic_write
from fastpipe.counts import pluralize as pluralize
from fastpipe.environment import line_width
from fastpipe.errors import ConfigError


def make_console() -> Console:
    """Makes a console on standard output: styled in a terminal, plain text in a pipe or file, `line_width` wide."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=line_width(), no_color=True)


def wrap_text(text: str, *, hang: int = 2, width: int | None = None) -> str:
    """Wraps a text at spaces so that no line is longer than `line_width`.

    Args:
        text: lines; words longer than a line, such as paths, aren't broken.
        hang: additional indentation of wrapped lines.
        width: the width in characters instead of `line_width`.
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
    """Returns the text, or `instead` if the encoding lacks one of its characters."""
    try:
        text.encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return instead
    return text


def check_writable(path: str | Path | None, option: str) -> None:
    """Raises ConfigError if a file can't be written; called before minutes are spent on its content.

    None and ``"-"`` (standard output) always pass. The error names the option.
    """
    if path is None or path == "-":
        return
    new = not os.path.lexists(path)
    try:
        with open(path, "ab"):  # doesn't change an existing file
            pass
        if new:
            os.remove(path)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise _unwritable(path, option, error) from error


def write_file(path: str | Path, content: str | Iterable[str], option: str) -> None:
    """Writes a text file as UTF-8. The old file stays until the new one is on disk.

    Raises:
        ConfigError: the file can't be written, such as on a full disk; the old file is unchanged.
    """
    parts = (content,) if isinstance(content, str) else content
    # surrogateescape: names of files that are no valid UTF-8 are written as their bytes
    write_bytes(path, (part.encode(errors="surrogateescape") for part in parts), option)


def write_bytes(path: str | os.PathLike[str], data: Iterable[bytes | memoryview], option: str) -> None:
    """Writes a file of bytes, otherwise like `write_file`."""
    file = Path(os.path.realpath(path))  # write to a link's target, so that it stays a link
    try:
        if file.exists() and not (file.is_file() and os.access(file.parent, os.W_OK)):
            file.write_bytes(b"".join(data))  # a device, a pipe, or a file in a read-only folder
        else:
            with atomic_write(file, keeps_mode=True) as stream:
                stream.writelines(data)
    except OSError as error:
        raise _unwritable(path, option, error) from error


def write_json(path: str, values: Mapping[str, object], option: str = "--json") -> None:
    """Writes JSON to a file, or to standard output for ``"-"``; raises ConfigError if it can't."""
    text = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
    if path == "-":
        sys.stdout.write(text)
    else:
        write_file(path, text, option)


def write_json_if_asked(json: str | None, values: Mapping[str, object], quiet: bool) -> bool:
    """Writes JSON if `json` is given; returns True if the text should be printed as well."""
    if json is not None:
        write_json(json, values)
    return not quiet and json != "-"


class Report(Protocol):
    """A tool's result that can be printed on a console and converted to JSON values."""

    def to_dict(self) -> dict[str, object]: ...

    def print_on(self, console: Console) -> None: ...


def give_report(report: Report, json: str | None, quiet: bool) -> bool:
    """Writes JSON if `json` is given, and prints the report; returns True if it was printed."""
    is_printed = write_json_if_asked(json, report.to_dict(), quiet)
    if is_printed:
        report.print_on(make_console())
    return is_printed


def round_times(values: Mapping[str, object]) -> dict[str, object]:
    """Rounds every time in JSON values, in microseconds, to a nanosecond: the resolution of the clock."""
    return {key: _rounded(value) for key, value in values.items()}


def _rounded(value: object) -> object:
    if isinstance(value, dict):
        return round_times(value)
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return round(value, 3) if isinstance(value, float) else value


def format_bytes(count: float) -> str:
    """Formats bytes with a unit and at least two digits: ``"1.2 MB"``, ``"340 kB"``."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            break
        count /= 1000
    return f"{count:,.0f} {unit}" if count >= 10 or unit == "bytes" else f"{count:.1f} {unit}"


def _unwritable(path: str | os.PathLike[str], option: str, error: OSError | ValueError) -> ConfigError:
    reason = getattr(error, "strerror", None) or error
    return ConfigError(f"can't write {path}: {reason}; give {option} a place that can be written")
