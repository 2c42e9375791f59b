"""`dataset[index]` where a sample is a drawn crop that the core makes: drawn and made without steps in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from fastpipe import ops
from fastpipe.data.bad_files import noted
from fastpipe.data.jobs import Job
from fastpipe.data.recipes import upright
from fastpipe.program import cropped_whole, drawing, works_together
from fastpipe.types import Recipe

if TYPE_CHECKING:
    from fastpipe.data.base import ImageDataset


def straight(dataset: ImageDataset, job: Job) -> torch.Tensor | None:
    """The image of a job that was read; None where it is to be made as any other: what was drawn is in the job then."""
    encoded = job.encoded
    if encoded is None:
        return None
    pipeline = dataset.pipeline
    if (
        pipeline.at_once is None
        or pipeline.rest
        or job.orientation != 1
        or dataset.fidelity != "torchvision"
        or dataset.target_transform is not None
        or not dataset._draws_images_alone
        or not works_together()
    ):
        return None
    shape = upright(encoded.header, 1)
    try:
        if dataset.seed is None:
            with drawing(dataset._generators) as held:
                drawn = pipeline.crop(shape, held)
        else:
            drawn = pipeline.crop_keyed(shape, dataset._key(job))
        if drawn is None:
            return None
        steps = pipeline.at_once.behind_crop(drawn[4])
    except Exception as error:
        noted(error, dataset._from_front(job.index), job.path)
        raise
    image = cropped_whole(encoded, drawn[:4], steps)
    if image is None:
        job.recipe = Recipe(shape, (ops.Crop(*drawn[:4]), *steps))
    return image
