"""``fastpipe verify``: compares a transform with torchvision's on the user's files."""

from __future__ import annotations

from typing import Annotated

import click

from fastpipe.cli._options import DatasetOption, FolderOrNone, JsonOption, QuietOption, SeedOption, TransformOption
from fastpipe.cli.parameters import Option
from fastpipe.tools.import_object import find_object, load_transform


def verify(
    path: FolderOrNone = None,
    transform: TransformOption = None,
    dataset: DatasetOption = None,
    images: Annotated[int, Option(metavar="N", min=1, help="The most files.")] = 32,
    drawings: Annotated[int, Option(metavar="N", min=1, help="Number of drawings of each file.")] = 3,
    seed: SeedOption = 0,
    reader: Annotated[str | None, Option(metavar="NAME", help="The reader to use (default: this machine's).")] = None,
    out: Annotated[
        str | None, Option(metavar="FILE", help="Write a picture of the worst image, such as worst.png.")
    ] = None,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Compare a transform with torchvision's, on your files.

    Finished samples must have the same bytes. Exit status: 0 if they have, else 1. Needs torchvision.
    A dataset's samples are compared with their boxes, masks and labels.

    Example: fastpipe verify ~/photos/train --transform train:transform --out worst.png
    """
    if (path is None) == (dataset is None):
        raise click.BadParameter("give PATH or --dataset, one of them: what is to be verified?")
    if dataset is not None and (transform is not None or reader is not None):
        raise click.BadParameter("--transform and --reader are for PATH: a dataset has its own")
    import fastpipe
    from fastpipe.reporting.output import write_json_if_asked
    from fastpipe.reporting.pictures import check_picture, save_picture

    if out is not None:
        check_picture(out)
    certificate = fastpipe.verify(
        load_transform(transform) if dataset is None else find_object(dataset),
        path,
        images=images,
        drawings=drawings,
        seed=seed,
        reader=reader,
        progress=not quiet,
    )
    if out is not None:
        save_picture(certificate.picture(), out)
    if write_json_if_asked(json, certificate.to_dict(), quiet):
        print(certificate)
        if out is not None:
            print(f"{'Picture' if certificate.worst is None else 'The worst image'}: {out}")
    raise click.exceptions.Exit(0 if certificate.holds else 1)
