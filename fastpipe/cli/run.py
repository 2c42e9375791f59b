"""``fastpipe run``: a script as it is, faster."""

from __future__ import annotations

from typing import Annotated

import typer

from fastpipe.cli._options import QuietOption
from fastpipe.hooks.run import ask


def run(
    arguments: Annotated[
        list[str], typer.Argument(metavar="SCRIPT [ARGUMENTS]…", help="A Python script, and its own arguments.")
    ],
    module: Annotated[bool, typer.Option("--module", "-m", help="SCRIPT is the name of a module.")] = False,
    check: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="How many of the first samples are made the plain way, too, and compared; 0 for none.",
        ),
    ] = 2,
    report: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the report to a .json or .html file, too.")
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Run a training script as it is, with its images made by fastpipe.

    No line of the script changes, and neither do its samples: what it asks of Pillow, torchvision, torch's DataLoader,
    OpenCV and albumentations is planned, and the first samples are compared with the plain way. At the end, and on
    SIGUSR1, a report on standard error says what was taken over, and what it gained. In code: fastpipe.install().

    Ranks: torchrun --nproc-per-node 2 -m fastpipe run train.py

    Example: fastpipe run train.py --epochs 10
    """
    from fastpipe.hooks.summary import check_report

    check_report(report)
    ask(arguments, module, check=check, report_to=report, quiet=quiet)
