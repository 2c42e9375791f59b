"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer


def writable(context: typer.Context, option: typer.CallbackParam, path: str | None) -> str | None:
    """The file that an option names, once it is sure that it can be written: known before minutes are spent."""
    if path is None or context.resilient_parsing:  # a shell completes the line: nothing is to be touched
        return path
    from fastpipe.paths import local_path
    from fastpipe.reporting.output import check_writable

    path = local_path(path)
    check_writable(path, f"--{option.name}")
    return path


PathArgument = Annotated[
    str | None,  # a Path would make one slash of a URL's two
    typer.Argument(
        metavar="PATH",
        help="A folder of images (searched with its subfolders) or one file; without it: made images.",
        show_default=False,
    ),
]
ReadersOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAMES", help="Only these readers, e.g. pil,cv2 (default: all that load here)."),
]
FormatOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAMES", help="Only these formats, e.g. jpeg,png (default: all that are found)."),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(metavar="N", min=0, help="DataLoader workers; 0 for none (default: one a usable CPU, at most 16)."),
]
ImagesOption = Annotated[int, typer.Option(metavar="N", min=1, help="Images of each format, at most.")]
RoundsOption = Annotated[int, typer.Option(metavar="N", min=1, help="Timed rounds.")]
JsonOption = Annotated[
    str | None,
    typer.Option(metavar="FILE", callback=writable, help="Also write everything as JSON; - for standard output."),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no text.")]
TransformOption = Annotated[
    str | None,
    typer.Option(
        "--transform",
        "-t",
        metavar="MODULE:NAME",
        help="The transform, as Python imports it from the current folder, or FILE.py:NAME; a function that makes it"
        " will do. Without it: RandomResizedCrop(224), RandomHorizontalFlip, ToTensor, Normalize.",
    ),
]
_FOLDER = typer.Argument(
    metavar="PATH", help="A folder of images, searched with its subfolders, or one image.", show_default=False
)
FolderArgument = Annotated[str, _FOLDER]
FolderOrNone = Annotated[str | None, _FOLDER]
DatasetOption = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        "-d",
        metavar="MODULE:NAME",
        help="In place of PATH: a dataset of fastpipe's, or a function that makes one.",
    ),
]
SeedOption = Annotated[int, typer.Option(metavar="N", help="Of the random numbers, and of the choice of files.")]
SchedulerOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Have the workers of a Dask scheduler do it (tcp://host:8786): they see the files under the same paths.",
    ),
]
