"""Programs that run again and again on loaded images: all of the job but two addresses is worked out once.

A call then asks the image where its pixels lie, makes the result's memory, and runs the job: 7 µs around the core's
work, where filling a job anew takes twice as long. `benchmarks/recipes.py --only loaded` has it on images of 32×32.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from PIL import Image

from fastpipe import core
from fastpipe.core.addresses import address_of
from fastpipe.kernels import memory
from fastpipe.ops import TensorConversion
from fastpipe.program.core_job import LoadedImage, fill_from_pixels, new_tensor, write_new_image, write_new_tensor
from fastpipe.program.program import Program
from fastpipe.types import Box, ImageShape, Step


class Prepared(NamedTuple):
    """A job for images of one shape and layout.

    Attributes:
        job: the job.
        kind: mode and size of PIL images.
        offset: bytes from an image's first pixel to the box's.
        result: the shape of what comes out.
        dtype: of a tensor that comes out; None where an image does.
        in_rows: the tensor ``(C, H, W)`` lies in memory in rows of pixels.
        keeps_info: of a PIL image that comes out, for those who keep that here.
    """

    job: core.PreparedJob
    kind: tuple[str, tuple[int, int]]
    offset: int
    result: ImageShape
    dtype: torch.dtype | None
    in_rows: bool
    keeps_info: bool = True

    def run_on(self, image: LoadedImage, keeps_info: bool = True) -> torch.Tensor | Image.Image | None:
        """A new tensor or PIL image.

        None where this image's memory isn't to be had, or a new one's, and where torch is to do it.

        Args:
            image: an array of this layout, or a PIL image of any mode and size.
            keeps_info: of a PIL image, which comes out, too.
        """
        if not isinstance(image, np.ndarray):
            if (image.mode, image.size) != self.kind:
                return None
            if self.dtype is None:
                return core.run_to_new_image(self.job.address, image, self.offset, self.result, keeps_info)
        assert self.dtype is not None  # an array's work ends in a tensor
        made = new_tensor(self.result, self.dtype, self.in_rows)
        sink = made.data_ptr()
        if isinstance(image, np.ndarray):
            done = core.check_or_unsure(core.run_prepared(self.job, address_of(image) + self.offset, sink, image))
        else:
            done = core.run_from_image(self.job.address, image, self.offset, sink)
        return made if done else None


def prepared_program(program: Program, image: LoadedImage, in_rows: bool) -> Prepared | None:
    """Prepares a program for images of this one's shape and layout; None where its job isn't all there is to do."""
    conversion = program.conversion
    if program.after or (conversion is None and isinstance(image, np.ndarray)):
        return None
    if conversion is not None and memory.is_large(program.result, conversion.dtype):  # which has ways of its own
        return None
    return prepared(program.steps, conversion, image, program.shape, program.box, in_rows and program.in_rows)


def prepared(
    steps: tuple[Step, ...],
    conversion: TensorConversion | None,
    image: LoadedImage,
    shape: ImageShape,
    box: Box,
    in_rows: bool = False,
) -> Prepared | None:
    """Prepares steps on a box of images of the shape and layout of this one; None where the core lacks any."""
    job = core.thread_job()
    try:
        offset, result, taken = fill_from_pixels(job, image, shape.channels, box, steps)
        if taken != len(steps):
            return None
        if conversion is None:
            write_new_image(job, result)
        else:
            write_new_tensor(job, 0, result, conversion, in_rows)
        images = ("L" if shape.channels == 1 else "RGB", (shape.width, shape.height))
        dtype = None if conversion is None else conversion.dtype
        return Prepared(job.prepared(), images, offset, result, dtype, in_rows)
    finally:
        core.give_back(job)
