"""The stages for images that are in memory, in one array: nothing is read or decoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from fastpipe import core
from fastpipe.core import ThreadResources
from fastpipe.core.addresses import address_of
from fastpipe.errors import DatasetError
from fastpipe.executor.image_stages import ImageStages, StageOptions
from fastpipe.executor.tasks import SampleTask
from fastpipe.program.on_image import finish_tensor, run_on_image
from fastpipe.types import Box, Generators, ImageShape, Recipe


class PixelArray:
    """Images in one array, and the address of each.

    Args:
        data: uint8, ``(N, H, W)`` or ``(N, H, W, 3)``, with any strides; an array, or a tensor in main memory. It isn't
            copied, and later changes in it are seen.
        channels_first: the shape of colour images is ``(N, 3, H, W)``.

    Attributes:
        pixels: the array as ``(N, H, W, C)``.
        shape: the shape of each image.

    Raises:
        DatasetError: the data has another shape or type.
    """

    __slots__ = ("_first", "_step", "_strides", "pixels", "shape")

    def __init__(self, data: object, channels_first: bool = False) -> None:
        self.pixels = _channels_last(data, channels_first)
        self.shape = ImageShape(*self.pixels.shape[1:])
        self._step, *strides = self.pixels.strides
        self._strides = strides[0], strides[1], strides[2]
        self._first = address_of(self.pixels)

    def __len__(self) -> int:
        return len(self.pixels)

    def give_to(self, job: core.Job, number: int, box: Box | None) -> None:
        """Makes an image, or a box of it, a job's source; the array has to live until the job has run."""
        address = self._first + number * self._step
        if box is None:
            job.read_memory(address, self._strides, self.shape)
        else:
            row, column, _ = self._strides
            shape = box.height, box.width, self.shape.channels
            job.read_memory(address + box.top * row + box.left * column, self._strides, shape)

    def image(self, number: int) -> Image.Image:
        """An image as a PIL image, with a copy of its pixels."""
        pixels = self.pixels[number]
        return Image.fromarray(pixels if self.shape.channels == 3 else pixels[:, :, 0])


def _channels_last(data: object, channels_first: bool) -> NDArray[np.uint8]:
    """The data as an array ``(N, H, W, C)`` on the same memory."""
    array = data.numpy() if isinstance(data, torch.Tensor) and data.device.type == "cpu" else data
    if isinstance(array, np.ndarray) and array.dtype == np.uint8:
        if array.ndim == 3:
            return array[..., None]
        if array.ndim == 4 and array.shape[1 if channels_first else 3] == 3:
            return array.transpose(0, 2, 3, 1) if channels_first else array
    shape = getattr(data, "shape", None)
    given = type(data).__name__ if shape is None else f"{getattr(data, 'dtype', '')} {tuple(shape)}"
    colour = "(N, 3, H, W)" if channels_first else "(N, H, W, 3)"
    raise DatasetError(f"images in memory are a uint8 array or CPU tensor, (N, H, W) or {colour}; given: {given}.")


@dataclass(frozen=True, slots=True)
class PixelImage:
    """An image of a `PixelArray`, used as `SampleTask.encoded` instead of a file."""

    array: PixelArray
    number: int
    max_pixels: None = None

    def give_to(self, job: core.Job, box: Box | None, limits: tuple[int, int]) -> None:
        self.array.give_to(job, self.number, box)


class PixelStages(ImageStages):
    """The stages for images in memory.

    Args:
        options: see `ImageStages`.
        array: the images.
    """

    def __init__(self, options: StageOptions, array: PixelArray) -> None:
        super().__init__(options)
        self._array = array

    def read(self, tasks: Sequence[SampleTask], resources: ThreadResources | None) -> None:
        for task in tasks:
            self.read_one(task)

    def read_one(self, task: SampleTask, source: str | bytes | None = None) -> None:
        task.encoded, task.shape = PixelImage(self._array, task.source_index), self._array.shape

    def release(self, tasks: Sequence[SampleTask], resources: ThreadResources | None) -> None:
        """Does nothing: the array stays in memory."""

    def recipe(self, task: SampleTask, generators: Generators) -> Recipe:
        return self.pipeline.draw(self._array.shape, generators)

    def _is_for_core(self, task: SampleTask) -> bool:
        return True

    def make(self, task: SampleTask, out: torch.Tensor | None) -> None:
        program = task.program
        assert program is not None
        if task.image is not None:
            task.image = finish_tensor(program, task.image, out)
            return
        image = self._array.image(task.source_index)
        result: object = image
        if program.all_steps:
            result = run_on_image(program, image, out, in_rows=bool(self.pipeline.unplanned))
        if out is None:
            task.image = result
