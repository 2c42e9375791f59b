"""Programs that run again and again on loaded images: all of the job but two addresses is worked out once.

A call then asks the image where its pixels lie, makes the result's memory, and runs the job: 7 µs around the core's
work, where filling a job anew takes twice as long. `benchmarks/recipes.py --only loaded` has it on images of 32×32.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from fastpipe import core
from fastpipe.core.addresses import address_of
from fastpipe.kernels import memory
from fastpipe.program.lower import add_steps
from fastpipe.program.program import Program
from fastpipe.types import Box, ImageShape, Step

_PIXEL_BYTES = {1: 1, 3: 4}  # of a PIL image, by channels


def fill_from_pixels(
    job: core.Job, image: Any, channels: int, box: Box, steps: tuple[Step, ...]
) -> tuple[int, ImageShape, int]:
    """Fills a job with all but its sink: a box of an image as its source, and the first steps that the core has.

    Args:
        job: an empty one.
        image: a uint8 array, or a PIL image, whose pixels `core.run_on_image` finds.
        channels: of the image.
        box: inside of it.
        steps: on the box.

    Returns:
        Bytes from the image's first pixel to the box's; the shape after the steps; and how many they are.
    """
    if isinstance(image, np.ndarray):
        job.read_pixels(image[box.top : box.bottom, box.left : box.right])
        offset = box.top * image.strides[0] + box.left * image.strides[1]
    else:
        size, width = _PIXEL_BYTES[channels], image.size[0]
        job.read_image_part(box.height, box.width, width * size, size)
        offset = (box.top * width + box.left) * size
    return offset, *add_steps(job, steps, ImageShape(box.height, box.width, channels))


def write_new_image(job: core.Job, shape: ImageShape) -> None:
    """Sets a job's sink: the new PIL image that `core.run_on_image` makes."""
    job.write_new_image(shape.height, shape.width, _PIXEL_BYTES[shape.channels])


def new_tensor(shape: ImageShape, dtype: torch.dtype, in_rows: bool) -> torch.Tensor:
    """A new tensor ``(C, H, W)``: in memory rows of pixels, or planes."""
    height, width, channels = shape
    if in_rows:
        return memory.new_result(shape, dtype).permute(2, 0, 1)
    return memory.new_result((channels, height, width), dtype)


def write_new_tensor(job: core.Job, address: int, shape: ImageShape, conversion: Any, in_rows: bool) -> None:
    """Sets a job's sink: a tensor as `new_tensor` makes it, of which the address may follow later."""
    dtype = conversion.dtype
    kind = core.DType.UINT8 if dtype is torch.uint8 else core.DType.FLOAT32
    height, width, channels = shape
    strides = (1, width * channels, channels) if in_rows else (height * width, width, 1)
    between, down, across = (stride * dtype.itemsize for stride in strides)
    job.write(address, shape, (down, across, between), kind, *conversion.arithmetic)


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

    def run_on(self, image: Any, keeps_info: bool = True) -> Any:
        """A new tensor or PIL image.

        None where this image's memory isn't to be had, or a new one's, and where torch is to do it.

        Args:
            image: an array of this layout, or a PIL image of any mode and size.
            keeps_info: of a PIL image, which comes out, too.
        """
        is_array = isinstance(image, np.ndarray)
        if not is_array and (image.mode, image.size) != self.kind:
            return None
        if self.dtype is None:
            return core.run_on_image(self.job.address, image, self.offset, self.result, keeps_info)
        made = new_tensor(self.result, self.dtype, self.in_rows)
        sink = made.data_ptr()
        if is_array:
            done = core.check_or_unsure(core.run_prepared(self.job, address_of(image) + self.offset, sink, image))
        else:
            done = core.run_on_image(self.job.address, image, self.offset, None, out=sink) is not None
        return made if done else None


def prepared_program(program: Program, image: object, in_rows: bool) -> Prepared | None:
    """Prepares a program for images of this one's shape and layout; None where its job isn't all there is to do."""
    conversion = program.conversion
    if program.after or (conversion is None and isinstance(image, np.ndarray)):
        return None
    if conversion is not None and memory.is_large(program.result, conversion.dtype):  # which has ways of its own
        return None
    return prepared(program.steps, conversion, image, program.shape, program.box, in_rows and program.in_rows)


def prepared(
    steps: tuple[Step, ...], conversion: Any, image: object, shape: ImageShape, box: Box, in_rows: bool = False
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
