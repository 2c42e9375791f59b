"""``fastpipe bench``: how fast each reader is here, as tables, JSON, a page or pictures."""

from __future__ import annotations

from typing import Annotated

import typer

from fastpipe.cli._options import (
    FormatOption,
    ImagesOption,
    JsonOption,
    PathArgument,
    QuietOption,
    ReadersOption,
    RoundsOption,
    WorkersOption,
)


def bench(
    path: PathArgument = None,
    readers: ReadersOption = None,
    format: FormatOption = None,
    workers: WorkersOption = None,
    images: ImagesOption = 24,
    rounds: RoundsOption = 7,
    pipeline: Annotated[
        bool, typer.Option("--pipeline", help="Also time whole pipelines, beside torchvision's where it loads.")
    ] = False,
    measured: Annotated[
        str | None, typer.Option("--from", metavar="FILE", help="Measure nothing: report on this earlier run's JSON.")
    ] = None,
    compare: Annotated[
        str | None, typer.Option("--compare", metavar="FILE", help="Show what changed since this older run's JSON.")
    ] = None,
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Also write a page with everything, pictures inside.")
    ] = None,
    plots: Annotated[
        str | None, typer.Option("--plots", metavar="FOLDER", help="Also write the pictures, as PNG files.")
    ] = None,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Measure every reader on your images.

    In one process and in DataLoader workers. A time counts only where the pixels are right.

    Example: fastpipe bench ~/photos/train --format jpeg --workers 8 --pipeline --html report.html

    Two machines or versions: fastpipe bench --json old.json here, then fastpipe bench --compare old.json there
    """
    from fastpipe.tools.bench import run

    if measured is not None and (path or readers or format or workers is not None or pipeline):
        raise typer.BadParameter("--from measures nothing: leave out PATH, --readers, --format, --workers, --pipeline")
    run.bench(
        path,
        readers=readers,
        formats=format,
        workers=workers,
        images=images,
        rounds=rounds,
        pipeline=pipeline,
        measured=measured,
        compare=compare,
        json=json,
        html=html,
        plots=plots,
        quiet=quiet,
    )
