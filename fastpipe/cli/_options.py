"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "FormatOption",
    "ImagesOption",
    "JsonOption",
    "PathArgument",
    "QuietOption",
    "ReadersOption",
    "RoundsOption",
    "WorkersOption",
]

PathArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="PATH",
        help="A folder of images (searched with its subfolders) or one file; without it: made images.",
        show_default=False,
    ),
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
    typer.Option(
        "--workers",
        metavar="N",
        min=0,
        help="DataLoader workers; 0 for none (default: one a usable CPU, at most 16).",
    ),
]
ImagesOption = Annotated[int, typer.Option("--images", metavar="N", min=1, help="Images of each format, at most.")]
RoundsOption = Annotated[int, typer.Option("--rounds", metavar="N", min=1, help="Timed rounds.")]
JsonOption = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Also write everything as JSON; - for standard output.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no text.")]
