"""`dataset[index]` where a sample is a drawn crop that the core makes: drawn and made without steps in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from fastpipe import ops
from fastpipe.data.bad_files import noted
from fastpipe.data.jobs import Job
from fastpipe.data.recipes import upright
from fastpipe.program import cropped_whole, works_together
from fastpipe.rng import drawing
from fastpipe.types import Recipe

if TYPE_CHECKING:
    from fastpipe.data.base import ImageDataset


def goes_straight(dataset: ImageDataset) -> bool:
    """Whether nothing but a crop and flips is drawn for a sample, and nothing else is done."""
    return (
        dataset.pipeline.at_once is not None
        and not dataset.pipeline.rest
        and dataset.fidelity == "torchvision"
        and dataset.target_transform is None
        and dataset._draws_images_alone
        and works_together()
    )


def straight(dataset: ImageDataset, job: Job) -> torch.Tensor | None:
    """The image of a job that was read; None where it is to be made as any other: what was drawn is in the job then."""
    encoded, pipeline = job.encoded, dataset.pipeline
    if encoded is None or job.orientation != 1 or pipeline.at_once is None or not goes_straight(dataset):
        return None
    shape = upright(encoded.header, 1)
    try:
        if dataset.seed is None:
            with drawing(dataset._generators) as held:
                found = pipeline.crops((shape,), held)
        else:
            found = pipeline.crops_keyed((shape,), (dataset._key(job),))
        if not found or not found[0][2]:
            return None
        drawn = found[0]
        steps = pipeline.at_once.behind_crop(drawn[4])
    except Exception as error:
        noted(error, dataset._from_front(job.index), job.path)
        raise
    image = cropped_whole(encoded, drawn[:4], steps)
    if image is None:
        job.recipe = Recipe(shape, (ops.Crop(*drawn[:4]), *steps))
    return image
