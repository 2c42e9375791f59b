"""``fastpipe check``: finds files that would fail in training."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import click

from fastpipe.cli._options import JsonOption, QuietOption, SchedulerOption
from fastpipe.cli.parameters import Argument, Option

if TYPE_CHECKING:
    from fastpipe.tools.check.report import CheckResult


def check(
    source: Annotated[
        str,
        Argument(
            metavar="PATH",
            help="A folder of class folders, or of images; a zip or tar of one; shards or Parquet files with images; "
            "the folder of an index; a list (.txt, .csv, .parquet); or one image.",
        ),
    ],
    decode: Annotated[
        Literal["full", "header"],
        Option(help="full decodes all pixels; header reads headers only: faster, but finds no truncated files."),
    ] = "full",
    jobs: Annotated[
        int | None, Option("--jobs", "-j", metavar="N", min=1, help="Processes (default: one for each CPU).")
    ] = None,
    report: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write every finding to FILE: .csv, .json or .txt, by its ending."),
    ] = None,
    size: Annotated[
        int, Option(metavar="N", min=1, help="The side in pixels that training needs; over 4 times is large.")
    ] = 224,
    timeout: Annotated[float, Option(metavar="S", help="Seconds after which a file counts as hanging.")] = 60.0,
    scheduler: SchedulerOption = None,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Find files that would fail in training, and unusual ones.

    A file is bad if ImageFolder would raise; other findings are noted. Exit status: 0 no bad file, 1 bad files.

    Example: fastpipe check ~/photos/train --report findings.csv
    """
    from fastpipe.tools.check import report as reports
    from fastpipe.tools.check.run import check as examine

    if not timeout > 0:
        raise click.BadParameter("give seconds, more than 0", param_hint="--timeout")
    result = examine(
        source,
        decode=decode,
        jobs=jobs,
        size=size,
        timeout=timeout,
        report=report,
        json=None if json == "-" else json,
        scheduler=scheduler,
        progress=not quiet,
    )
    if json == "-":
        sys.stdout.writelines(reports.json_lines(result))
    elif not quiet:
        _print(result, report)
    raise click.exceptions.Exit(0 if result.ok else 1)


def _print(result: CheckResult, report: Path | None) -> None:
    from fastpipe.reporting.output import pluralize, wrap_text
    from fastpipe.tools.check.report import MOST_SHOWN

    print(result.text("--report FILE lists all"))
    if len(result.rows) and result.bad <= MOST_SHOWN and report is None:
        print("\n--report FILE.csv lists every file with its findings")
    if report is not None:
        print(f"\nreport: {report}")
    if result.loose:
        loose = pluralize(result.loose, "image")
        print(wrap_text(f"not checked: {loose} beside the class folders, where ImageFolder reads none"))
    if result.other_images:
        endings = ", ".join(f"{ending} {count:,}" for ending, count in result.other_images.items())
        print(wrap_text(f"not checked: images with endings that ImageFolder doesn't read: {endings}"))
    if result.empty_classes:
        names = ", ".join(result.empty_classes[:5]) + (", …" if len(result.empty_classes) > 5 else "")
        print(wrap_text(f"classes without a file that can be trained on: {names}"))
