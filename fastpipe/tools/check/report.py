"""The result of a check as text, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from fastpipe.datasets import ImageIndex
from fastpipe.environment import line_width, versions
from fastpipe.errors import ConfigError
from fastpipe.index.table import Array
from fastpipe.paths import local_path
from fastpipe.reporting.output import pluralize, wrap_text, write_file
from fastpipe.tools.check.findings import BAD, KINDS, FileRow

Decode = Literal["full", "header"]

SCHEMA = "fastpipe-check/1"
"""Identifies the layout of the JSON; the number grows when a key is removed or changes its meaning."""

REPORT_ENDINGS = (".csv", ".json", ".txt")

MOST_SHOWN = 20
"""The most bad files that a text names."""
_UNBROKEN = 1 << 16  # the width of lines in a report file, which aren't wrapped
_BELOW = " " * 7  # the indentation of a reason on the line below its path
_COLUMNS = ("path", "verdict", "kinds", "reason", "format", "height", "width", "bytes")


@dataclass(frozen=True)
class CheckResult:
    """The result of a check.

    Attributes:
        index: the files.
        decode: ``"full"`` or ``"header"``.
        size: the side that training needs, in pixels, as given.
        max_pixels: the limit of an image's pixels.
        rows: the files with a finding, bad ones first: `FileRow` values, made on access.
        counts: the number of files with each kind of finding.
        bad, noted, fine: the numbers of files that would fail in training, that have other findings, and that have
            none.
        good: int64 positions in the index of the files that aren't bad, for `fastpipe.ImageList.subset`.
        empty_classes: classes whose files are all bad, or that have none; `ImageFolder` refuses those that have none.
        loose: images beside the class folders, which no dataset reads; they were not checked.
        other_images: the number of images for each ending that datasets don't read, such as ``".heic"``; not checked.
        seconds: the time that the check took.
    """

    index: ImageIndex = field(repr=False)
    decode: Decode
    size: int
    max_pixels: int | None
    rows: Sequence[FileRow]
    counts: dict[str, int]
    bad: int
    noted: int
    good: Array = field(repr=False)
    empty_classes: tuple[str, ...] = ()
    loose: int = 0
    other_images: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def root(self) -> str:
        """The folder that the rows' paths start from; ``""`` if they are absolute."""
        return self.index.root

    @property
    def files(self) -> int:
        """The number of files that were checked."""
        return len(self.index)

    @property
    def fine(self) -> int:
        return self.files - self.bad - self.noted

    @property
    def ok(self) -> bool:
        """True if no file is bad."""
        return self.bad == 0

    def about(self) -> dict[str, object]:
        """Everything except the rows, as JSON values."""
        names = ("root", "decode", "size", "max_pixels", "files", "bad", "noted", "fine", "counts", "empty_classes")
        return {
            "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "versions": versions("pillow"),
            **{name: getattr(self, name) for name in names},
            "loose_images": self.loose,
            "other_images": self.other_images,
            "seconds": round(self.seconds, 3),
        }

    def __str__(self) -> str:
        return self.text("`rows` has them, and a report")

    def text(self, where: str) -> str:
        """The counts, and the first bad files; `where` says where the others are found."""
        width = line_width()
        lines = summary_lines(self, width)
        if self.bad:
            lines += ["", *lines_of(self.rows[: min(self.bad, MOST_SHOWN)], width)]
        if self.bad > MOST_SHOWN:
            lines.append(wrap_text(f"… and {self.bad - MOST_SHOWN:,} more bad files: {where}", width=width))
        return "\n".join(lines)


def ending_of(path: str | os.PathLike[str]) -> str:
    """The lower-case ending of a path, which chooses the report's format.

    Raises:
        ConfigError: the ending isn't one of `REPORT_ENDINGS`.
    """
    ending = os.path.splitext(path)[1].lower()
    if ending not in REPORT_ENDINGS:
        raise ConfigError(f"the report {path} should end in {', '.join(REPORT_ENDINGS)}: that chooses its format")
    return ending


def write_report(result: CheckResult, file: str | os.PathLike[str], ending: str, option: str) -> None:
    """Writes a report in the format of an ending, by `write_file`."""
    lines = {".csv": _csv_lines, ".json": json_lines, ".txt": _text_lines}[ending](result)
    write_file(local_path(file), lines, option)


def _csv_lines(result: CheckResult) -> Iterator[str]:
    def line(cells: Iterable[object]) -> str:
        text = io.StringIO(newline="")
        csv.writer(text).writerow(cells)
        return text.getvalue()

    yield line(_COLUMNS)
    for row in result.rows:
        yield line(" ".join(value) if isinstance(value, tuple) else value for value in _values(row).values())


def _values(row: FileRow) -> dict[str, object]:
    return {name: getattr(row, name) for name in _COLUMNS}


def json_lines(result: CheckResult) -> Iterator[str]:
    """Yields the text of a JSON report, piece by piece."""
    # ASCII, as JSON's escapes can represent names that are no valid UTF-8
    head = json.dumps({"schema": SCHEMA, **result.about()}, indent=2)
    yield head[: head.rindex("\n")] + ',\n  "rows": ['
    separator = "\n"
    for row in result.rows:
        yield f"{separator}    {json.dumps(_values(row))}"
        separator = ",\n"
    yield "\n  ]\n}\n" if len(result.rows) else "]\n}\n"


def _text_lines(result: CheckResult) -> Iterator[str]:
    for line in (*summary_lines(result), "", *lines_of(result.rows)):
        yield line + "\n"


def summary_lines(result: CheckResult, width: int = _UNBROKEN) -> list[str]:
    """The number of checked files, and of those with each finding, in lines of at most `width` characters."""
    how = "decoded" if result.decode == "full" else "headers read"
    took = f" in {result.seconds:.1f} s" if result.seconds >= 0.1 else ""
    of = f" of {result.root}" if result.root else ""
    lines = [f"{pluralize(result.files, 'file')}{of} checked ({how}{took})"]
    lines.append(f"bad: {result.bad:,}   noted: {result.noted:,}   fine: {result.fine:,}")
    for bad, heading in ((True, "bad, would fail in training:"), (False, "noted, can be trained on:")):
        kinds = [kind for kind in KINDS if kind.bad == bad and kind.name in result.counts]
        if kinds:
            lines += ["", heading]
            digits = max(len(f"{result.counts[kind.name]:,}") for kind in kinds)
            counts = [f"  {kind.name:<12} {result.counts[kind.name]:>{digits},}  " for kind in kinds]
            lines += [
                wrap_text(count + kind.meaning, hang=len(count) - 2, width=width)
                for count, kind in zip(counts, kinds, strict=True)
            ]
    return [wrap_text(line, width=width) if len(line) > width and "\n" not in line else line for line in lines]


def lines_of(rows: Iterable[FileRow], width: int = _UNBROKEN) -> Iterator[str]:
    """Yields a line for each row: verdict, kinds, path, reason; a reason that doesn't fit goes on the next line.

    A path is never wrapped, however long it is.
    """
    for row in rows:
        kinds = [kind for kind in row.kinds if not row.bad or kind in BAD]
        line = f"{row.verdict:<5}  {' '.join(kinds):<14}  {row.path}"
        reason = f"({row.reason})" if row.reason else ""
        if reason and len(line) + 2 + len(reason) <= width:
            line, reason = f"{line}  {reason}", ""
        yield line
        if reason:
            yield wrap_text(_BELOW + reason, hang=1, width=width)
