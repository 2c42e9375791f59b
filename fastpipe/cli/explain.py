"""``fastpipe explain``: the plan of a transform or dataset."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fastpipe.cli._transform import TransformOption, find_object, load_transform

if TYPE_CHECKING:
    from fastpipe.types import ImageShape

__all__ = ["explain"]


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
        str | None,
        typer.Option("--size", metavar="HxW", help="The image size to show it for (default: a file's, or 375x500)."),
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help='As with fidelity="fast".')] = False,
    json: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Also write it as JSON; - for standard output.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No text.")] = False,
) -> None:
    """Print what runs where for a transform or dataset.

    And what is exact, what ends the plan, and what mends it.

    Example: fastpipe explain train:transform; on your files: fastpipe explain ~/photos/train -t train:transform
    """
    import fastpipe
    from fastpipe.bench.report import check_writable, write_json

    if json is not None:
        check_writable(json, "--json")
    shape = _shape(size)
    is_path = transform is not None or Path(subject).expanduser().exists()
    if is_path:
        from fastpipe.tools.files import dataset_of

        found = dataset_of(subject, load_transform(transform), count=16)
    else:
        found = find_object(subject)
    explanation = fastpipe.explain(found, shape=shape, fidelity="fast" if fast else None)
    if is_path:  # the list of a few of its files is nothing that the user knows of
        explanation = replace(explanation, subject=f"{subject}, {explanation.subject.rpartition(', ')[2]}")
    if json is not None:
        write_json(json, explanation.to_dict())
    if json != "-" and not quiet:
        print(explanation.text(ascii=not _draws_branches()))


def _shape(size: str | None) -> ImageShape | None:
    from fastpipe.types import ImageShape

    if size is None:
        return None
    match = re.fullmatch(r"(\d+)[x×,](\d+)", size)
    if match is None or 0 in (int(match[1]), int(match[2])):
        raise typer.BadParameter(f"--size {size}: give height and width in pixels, such as 375x500")
    return ImageShape(int(match[1]), int(match[2]))


def _draws_branches() -> bool:
    try:
        "├└│".encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True
