"""Filling a job of the core: its source (a file or pixels), the operations of a program's steps, its sink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from fastpipe import core, readers
from fastpipe.ops import Memo, Operation, Resize, TensorConversion
from fastpipe.program.program import Program
from fastpipe.readers import MaxPixels
from fastpipe.readers.base import Pixels
from fastpipe.result_memory import new_result
from fastpipe.types import Box, Header, ImageShape, Step, new_namedtuple

if TYPE_CHECKING:
    from fastpipe.config import MachineConfig
    from fastpipe.readers.partial import PartialFile

LoadedImage: TypeAlias = "Image.Image | NDArray[np.uint8]"
"""An image whose pixels a program can start from: see `fastpipe.program.on_image.shape_of`."""
_ALL_OF_A_FILE = Box(0, 0, 0, 0)  # the box of a job that takes the whole image
_PIXEL_BYTES = {1: 1, 3: 4}  # of a PIL image, by channels
_MOST_AT_ONCE = 2  # the most operations that one step adds to a job


# -- the source


@dataclass(slots=True)
class Encoded:
    """A file's bytes, and how they are to be decoded.

    Attributes:
        data: the whole file; empty if `held` has its bytes.
        header: the file's header.
        source: the file's name in errors.
        reader: a reader's name; None for the config's choice.
        config: the machine's config; None for the current one.
        max_pixels: the limit of pixels, as in `fastpipe.readers.read_image`.
        held: the core's `Files` that has the bytes, until its next `load`, and the file's position in it.
        place: position of the bytes in `held`, from `fastpipe.core.Files.outcomes`.
        partial: a remote file of which `held` has only the beginning; None if all bytes are here.
    """

    data: bytes
    header: Header
    source: str = "<bytes>"
    reader: str | None = None
    config: MachineConfig | None = None
    max_pixels: MaxPixels = "auto"
    held: tuple[core.Files, int] | None = None
    place: tuple[int, ...] = (0, 0)
    partial: PartialFile | None = None

    @property
    def content(self) -> bytes:
        """The whole file as bytes; reads the rest of a partial one."""
        if self.partial is not None and not self.data:
            self.data = self.partial.whole()
        elif self.held is not None and not self.data:
            files, number = self.held
            self.data = files.bytes(number)
        return self.data

    def give_to(self, job: core.Job, box: Box | None, limits: tuple[int, int]) -> None:
        """Makes the file, or a box of it, a job's source."""
        if self.partial is not None:
            if self.data or self.partial.missing(box or Box(0, 0, *self.header.size)):
                job.read(self.content, box or _ALL_OF_A_FILE, limits)
            else:
                job.read_place(self.partial.place, box or _ALL_OF_A_FILE, limits)
        elif self.held is None:
            job.read(self.data, box or _ALL_OF_A_FILE, limits)
        else:
            job.read_place(self.place, box or _ALL_OF_A_FILE, limits)

    def decode(self, box: Box | None = None, *, refused: bool = False) -> Pixels:
        """Decodes the file by its reader; see `fastpipe.readers.decode` for the arguments and the result."""
        return readers.decode(
            self.content,
            box,
            header=self.header,
            reader=self.reader,
            config=self.config,
            source=self.source,
            max_pixels=self.max_pixels,
            refused=refused,
        )

    @classmethod
    def of(cls, data: bytes, source: str = "<bytes>", **options: Any) -> Encoded:
        """Makes an `Encoded` from a file's bytes; parses their header."""
        return cls(data, readers.parse_header(data, source), source, **options)


@dataclass(frozen=True, slots=True)
class Decoded:
    """A file's pixels, in the place of its bytes.

    Attributes:
        pixels: the whole image as it is stored, in RGB; never changed.
    """

    pixels: Pixels
    max_pixels: None = None

    def give_to(self, job: core.Job, box: Box | None, limits: tuple[int, int]) -> None:
        """Makes the pixels, or a box of them, a job's source."""
        top, left, height, width = box or Box(0, 0, *self.pixels.shape[:2])
        job.read_pixels(self.pixels[top : top + height, left : left + width])


def fill_from_pixels(
    job: core.Job, image: LoadedImage, channels: int, box: Box, steps: tuple[Step, ...]
) -> tuple[int, ImageShape, int]:
    """Fills a job without its sink: the source is a box of an image, the operations are the first steps the core has.

    Args:
        job: an empty job.
        image: a uint8 array, or a PIL image, whose pixels the core finds when it runs.
        channels: the image's channels.
        box: a box inside the image.
        steps: the steps on the box.

    Returns:
        Bytes from the image's first pixel to the box's; the shape after the steps; and the number of steps taken.
    """
    if isinstance(image, np.ndarray):
        job.read_pixels(image[box.top : box.bottom, box.left : box.right])
        offset = box.top * image.strides[0] + box.left * image.strides[1]
    else:
        size, width = _PIXEL_BYTES[channels], image.size[0]
        job.read_image_part(box.height, box.width, width * size, size)
        offset = (box.top * width + box.left) * size
    return offset, *add_steps(job, steps, ImageShape(box.height, box.width, channels))


def fill_from_file(job: core.Job, program: Program, encoded: Encoded | Decoded) -> tuple[ImageShape, int]:
    """Fills a job without its sink: the source is a file, the operations are the program's first steps the core has.

    Args:
        job: any job.
        program: a program for the file.
        encoded: the file.

    Returns:
        The shape of the result, and the number of steps taken.
    """
    limit = readers.pixel_limit(encoded.max_pixels)
    encoded.give_to(job, program.box, (0, readers.most_scratch(limit)))
    return add_program(job, program)


# -- the operations


def add_program(job: core.Job, program: Program) -> tuple[ImageShape, int]:
    """Makes a job's operations the first steps of a program, as many as the core has; returns what `add_steps` does."""
    steps, memo, channels = program.steps, program.memo, program.result[2]
    encoded = None if memo is None else memo.packed.get(channels)
    if encoded is not None:
        job.use(encoded[0])
        return program.result, len(steps)
    job.clear()
    box, shape = program.region, program.shape
    if box is not None:
        shape = new_namedtuple(ImageShape, (box.height, box.width, shape.channels))
    result, taken = add_steps(job, steps, shape)
    if memo is not None and taken == len(steps):
        memo.packed.keep(channels, (job.packed((0, 0)), result))
    return result, taken


def claimed_by_core(program: Program) -> Program | None:
    """Prepares a program that will run later: its operations are encoded and cached. None if the core lacks a step.

    The core has checked the steps' arguments then, so the program can't fail because of them.
    """
    if not core.available():
        return None
    if program.memo is None:
        program = program._replace(memo=Memo(has_jobs=False))
    job = core.thread_job()
    _, taken = add_program(job, program)
    core.give_back(job)
    return program if taken == len(program.steps) else None


def core_has(operations: tuple[Operation, ...], shape: ImageShape) -> bool:
    """True if the core can run all these operations on an image of this shape in one job."""
    return claimed_by_core(Program(shape, None, operations, None, (), shape)) is not None


def add_steps(job: core.Job, steps: tuple[Step, ...], shape: ImageShape) -> tuple[ImageShape, int]:
    """Adds the first steps that the core has to a job; returns the shape after them, and their number."""
    for number, step in enumerate(steps):
        memo: Memo | None = getattr(step, "interned", None)
        if memo is not None:
            packed = memo.packed.get(shape) or memo.packed.get(shape[2])
            if packed is not None:
                if not job.add(packed[0]):
                    return shape, number
                shape = packed[1]
                continue
        begin = None if memo is None else job.mark()
        if job.room < _MOST_AT_ONCE or not isinstance(step, Operation) or not step.to_core(job, shape):
            return shape, number
        result = step.output_shape(shape) if step.changes_shape else shape
        if memo is not None and begin is not None:
            # a resize to a fixed size is the same for images of any size
            key = shape[2] if isinstance(step, Resize) and step.fixed else shape
            memo.packed.keep(key, (job.packed(begin), result))
        shape = result
    return shape, len(steps)


# -- the sink


def write_new_image(job: core.Job, shape: ImageShape) -> None:
    """Sets a job's sink: the new PIL image, which `core.run_to_new_image` makes."""
    job.write_new_image(shape.height, shape.width, _PIXEL_BYTES[shape.channels])


def new_tensor(shape: ImageShape, dtype: torch.dtype, in_rows: bool) -> torch.Tensor:
    """A new tensor ``(C, H, W)``; in memory rows of interleaved pixels if `in_rows`, else planes."""
    height, width, channels = shape
    if in_rows:
        # Changes the strides in place, because the result must not be a view.
        return new_result(shape, dtype).as_strided_((channels, height, width), (1, width * channels, channels))
    return new_result((channels, height, width), dtype)


def write_new_tensor(
    job: core.Job, address: int, shape: ImageShape, conversion: TensorConversion, in_rows: bool
) -> None:
    """Sets a job's sink: a tensor laid out as `new_tensor` makes it; its address may be set later."""
    dtype = conversion.dtype
    kind = core.DType.UINT8 if dtype is torch.uint8 else core.DType.FLOAT32
    height, width, channels = shape
    strides = (1, width * channels, channels) if in_rows else (height * width, width, 1)
    between, down, across = (stride * dtype.itemsize for stride in strides)
    job.write(address, shape, (down, across, between), kind, *conversion.arithmetic)


def pillow_sink(job: core.Job, shape: ImageShape) -> Image.Image | None:
    """Sets a job's sink: a new PIL image; None if Pillow can't allocate it in one block."""
    new = core.new_image(*shape)
    if new is None:
        return None
    image, pixels = new
    job.write_image(pixels)
    return image


def tensor_sink(
    job: core.Job, conversion: TensorConversion, shape: ImageShape, out: torch.Tensor | None, in_rows: bool = False
) -> torch.Tensor:
    """Sets a job's sink: the given tensor, or a new one."""
    if out is None:
        out = new_tensor(shape, conversion.dtype, in_rows)
        write_new_tensor(job, out.data_ptr(), shape, conversion, in_rows)
    else:
        job.write_tensor(out, *conversion.arithmetic)
    return out
