"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import click

from fastpipe.cli.parameters import Argument, Option


def writable(context: click.Context, option: click.Parameter, path: str | None) -> str | None:
    """Checks that the file of an option can be written, before minutes are spent; returns the path."""
    if path is None or context.resilient_parsing:  # a shell completes the line: don't touch files
        return path
    from fastpipe.paths import local_path
    from fastpipe.reporting.output import check_writable

    path = local_path(path)
    check_writable(path, f"--{option.name}")
    return path


PathArgument = Annotated[
    str | None,  # a Path would make one slash of a URL's two
    Argument(
        metavar="PATH",
        help="A folder of images (searched with its subfolders) or one file; without it, synthetic images.",
    ),
]
ReadersOption = Annotated[
    list[str] | None,
    Option(metavar="NAMES", help="Only these readers, e.g. pil,cv2 (default: all that load here)."),
]
FormatOption = Annotated[
    list[str] | None,
    Option(metavar="NAMES", help="Only these formats, e.g. jpeg,png (default: all that are found)."),
]
WorkersOption = Annotated[
    int | None,
    Option(metavar="N", min=0, help="DataLoader workers; 0 for none (default: one for each CPU, at most 16)."),
]
ImagesOption = Annotated[int, Option(metavar="N", min=1, help="The most images of each format.")]
RoundsOption = Annotated[int, Option(metavar="N", min=1, help="Timed rounds.")]
JsonOption = Annotated[
    str | None,
    Option(metavar="FILE", callback=writable, help="Also write everything as JSON; - for standard output."),
]
QuietOption = Annotated[bool, Option("--quiet", "-q", help="No progress and no text.")]
TransformOption = Annotated[
    str | None,
    Option(
        "--transform",
        "-t",
        metavar="MODULE:NAME",
        help="The transform, or a function that makes it, imported from the current folder; or FILE.py:NAME."
        " Without it: RandomResizedCrop(224), RandomHorizontalFlip, ToTensor, Normalize.",
    ),
]
_FOLDER = Argument(metavar="PATH", help="A folder of images, searched with its subfolders, or one image.")
FolderArgument = Annotated[str, _FOLDER]
FolderOrNone = Annotated[str | None, _FOLDER]
DatasetOption = Annotated[
    str | None,
    Option(
        "--dataset",
        "-d",
        metavar="MODULE:NAME",
        help="Instead of PATH: a dataset of fastpipe's, or a function that makes one.",
    ),
]
SeedOption = Annotated[int, Option(metavar="N", help="Seed of the random numbers and of the choice of files.")]
SchedulerOption = Annotated[
    str | None,
    Option(
        metavar="ADDRESS",
        help="Use the workers of a Dask scheduler (tcp://host:8786); they must see the files under the same paths.",
    ),
]
