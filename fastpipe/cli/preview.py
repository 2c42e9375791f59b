"""``fastpipe preview``: what the transform makes of these files."""

from __future__ import annotations

from typing import Annotated

import typer

from fastpipe.cli._transform import TransformOption, load_transform

__all__ = ["preview"]


def preview(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="A folder of images, searched with its subfolders, or one image.")
    ],
    transform: TransformOption = None,
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="How many files, from all over the folder.")] = 8,
    views: Annotated[
        int | None, typer.Option("--views", min=1, help="Augmentations of each (default: 3; with --diff 1).")
    ] = None,
    out: Annotated[str, typer.Option("--out", "-o", metavar="FILE", help="The picture to write.")] = "preview.png",
    seed: Annotated[int, typer.Option("--seed", help="Of the random numbers, and of the choice of files.")] = 0,
    diff: Annotated[
        str | None,
        typer.Option("--diff", metavar="torchvision", help="Add torchvision's result and the amplified difference."),
    ] = None,
    side: Annotated[int, typer.Option("--side", min=16, help="The largest side of a picture in it, in pixels.")] = 224,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No text.")] = False,
) -> None:
    """Write a picture of originals and augmentations.

    With the drawn parameters of each in words, and the decoded regions outlined on the originals.

    Example: fastpipe preview ~/photos/train --transform train:transform --n 4 --out grid.png
    """
    from fastpipe.tools.pictures import check_picture, save_picture
    from fastpipe.tools.preview import preview_files

    if diff not in (None, "torchvision"):
        raise typer.BadParameter(f"--diff {diff}: fastpipe compares with torchvision")
    check_picture(out)
    found = load_transform(transform)
    sheet = preview_files(path, found, n, views=views, seed=seed, diff=diff, side=side, progress=not quiet)
    save_picture(sheet.picture, out)
    if not quiet:
        print(f"Written to {out}: {sheet.picture.width}x{sheet.picture.height} pixels")
        for note in sheet.notes:
            print(f"Note: {note}")
        for failure in sheet.failed:
            print(f"Not shown: {failure}")
    raise typer.Exit(1 if len(sheet.failed) == sheet.samples else 0)
