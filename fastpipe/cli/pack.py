"""``fastpipe pack`` and ``fastpipe unpack``: convert a dataset's JPEGs to a format that decodes faster, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastpipe.cli._interrupt import resumable
from fastpipe.cli._options import JsonOption, QuietOption, SchedulerOption
from fastpipe.cli.parameters import Argument, Option

if TYPE_CHECKING:
    from fastpipe.packing import PackResult

_SOURCE = (
    "A folder of class folders, or of images; a zip or tar of one; a pattern of shards or Parquet files; the folder of "
    "an index; a list (.txt, .csv, .parquet); one image; or a URL of any of these."
)
_TARGET = "A folder, a .zip or .tar, or shards by the name of the first: 'train-{000000..}.tar'. Outside of SOURCE."

SourceArgument = Annotated[str, Argument(metavar="SOURCE", help=_SOURCE)]
TargetArgument = Annotated[str, Argument(metavar="TARGET", help=_TARGET)]
ShardSizeOption = Annotated[str, Option(metavar="SIZE", help="Approximate size of a shard: '500 MB', '2 GB'.")]
ShardSamplesOption = Annotated[
    int | None,
    Option(metavar="N", min=1, help="Samples in a shard (default: as many as fit its size)."),
]
KeepNamesOption = Annotated[
    bool,
    Option(
        "--keep-names",
        help="Keep all files under their own names, in the same kind of container, for scripts under fastpipe run.",
    ),
]
JobsOption = Annotated[
    int | None, Option("--jobs", "-j", metavar="N", min=1, help="Threads (default: one for each CPU).")
]


def pack(
    source: SourceArgument,
    target: TargetArgument,
    shard_size: ShardSizeOption = "1 GB",
    shard_samples: ShardSamplesOption = None,
    image: Annotated[str | None, Option(metavar="NAME", help="The column of the images in Parquet files.")] = None,
    label: Annotated[str | None, Option(metavar="NAME", help="The column of the labels in Parquet files.")] = None,
    max_side: Annotated[
        int | None,
        Option(metavar="PIXELS", help="Resize images whose longer side is larger to this side first."),
    ] = None,
    short_side: Annotated[
        int | None,
        Option(metavar="PIXELS", help="Resize images whose shorter side is larger to this side first."),
    ] = None,
    quality: Annotated[
        int | None,
        Option(metavar="Q", help="Quality of the resized images (default: 90)."),
    ] = None,
    discard_original_bytes: Annotated[
        bool,
        Option(
            "--discard-original-bytes",
            help="Leave out the data that restores the same files; unpack then makes other files of the same pixels.",
        ),
    ] = False,
    keep_names: KeepNamesOption = False,
    jobs: JobsOption = None,
    scheduler: SchedulerOption = None,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Pack the JPEGs of a dataset, so that they decode faster.

    Pixels, classes, targets, order, names and times stay the same, and unpacking restores the same files, byte for
    byte, unless images are made smaller or the original bytes are discarded. Each image is verified; other files are
    copied. After an interrupt, the same command continues; later, it adds new files.

    Example: fastpipe pack ~/photos/train ~/packed/train.zip
    """
    from fastpipe.packing import pack as run

    with resumable(quiet):
        result = run(
            source,
            target,
            shard_size=shard_size,
            shard_samples=shard_samples,
            image=image,
            label=label,
            max_side=max_side,
            short_side=short_side,
            quality=quality,
            discard_original_bytes=discard_original_bytes,
            keep_names=keep_names,
            jobs=jobs,
            scheduler=scheduler,
            progress=not quiet,
        )
    _tell(result, json, quiet)


def unpack(
    source: SourceArgument,
    target: TargetArgument,
    shard_size: ShardSizeOption = "1 GB",
    shard_samples: ShardSamplesOption = None,
    keep_names: KeepNamesOption = False,
    jobs: JobsOption = None,
    scheduler: SchedulerOption = None,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Restore the JPEGs of a dataset's packed images.

    They have the bytes (verified by SHA-256), names and times of the JPEGs that were packed; if the original bytes were
    discarded, the same coefficients and metadata. Images made smaller before packing stay smaller. Other files are
    copied.

    Example: fastpipe unpack ~/packed/train.zip ~/photos/again
    """
    from fastpipe.packing import unpack as run

    with resumable(quiet):
        result = run(
            source,
            target,
            shard_size=shard_size,
            shard_samples=shard_samples,
            keep_names=keep_names or None,
            jobs=jobs,
            scheduler=scheduler,
            progress=not quiet,
        )
    _tell(result, json, quiet)


def _tell(result: PackResult, json: str | None, quiet: bool) -> None:
    from fastpipe.reporting.output import write_json_if_asked

    if write_json_if_asked(json, result.about(), quiet):
        print(result)
