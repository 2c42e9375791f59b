"""The samples of a batch read by the core, and drawn together where all of them are crops that it makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fastpipe import core, ops, readers
from fastpipe.data.bad_files import noted
from fastpipe.data.jobs import Job
from fastpipe.data.straight import goes_straight
from fastpipe.program import Encoded, Lot, lap, read_together
from fastpipe.program.straight import Followed, followed
from fastpipe.rng import drawing, sample_keys
from fastpipe.sources import fetched
from fastpipe.types import DecodeRequest, Header, ImageShape, Recipe

if TYPE_CHECKING:
    from fastpipe.data.base import ImageDataset

_CROP = DecodeRequest()
_FORMATS = ("JPEG", "PNG")


def read_lot(dataset: ImageDataset, jobs: Sequence[Job], threads: int) -> Lot | None:
    """Reads the files of jobs in one call of the core, and draws for them; None where jobs have what was read each.

    Some of these have been drawn for, too; the others are to be, in their order.
    """
    limit = readers.longest_file(readers.pixel_limit(dataset.max_pixels))
    sources, errors = fetched([dataset._source(job) for job in jobs])
    lap("fetch")
    files = read_together(sources, threads, limit)
    reader, config, max_pixels = dataset.reader, dataset.config, dataset.max_pixels

    def encoded(number: int, header: Header | core.Status | None = None) -> Encoded:
        header = header or files.header(number)
        assert isinstance(header, Header)
        return Encoded(b"", header, jobs[number].path, reader, config, max_pixels, (files, number))

    if not errors and goes_straight(dataset) and all(_is_usual(dataset, files.header(one)) for one in files.alike()):
        behind = _behind(dataset, jobs[0])
        if behind:
            drawn = _drawn(dataset, jobs, files)
            sizes = {followed.size for followed in behind.values()}
            if len(drawn) == len(jobs) and all(one[2] and one[2:4] not in sizes for one in drawn):
                return Lot(files, drawn, behind, encoded)
            for job, (height, width, _), (*box, flips) in zip(jobs, files.shapes(), drawn, strict=False):
                if box[2]:
                    steps = ops.Crop(*box), *behind[flips].steps
                    job.recipe = Recipe(ImageShape(height, width), steps)
    for number, (job, header) in enumerate(zip(jobs, files.headers(), strict=True)):
        if number in errors:
            dataset._fail(job, errors[number])
        elif isinstance(header, Header) and header.format in _FORMATS:
            job.encoded = encoded(number, header)
            if dataset.apply_exif:  # a PNG's may stand behind its pixels
                late = header.format == "PNG"
                job.orientation = (
                    readers.upright_orientation(job.encoded.content, header) if late else header.orientation
                )
        else:  # another format, or nothing that can be read: as it is done one by one, errors included
            dataset._read_or_fail(job, sources[number])
    lap("read")
    return None


def _is_usual(dataset: ImageDataset, header: Header | core.Status) -> bool:
    """Whether the core is asked for such files, and nothing has to be looked at in each."""
    if not isinstance(header, Header) or header.format not in _FORMATS:
        return False
    if dataset.apply_exif and (header.format == "PNG" or header.orientation != 1):
        return False
    return readers.choose(header, _CROP, dataset.reader, dataset.config).name == "core"


def _behind(dataset: ImageDataset, job: Job) -> dict[int, Followed]:
    """What follows the crop, by the flips that are drawn; nothing where the core doesn't have all of it."""
    at_once = dataset.pipeline.at_once
    assert at_once is not None
    try:
        found = {flips: followed(at_once.behind_crop(flips)) for flips in range(at_once.most_flips + 1)}
    except Exception as error:
        noted(error, dataset._from_front(job.index), job.path)
        raise
    return {} if any(one.packed is None for one in found.values()) else found


def _drawn(dataset: ImageDataset, jobs: Sequence[Job], files: core.Files) -> Sequence[core.Drawn]:
    pipeline, shapes = dataset.pipeline, files.shapes()
    if dataset.seed is not None:
        places = (dataset._from_front(job.place) for job in jobs)
        return pipeline.crops_keyed(shapes, sample_keys(dataset.seed, jobs[0].epoch or 0, places))
    with drawing(dataset._generators) as held:
        return pipeline.crops(shapes, held)
