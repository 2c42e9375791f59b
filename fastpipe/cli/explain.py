"""``fastpipe explain``: the plan of a transform, data set or loader."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from typing import Annotated

import typer

from fastpipe.cli._options import JsonOption, QuietOption, TransformOption
from fastpipe.errors import DatasetError
from fastpipe.tools.import_object import find_object, load_transform
from fastpipe.types import ImageShape


def _shape(size: str) -> ImageShape:
    match = re.fullmatch(r"(\d+)[x×,](\d+)", size)
    if match is None or 0 in (int(match[1]), int(match[2])):
        raise typer.BadParameter(f"{size}: give height and width in pixels, such as 375x500")
    return ImageShape(int(match[1]), int(match[2]))


def explain(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="PATH|MODULE:NAME",
            help="A folder of images or one image; or a transform, data set or loader: MODULE:NAME or FILE.py:NAME.",
        ),
    ],
    transform: TransformOption = None,
    size: Annotated[
        ImageShape | None,
        typer.Option(
            parser=_shape, metavar="HxW", help="The image size to show it for (default: a file's, or 375x500)."
        ),
    ] = None,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Print what runs where for a transform, data set or loader.

    And what is exact, and what isn't planned.

    Example: fastpipe explain train:transform; on your files: fastpipe explain ~/photos/train -t train:transform
    """
    import fastpipe
    from fastpipe.paths import is_url, local_path
    from fastpipe.reporting.output import encodable, write_json_if_asked

    # A script's name alone asks for its transform: `find_object` says how to name that.
    is_file = os.path.exists(local_path(subject)) and not subject.endswith(".py")
    is_path = transform is not None or is_url(subject) or is_file
    if is_path:
        from fastpipe.tools.inputs import dataset_of

        found = dataset_of(subject, load_transform(transform), count=16)
    elif ":" in subject or subject.endswith(".py"):
        found = find_object(subject)
    else:
        raise DatasetError(f"there is no file or folder {subject}; of a script give MODULE:NAME")
    explanation = fastpipe.explain(found, shape=size)
    if is_path:  # the list of a few of its files is nothing that the user knows of
        explanation = replace(explanation, subject=f"{subject}, {explanation.subject.rpartition(', ')[2]}")
    if write_json_if_asked(json, explanation.to_dict(), quiet):
        print(explanation.text(ascii=not encodable("├└│", sys.stdout.encoding, "")))
