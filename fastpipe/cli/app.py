"""The commands and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fastpipe import __version__
from fastpipe.cli.explain import explain
from fastpipe.cli.index import index

__all__ = ["app"]

app = typer.Typer(
    name="fastpipe",
    help="Decodes and augments images for PyTorch training.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

PathArgument = Annotated[
    Path | None,
    typer.Argument(help="A folder of images (searched with its subfolders) or one file; without it: made images."),
]
ReadersOption = Annotated[
    list[str] | None,
    typer.Option("--readers", metavar="NAMES", help="Only these readers, e.g. pil,cv2 (default: all that load here)."),
]
FormatOption = Annotated[
    list[str] | None,
    typer.Option("--format", metavar="NAMES", help="Only these formats, e.g. jpeg,png (default: all that are found)."),
]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", min=0, help="DataLoader workers; 0 for none (default: one a usable CPU, at most 16)."),
]
ImagesOption = Annotated[int, typer.Option("--images", min=1, help="Images of each format, at most.")]
RoundsOption = Annotated[int, typer.Option("--rounds", min=1, help="Timed rounds.")]
JsonOption = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Also write everything as JSON; - for standard output.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no table.")]


def _show_version(asked: bool) -> None:
    if asked:
        print(f"fastpipe {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Decodes and augments images for PyTorch training, several times as fast."""


@app.command()
def bench(
    path: PathArgument = None,
    readers: ReadersOption = None,
    format: FormatOption = None,
    workers: WorkersOption = None,
    images: ImagesOption = 24,
    rounds: RoundsOption = 7,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Measure every reader on your images, in one process and in DataLoader workers.

    Example: fastpipe bench ~/photos/train --format jpeg --workers 8
    """
    from fastpipe.bench import run

    run.bench(
        path, readers=readers, formats=format, workers=workers, images=images, rounds=rounds, json=json, quiet=quiet
    )


@app.command()
def configure(
    path: PathArgument = None,
    readers: ReadersOption = None,
    format: FormatOption = None,
    workers: WorkersOption = None,
    images: ImagesOption = 24,
    rounds: RoundsOption = 7,
    json: JsonOption = None,
    quiet: QuietOption = False,
    show: Annotated[bool, typer.Option("--show", help="Only print the config that holds here.")] = False,
    reset: Annotated[bool, typer.Option("--reset", help="Only remove the config file: built-in defaults.")] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FORMAT=READER", help="Only choose this reader by hand; may be repeated."),
    ] = None,
) -> None:
    """Measure, choose the fastest reader for each format, and remember it for this machine.

    Example: fastpipe configure ~/photos/train; by hand: fastpipe configure --set jpeg=cv2 --set png=pil
    """
    from fastpipe.bench import run

    if sum((show, reset, bool(set_))) > 1:
        raise typer.BadParameter("give one of --show, --reset and --set")
    if (show or reset or set_) and path is not None:
        raise typer.BadParameter("--show, --reset and --set measure nothing: leave the path out")
    if show:
        run.show()
    elif reset:
        run.reset()
    elif set_:
        run.choose_by_hand(set_)
    else:
        run.configure(
            path, readers=readers, formats=format, workers=workers, images=images, rounds=rounds, json=json, quiet=quiet
        )


app.command()(explain)
app.command()(index)
