"""``fastpipe explain``: the plan of a transform or dataset."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from typing import Annotated

import typer

from fastpipe.cli._options import JsonOption, QuietOption, TransformOption
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
            help="A folder of images or one image, or a transform or dataset as --transform takes it.",
        ),
    ],
    transform: TransformOption = None,
    size: Annotated[
        ImageShape | None,
        typer.Option(
            parser=_shape, metavar="HxW", help="The image size to show it for (default: a file's, or 375x500)."
        ),
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help='As with fidelity="fast".')] = False,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Print what runs where for a transform or dataset.

    And what is exact, what ends the plan, and what mends it.

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
    else:
        found = find_object(subject)
    explanation = fastpipe.explain(found, shape=size, fidelity="fast" if fast else None)
    if is_path:  # the list of a few of its files is nothing that the user knows of
        explanation = replace(explanation, subject=f"{subject}, {explanation.subject.rpartition(', ')[2]}")
    if write_json_if_asked(json, explanation.to_dict(), quiet):
        print(explanation.text(ascii=not encodable("├└│", sys.stdout.encoding, "")))
