"""``fastpipe run``: runs a script unchanged, with its images made by fastpipe."""

from __future__ import annotations

from typing import Annotated

from fastpipe.cli._options import QuietOption
from fastpipe.cli.parameters import Argument, Option
from fastpipe.hooks.run import ask


def run(
    arguments: Annotated[
        list[str], Argument(metavar="SCRIPT [ARGUMENTS]…", help="A Python script, and its own arguments.")
    ],
    module: Annotated[bool, Option("--module", "-m", help="SCRIPT is the name of a module.")] = False,
    check: Annotated[
        int,
        Option(
            min=0,
            metavar="N",
            help="Number of first samples that are also made without fastpipe and compared; 0 for none.",
        ),
    ] = 2,
    report: Annotated[
        str | None, Option(metavar="FILE", help="Also write the report to a .json or .html file.")
    ] = None,
    report_on_signal: Annotated[
        bool, Option("--report-on-signal", help="Also print the report at each SIGUSR1, while the script runs.")
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """Run a training script unchanged, with images made by fastpipe.

    The script and its samples stay the same: its calls of Pillow, torchvision, torch's DataLoader, OpenCV and
    albumentations are planned, and the first samples are compared with those made without fastpipe. At the end
    a report on standard error says which calls were planned, and the time gained. In code: fastpipe.install().

    Ranks: torchrun --nproc-per-node 2 -m fastpipe run train.py

    Example: fastpipe run train.py --epochs 10
    """
    from fastpipe.hooks.summary import check_report

    check_report(report)
    ask(arguments, module, check=check, report_to=report, quiet=quiet, report_on_signal=report_on_signal)
