"""``fastpipe doctor``: finds where the time of a training's input goes, and what would help."""

from __future__ import annotations

from typing import Annotated

import click

from fastpipe.cli._options import JsonOption, QuietOption, TransformOption, writable
from fastpipe.cli.parameters import Argument, Option
from fastpipe.tools.import_object import find_object, load_transform


def doctor(
    path: Annotated[
        str | None,  # a Path would make one slash of a URL's two
        Argument(
            metavar="PATH",
            help="A folder of images, one image, or a list of files (text, CSV, Parquet).",
        ),
    ] = None,
    transform: TransformOption = None,
    dataset: Annotated[
        str | None,
        Option(
            "--dataset",
            "-d",
            metavar="MODULE:NAME",
            help="Instead of PATH: a dataset or DataLoader of yours, or a function that makes one.",
        ),
    ] = None,
    batch_size: Annotated[
        int | None,
        Option("--batch-size", "-b", metavar="N", min=1, help="The training's (default: 256, or the loader's)."),
    ] = None,
    workers: Annotated[
        int | None,
        Option("--workers", "-w", metavar="N", min=0, help="The training's num_workers (default: the loader's)."),
    ] = None,
    gpu_rate: Annotated[
        float | None,
        Option(metavar="N", help="Images a second that the training takes if it never waits for images."),
    ] = None,
    seconds: Annotated[float, Option(metavar="S", help="Approximate time to measure.")] = 20.0,
    plot: Annotated[
        str | None,
        Option(metavar="FILE", callback=writable, help="Also draw a picture (.png, .svg, .pdf)."),
    ] = None,
    json: JsonOption = None,
    versions: Annotated[
        bool, Option("--versions", help="Only print the versions of installed packages and built-in libraries.")
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """Find where the time goes, what limits it, and what would help.

    Nothing is written. Exit status: 0 healthy, 1 a problem was found, 2 wrong usage.

    Example: fastpipe doctor ~/photos/train --batch-size 256 --workers 8 --gpu-rate 3000 --plot doctor.png
    """
    if versions:
        if path is not None or dataset is not None:
            raise click.BadParameter("--versions examines nothing: leave PATH and --dataset out")
        from fastpipe.reporting.output import write_json_if_asked
        from fastpipe.tools.doctor import versions as found

        if write_json_if_asked(json, found.versions(), quiet):
            print(found.versions_text(found.versions()))
        return
    if (path is None) == (dataset is None):
        raise click.BadParameter("give PATH or --dataset, one of them: what is to be examined?")
    if dataset is not None and transform is not None:
        raise click.BadParameter("--transform is for PATH: a dataset has its own")
    for name, number in (("--gpu-rate", gpu_rate), ("--seconds", seconds)):
        if number is not None and not number > 0:
            raise click.BadParameter("give a number above 0", param_hint=name)
    from fastpipe.progress_bar import SlowBar
    from fastpipe.reporting.output import give_report
    from fastpipe.tools.doctor.examine import doctor as examine
    from fastpipe.tools.doctor.picture import check_matplotlib

    if plot is not None:
        check_matplotlib(plot)
    subject = path if dataset is None else find_object(dataset)
    chosen = None if transform is None else load_transform(transform)
    with SlowBar(shown=not quiet) as bar:
        diagnosis = examine(
            subject,
            transform=chosen,
            batch_size=batch_size,
            workers=workers,
            gpu_rate=gpu_rate,
            seconds=seconds,
            progress=bar.show,
        )
    if plot is not None:
        diagnosis.plot(plot)
    if give_report(diagnosis, json, quiet) and plot is not None:
        print(f"\nPicture: {plot}")
    if not diagnosis.healthy:
        raise click.exceptions.Exit(1)
