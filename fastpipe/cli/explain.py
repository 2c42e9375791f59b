"""``fastpipe explain``: prints the plan of a transform, dataset or loader."""

from __future__ import annotations

import difflib
import os
import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import click

from fastpipe.cli._options import JsonOption, QuietOption, TransformOption
from fastpipe.cli.parameters import Argument, Option
from fastpipe.errors import DatasetError, FastpipeError
from fastpipe.tools.import_object import find_object, load_transform
from fastpipe.types import ImageShape

if TYPE_CHECKING:
    from fastpipe.datasets import ImageList


def _shape(size: str) -> ImageShape:
    match = re.fullmatch(r"(\d+)[x×,](\d+)", size)
    if match is None or 0 in (int(match[1]), int(match[2])):
        raise click.BadParameter(f"{size}: give height and width in pixels, such as 375x500")
    return ImageShape(int(match[1]), int(match[2]))


def _near(path: str) -> str:
    """Suggests the most similar name in a path's folder; empty if none is similar."""
    folder, name = os.path.split(path)
    names = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
    near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {os.path.join(folder, near[0])}?" if near else ""


def _check_readable(files: ImageList) -> None:
    """Raises DatasetError if no file's header can be read, as there is no example then."""
    from fastpipe import readers

    problem: Exception | None = None
    for path, _ in files.samples:
        try:
            readers.read_header(path)
            return
        except (FastpipeError, OSError) as error:
            problem = problem or error
    raise DatasetError(f"{problem}. Name an image or a folder of images, or give --size HxW for an example")


def explain(
    subject: Annotated[
        str,
        Argument(
            metavar="PATH|MODULE:NAME",
            help="A folder of images or one image; or a transform, dataset or loader: MODULE:NAME or FILE.py:NAME.",
        ),
    ],
    transform: TransformOption = None,
    size: Annotated[
        ImageShape | None,
        Option(parser=_shape, metavar="HxW", help="The image size of the example (default: a file's, or 375x500)."),
    ] = None,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Print what runs where for a transform, dataset or loader.

    It also says which steps are exact, and which aren't planned.

    Example: fastpipe explain train:transform; on your files: fastpipe explain ~/photos/train -t train:transform
    """
    import fastpipe
    from fastpipe.paths import is_url, local_path
    from fastpipe.reporting.output import encodable, write_json_if_asked

    # For a script's name alone, `find_object` raises an error that says how to name its transform.
    is_file = os.path.exists(local_path(subject)) and not subject.endswith(".py")
    is_path = transform is not None or is_url(subject) or is_file
    if is_path:
        from fastpipe.tools.inputs import dataset_of

        target = dataset_of(subject, load_transform(transform), count=16)
        if size is None:
            _check_readable(target)
    elif ":" in subject or subject.endswith(".py"):
        target = find_object(subject)
    else:
        named = f"{subject or repr(subject)}{_near(subject)}"
        raise DatasetError(f"there is no file or folder {named}; to explain what a script makes, give MODULE:NAME")
    explanation = fastpipe.explain(target, shape=size)
    if is_path:  # name the path, not the list made of some of its files
        explanation = replace(explanation, subject=f"{subject}, {explanation.subject.rpartition(', ')[2]}")
    if write_json_if_asked(json, explanation.to_dict(), quiet):
        print(explanation.text(ascii=not encodable("├└│", sys.stdout.encoding, "")))
