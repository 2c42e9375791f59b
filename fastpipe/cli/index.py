"""``fastpipe index``: makes the index of a folder's images ahead of training, and prints statistics."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fastpipe.cli._options import JsonOption, QuietOption, SchedulerOption
from fastpipe.cli.parameters import Argument, Option

if TYPE_CHECKING:
    from fastpipe.datasets import ImageIndex

_CLASSES_SHOWN = 20


def index(
    root: Annotated[
        str,
        Argument(
            metavar="PATH",
            help="The folder that holds one folder for each class, or a zip or tar of it; or shards ('shards/*.tar') "
            "or Parquet files, with --label for the place of the labels.",
        ),
    ],
    refresh: Annotated[
        bool,
        Option("--refresh", help="List every folder and file again, even if nothing seems to have changed."),
    ] = False,
    stats: Annotated[bool, Option("--stats", help="Print counts and sizes.")] = False,
    at: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="The folder for the index (default: in the user's cache folder)."),
    ] = None,
    image: Annotated[
        str | None,
        Option(metavar="NAME", help="The images' ending in shards, or their column in Parquet files."),
    ] = None,
    label: Annotated[
        str | None,
        Option(metavar="NAME", help="The labels' place in shards (cls, json:label) or their column in Parquet files."),
    ] = None,
    scheduler: SchedulerOption = None,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Make or refresh the index of a folder of images.

    With it, training starts at once, however many files there are.

    Example: fastpipe index ~/photos/train --stats
    """
    from fastpipe.datasets import ImageIndex, index_statistics
    from fastpipe.errors import ConfigError, DatasetError
    from fastpipe.index.cluster import cluster_at
    from fastpipe.index.extensions import IMG_EXTENSIONS
    from fastpipe.index.image_index import folder_source
    from fastpipe.index.index_source import BuildOptions
    from fastpipe.index.open import named_container
    from fastpipe.reporting.output import write_json_if_asked

    try:
        location: Path | str = "auto" if at is None else at
        with cluster_at(scheduler, ("index", root, image, label), quiet=quiet) as cluster:
            options = BuildOptions(True, refresh, not quiet, cluster)
            named = named_container(root, image=image, label=label, location=location, options=options)
            if named is not None:
                image_index = named.index
            elif image is not None or label is not None:
                raise ConfigError(f"--image and --label are for shards and Parquet files, and {root} is neither.")
            else:
                image_index = ImageIndex.load_or_build(folder_source(root, IMG_EXTENSIONS, options), location)
    except OSError as error:  # no such folder, or no class in it
        raise DatasetError(str(error)) from error
    if not len(image_index):
        raise DatasetError(
            f"there is no image in {root}: ImageFolder takes files that end in {', '.join(IMG_EXTENSIONS)}"
        )
    statistics = index_statistics(image_index) if stats or json is not None else {}
    if write_json_if_asked(json, statistics, quiet):
        _print(image_index, statistics if stats else {})
    if image_index.location is None:  # the index wasn't written; a warning has said why
        raise DatasetError(f"the index of {image_index.root} isn't kept: give --at a folder that can be written")


def _from_here(location: Path) -> Path:
    """The path from the current folder, if it lies below that."""
    here = Path.cwd()
    return location.relative_to(here) if location.is_relative_to(here) else location


def _print(index: ImageIndex, statistics: dict[str, Any]) -> None:
    from fastpipe.reporting.output import pluralize, wrap_text
    from fastpipe.reporting.tables import ReportTable

    found = f"{pluralize(len(index), 'file')} in {pluralize(len(index.classes), 'class')}"
    print(wrap_text(f"{found} of {index.root}"))
    state = "up to date" if index.origin == "opened" else index.origin
    location = "in memory only" if index.location is None else _from_here(index.location)
    print(wrap_text(f"index: {location} ({state})"))
    if not statistics:
        return
    classes = sorted(statistics["classes"].items(), key=lambda item: -item[1])
    left_out = len(classes) - _CLASSES_SHOWN
    if left_out > 0:
        half = _CLASSES_SHOWN // 2
        classes = [*classes[:half], (f"… {left_out} more classes", ""), *classes[-half:]]
    table = ReportTable(("", " "), (" ",), least_width=14, framed=False)

    def add(heading: str, counts: Mapping[str, object], total: int | str = "") -> None:
        table.add_row(heading, total)
        for name, count in counts.items():
            table.add_row(f"  {name}", count)

    add("files a class", dict(classes))
    add("files an ending", {name or "none": count for name, count in statistics["endings"].items()})
    add("size of a file, bytes", statistics["bytes"])
    for name in ("empty", "unreachable"):
        table.add_row(f"{name} files", statistics[name])
    print(table)
