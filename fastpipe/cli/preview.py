"""``fastpipe preview``: draws the transform's results for some files."""

from __future__ import annotations

import os
from typing import Annotated

import click

from fastpipe.cli._options import FolderArgument, QuietOption, SeedOption, TransformOption
from fastpipe.cli.parameters import Option
from fastpipe.tools.import_object import load_transform


def preview(
    path: FolderArgument,
    transform: TransformOption = None,
    n: Annotated[
        int, Option("--n", "-n", metavar="N", min=1, max=400, help="Number of files, from all over the folder.")
    ] = 8,
    views: Annotated[int, Option(metavar="N", min=1, help="Number of augmentations of each file.")] = 3,
    out: Annotated[
        str,
        Option(
            "--out",
            "-o",
            metavar="FILE",
            help="The picture to write; more than 40 rows go into further files, FILE-2 …",
        ),
    ] = "preview.png",
    seed: SeedOption = 0,
    side: Annotated[
        int, Option(metavar="N", min=16, help="The largest side of each image in the picture, in pixels.")
    ] = 224,
    quiet: QuietOption = False,
) -> None:
    """Write a picture of originals and augmentations.

    Each has its drawn parameters in words; outlines on the originals show the decoded regions.

    Example: fastpipe preview ~/photos/train --transform train:transform --n 4 --out grid.png
    """
    from fastpipe.reporting.output import wrap_text
    from fastpipe.reporting.pictures import check_picture, save_picture
    from fastpipe.tools.preview import preview_files

    check_picture(out)
    chosen = load_transform(transform)
    sheet = preview_files(path, chosen, n, views=views, seed=seed, side=side, progress=not quiet)
    root, ending = os.path.splitext(out)
    for number, picture in enumerate(sheet.pages, 1):
        file = out if number == 1 else f"{root}-{number}{ending}"
        save_picture(picture, file)
        if not quiet:
            print(f"Written to {file}: {picture.width}x{picture.height} pixels")
    if not quiet:
        for failure in sheet.failed:
            print(wrap_text(f"Not shown: {failure}"))
    raise click.exceptions.Exit(1 if len(sheet.failed) == sheet.samples else 0)
