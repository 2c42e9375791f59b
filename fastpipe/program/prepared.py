"""Prepared jobs for programs that run again and again on loaded images: only two addresses differ between runs.

A call asks the image for its memory, allocates the result, and runs the job. That takes 7 µs beside the core's work;
filling a job anew takes twice as long. `benchmarks/recipes.py --only loaded` measures it on images of 32×32.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from PIL import Image

from fastpipe import core, result_memory
from fastpipe.core.addresses import address_of
from fastpipe.ops import TensorConversion
from fastpipe.program.core_job import LoadedImage, fill_from_pixels, new_tensor, write_new_image, write_new_tensor
from fastpipe.program.program import Program
from fastpipe.types import Box, ImageShape, Step


class Prepared(NamedTuple):
    """A prepared job for images of one shape and layout.

    Attributes:
        job: the job.
        kind: mode and size of PIL images.
        offset: bytes from an image's first pixel to the box's.
        result: the shape of the result.
        dtype: the dtype of a resulting tensor; None if the result is an image.
        in_rows: the tensor ``(C, H, W)`` is interleaved in memory.
        keeps_info: a resulting PIL image gets the image's ``info``.
    """

    job: core.PreparedJob
    kind: tuple[str, tuple[int, int]]
    offset: int
    result: ImageShape
    dtype: torch.dtype | None
    in_rows: bool
    keeps_info: bool

    def run_on(self, image: LoadedImage) -> torch.Tensor | Image.Image | None:
        """Runs the job on an image; returns a new tensor or PIL image.

        None if the memory of the image or of the new one isn't accessible, or if torch has to do the work.

        Args:
            image: an array of this layout, or a PIL image of any mode and size.
        """
        if not isinstance(image, np.ndarray):
            if (image.mode, image.size) != self.kind:
                return None
            if self.dtype is None:
                return core.run_to_new_image(self.job.address, image, self.offset, self.result, self.keeps_info)
        assert self.dtype is not None  # an array's work ends in a tensor
        result = new_tensor(self.result, self.dtype, self.in_rows)
        sink = result.data_ptr()
        if isinstance(image, np.ndarray):
            done = core.check_or_unsure(core.run_prepared(self.job, address_of(image) + self.offset, sink, image))
        else:
            done = core.run_from_image(self.job.address, image, self.offset, sink)
        return result if done else None


def prepared_program(program: Program, image: LoadedImage, in_rows: bool) -> Prepared | None:
    """Prepares a program for images of this shape and layout; None if it needs more than one job."""
    conversion = program.conversion
    if program.after or (conversion is None and isinstance(image, np.ndarray)):
        return None
    if conversion is not None and result_memory.is_large(program.result, conversion.dtype):  # allocated in another way
        return None
    keeps_info = bool(program.keeps_info)
    return prepared(
        program.steps, conversion, image, program.shape, program.box, keeps_info, in_rows and program.in_rows
    )


def prepared(
    steps: tuple[Step, ...],
    conversion: TensorConversion | None,
    image: LoadedImage,
    shape: ImageShape,
    box: Box,
    keeps_info: bool,
    in_rows: bool = False,
) -> Prepared | None:
    """Prepares steps on a box of images of this shape and layout; None if the core lacks a step."""
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
        return Prepared(job.prepared(), images, offset, result, dtype, in_rows, keeps_info)
    finally:
        core.give_back(job)
