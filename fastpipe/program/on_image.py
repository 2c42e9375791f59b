"""Runs a program on a loaded image: a PIL image in mode RGB or L, or a uint8 array.

The core reads the program's box from the image's own memory, and writes a tensor, or a new image of the same class, in
one call. Steps that the core lacks run one by one: on a PIL image by the transforms' functions, which call Pillow, on
an array by kernels. After the conversion to a tensor torch runs the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, TypeAlias, overload

import numpy as np
import torch
from PIL import Image

from fastpipe import core
from fastpipe.errors import PlanError
from fastpipe.mistakes import plain_instead
from fastpipe.ops import AsTvImage, Operation, TensorConversion, memo_of
from fastpipe.ops.base import ImageJobs
from fastpipe.plain_way import is_plain
from fastpipe.program.claims import Claimed, claim_of
from fastpipe.program.core_job import LoadedImage, fill_from_pixels, pillow_sink, tensor_sink, write_new_image
from fastpipe.program.lower import lower
from fastpipe.program.prepared import prepared, prepared_program
from fastpipe.program.program import Program, Views
from fastpipe.readers.base import Pixels
from fastpipe.types import Box, ImageShape, Step

_CHANNELS = {"RGB": 3, "L": 1}
_UINT8 = np.dtype(np.uint8)
_LEAST_COPIED = 4000  # pixels; Pillow copies fewer pixels faster
AS_TV_IMAGE = AsTvImage()
DIRECT = frozenset({torch.uint8, torch.float32, torch.float16, torch.bfloat16})
"""The dtypes that the core can write."""

Info: TypeAlias = dict[str | tuple[int, int], object]
"""Pillow's ``info`` of an image."""

MakePixels: TypeAlias = Callable[[Program, torch.Tensor | None, bool], object]
"""Runs a program up to its conversion, from a source; takes the program, the tensor to write to or None, and `in_rows`.

Returns None if it can't run the program."""


def shape_of(image: object) -> ImageShape | None:
    """The shape of an image that a program can start from; None for any other object.

    A program can start from PIL images in mode RGB or L without a transparent colour, which Pillow would convert with
    the pixels, and uint8 arrays ``(H, W)``, ``(H, W, 1)`` or ``(H, W, 3)`` with any strides. Empty ones give None.
    """
    if isinstance(image, Image.Image):
        channels = _CHANNELS.get(image.mode)
        width, height = image.size
        if channels is None or not width or not height or is_transparent(image):
            return None
        return ImageShape(height, width, channels)
    if not isinstance(image, np.ndarray) or image.dtype is not _UINT8 or not image.size:
        return None
    height, width, *channels = image.shape
    return ImageShape(height, width, *(channels or [1])) if channels in ([], [1], [3]) else None


def is_transparent(image: Image.Image) -> bool:
    """True if one of the image's colours means transparency, which a conversion would have to respect.

    An image that has no ``info`` yet comes from a JPEG, which has no such colour.
    """
    return "transparency" in vars(image).get("info", ())


def run_on_image(
    program: Program, image: LoadedImage, out: torch.Tensor | None = None, *, in_rows: bool = False
) -> Any:
    """Runs a program on an image, which is never changed.

    Args:
        program: a program for an image of this shape; see `shape_of`.
        image: a PIL image, which may be a lazy one, or an array.
        out, in_rows: see `execute`.

    Returns:
        The result of the last step: `out`, or a new tensor ``(C, H, W)``; without a conversion a new plain
        ``PIL.Image.Image``, or an array ``(H, W, C)``, which may be a view if the program only crops.
    """

    jobs = None if out is not None or program.memo is None else program.memo.jobs
    if jobs is not None:
        again = _run_again(program, image, in_rows, jobs)
        if again is not None:
            return again

    def from_memory(program: Program, into: torch.Tensor | None, in_rows: bool) -> object:
        return on_pixels(image, program.steps, program.conversion, into, program.region, in_rows)

    result: object = run(program, from_memory, out, in_rows)
    if isinstance(result, Image.Image) and isinstance(image, Image.Image):
        if result is image:
            result = image.copy()
        if program.keeps_info is False:
            result.info = {}
        elif program.keeps_info and "info" in vars(result):  # a lazy image without info reads its own
            result.info = copied_info(image)
    return result


def _run_again(
    program: Program, image: LoadedImage, in_rows: bool, jobs: ImageJobs
) -> torch.Tensor | Image.Image | None:
    """`run_on_image` by a job that is cached with the program, or made now; None if there can be no such job."""
    if not core.available() or claim_of(type(image)) is not None:
        return None
    key = (image.strides, in_rows) if isinstance(image, np.ndarray) else in_rows
    job = jobs.get(key)
    if job is None:
        job = jobs.keep(key, prepared_program(program, image, in_rows) or False)
    if not job:
        return None
    result = job.run_on(image)
    if result is None or job.dtype is None:
        return result
    return AS_TV_IMAGE.apply(result) if program.tv_image and isinstance(result, torch.Tensor) else result


def run_steps(steps: Sequence[Step], image: Any) -> Any:
    """Applies drawn steps to a PIL image or an array: several as one program if possible, otherwise one by one."""
    shape = shape_of(image) if len(steps) > 1 and core.available() else None
    if shape is not None:
        return run_on_image(lower(tuple(steps), shape), image)
    for step in steps:
        by_core = run_operation(step, image) if isinstance(step, Operation) else None
        image = step.apply(image) if by_core is None else by_core
    return image


def run_operation(operation: Operation, image: object, box: Box | None = None) -> Image.Image | None:
    """Runs one operation by the core on a PIL image, or on a box inside of it; returns a new PIL image.

    None if Pillow has to do it: the object is no PIL image that `shape_of` knows, has too few pixels, the box leaves
    it, or the core refuses the image or the arguments; for invalid arguments Pillow then raises.
    """
    if not isinstance(image, Image.Image):
        return None
    width, height = image.size if box is None else (box.width, box.height)
    try:
        if height * width < operation.least_pixels(_CHANNELS.get(image.mode, 1)) or is_plain():
            return None
        memo = memo_of(operation) if box is None else None
        jobs = None if memo is None else memo.jobs
        if jobs:
            job = jobs.get((image.mode, image.size))
            if job and core.available() and not is_transparent(image):
                again = None if claim_of(type(image)) is not None else job.run_on(image)
                if isinstance(again, Image.Image):  # as no single operation ends in a tensor
                    return again
        shape = shape_of(image)
        if shape is None or not core.available():
            return None
        if box is not None:
            if not box.inside(shape.size) or min(box.size) < 1:
                return None
            shape = ImageShape(box.height, box.width, shape.channels)
        if operation.returns_input(shape):
            return None
        if jobs is not None:
            _prepare(operation, image, shape, jobs)
        keeps_info = operation.keeps_info(shape)
        result, _, _ = _claimed(image, shape, box, (operation,), None, None, False, keeps_info)
    except Exception as error:  # raised again, unless Pillow fails, too
        failed = error
    else:
        if isinstance(result, Image.Image) and not keeps_info:
            result.info = {}
        return result if isinstance(result, Image.Image) else None
    try:
        plain_instead(failed, lambda: operation.apply(_cut(image, box)))
    finally:
        del failed
    return None


def _prepare(operation: Operation, image: Image.Image, shape: ImageShape, jobs: ImageJobs) -> None:
    """Caches an interned operation's prepared job in `jobs`, from the second image of a mode and size on."""
    key = image.mode, image.size
    if key not in jobs:
        jobs.keep(key, None)
    elif jobs[key] is None:
        box, keeps_info = Box(0, 0, shape.height, shape.width), operation.keeps_info(shape)
        jobs[key] = prepared((operation,), None, image, shape, box, keeps_info) or False


def run(program: Program, make: MakePixels, out: torch.Tensor | None, in_rows: bool) -> object:
    """Runs a program from any source; see `execute` for the arguments and the result. None if `make` returns None."""
    if out is not None and (program.conversion is None or tuple(out.shape) != _tensor_shape(program.result)):
        raise PlanError(f"{program} gives no image that fits into {tuple(out.shape)}")
    into = None if program.after or (out is not None and out.dtype not in DIRECT) else out
    in_rows = in_rows and program.in_rows
    result = make(program, into, in_rows)
    return None if result is None else finish_tensor(program, result, out, in_rows)


def on_pixels(
    image: object,
    steps: tuple[Step, ...],
    conversion: TensorConversion | None,
    out: torch.Tensor | None,
    box: Box | None = None,
    in_rows: bool = False,
) -> Any:
    """Runs steps and the conversion on a PIL image or a uint8 array, or on a box of it."""
    by_core = core.available()
    while steps or conversion is not None:
        shape = shape_of(image) if by_core else None
        if shape is not None:
            if box is not None:
                shape = ImageShape(box.height, box.width, shape.channels)
            result, taken, finished = _claimed(image, shape, box, steps, conversion, out, in_rows)
            if finished:
                return result
            if taken:
                image, box, steps = result, None, steps[taken:]
                continue
        image, box = _cut(image, box), None
        if not steps:
            assert conversion is not None  # the loop would have ended without one
            return _converted(image, conversion, out, in_rows)
        step = steps[0]
        image = [_view(image, view) for view in step.views] if isinstance(step, Views) else _applied(step, image)
        steps = steps[1:]
    return _cut(image, box)


def _cut(image: Any, box: Box | None) -> object:
    if box is None:
        return image
    if isinstance(image, Image.Image):
        return image.crop((box.left, box.top, box.right, box.bottom))
    return image[box.top : box.bottom, box.left : box.right]


def _applied(step: Step, image: object) -> object:
    if isinstance(image, Image.Image) and getattr(step, "takes_arrays_alone", False):
        return to_pil(step.apply(np.asarray(image)))
    result = step.apply(image)
    if isinstance(step, Operation) or type(step).__module__.startswith("fastpipe."):
        return result
    if isinstance(result, np.ndarray) and result.dtype == np.uint8 and result.ndim in (2, 3):
        return result
    if isinstance(result, (torch.Tensor, Image.Image)):
        return result
    given = f"{result.dtype} {result.shape}" if isinstance(result, np.ndarray) else type(result).__name__
    raise PlanError(f"{type(step).__name__}.apply returned {given}: return a uint8 array (H, W, C).")


def _view(image: object, steps: tuple[Step, ...]) -> object:
    for number, step in enumerate(steps):
        if isinstance(step, TensorConversion):
            result = on_pixels(image, steps[:number], step, None)
            for later in steps[number + 1 :]:
                result = later.apply(result)
            return result
    return on_pixels(image, steps, None, None)


def _claimed(
    image: Any,
    shape: ImageShape,
    box: Box | None,
    steps: tuple[Step, ...],
    conversion: TensorConversion | None,
    out: torch.Tensor | None,
    in_rows: bool,
    keeps_info: bool = True,
) -> Claimed:
    """Runs the first steps by the core; returns the result, the number of steps, and whether it was converted, too.

    Args:
        image, box, steps, conversion, out, in_rows: see `on_pixels`.
        shape: the shape of the image, or of the box.
        keeps_info: a resulting PIL image gets the image's ``info``; a lazy image's result has it in any case.
    """
    claim = claim_of(type(image))
    if claim is not None:
        claimed = claim(image, box, steps, conversion, out, in_rows)
        if claimed is not None:
            return claimed
    job = core.thread_job()
    is_array = isinstance(image, np.ndarray)
    if box is None:
        box = Box(0, 0, shape.height, shape.width)
    offset, shape, taken = fill_from_pixels(job, image, shape.channels, box, steps)
    to_tensor = conversion if taken == len(steps) else None
    if not taken and to_tensor is None:
        core.give_back(job)
        return None, 0, False
    result: object = None
    if to_tensor is not None:
        result = tensor_sink(job, to_tensor, shape, out, in_rows)
    elif is_array:
        result = np.empty(shape if image.ndim == 3 or shape.channels > 1 else shape.size, dtype=np.uint8)
        job.write_array(result)
    else:
        write_new_image(job, shape)
    if is_array:
        done = core.check_or_unsure(core.run_thread_job(job))
    else:
        if to_tensor is None:
            result = core.run_to_new_image(job.address, image, offset, shape, keeps_info)
            done = result is not None
        else:
            done = core.run_from_image(job.address, image, offset)
        core.give_back(job)
    return (result, taken, to_tensor is not None) if done else (None, 0, False)


def _converted(image: object, conversion: TensorConversion, out: torch.Tensor | None, in_rows: bool) -> torch.Tensor:
    """Converts an image by the kernels on arrays; a new tensor has the strides that the core gives it."""
    image = np.asarray(image)
    if out is None:
        out = conversion.apply(image)
        if in_rows:
            return _interleaved(out)
        if out.shape[0] == 1 and out.is_contiguous():
            out = out.as_strided_(out.shape, (out.shape[1] * out.shape[2], out.shape[2], 1))
    elif out.is_contiguous() and out.dtype in (torch.uint8, torch.float32):
        conversion.apply(image, out)
    else:
        out.copy_(conversion.apply(image))
    return out


def _interleaved(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy, with the channels of a pixel side by side in memory, as in torchvision's."""
    channels, _, width = tensor.shape
    strides = 1, width * channels, channels
    if tensor.stride() == strides:
        return tensor
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def finish_tensor(program: Program, tensor: Any, out: torch.Tensor | None, in_rows: bool = False) -> Any:
    """Runs the steps after the conversion on its result; see `execute` for `out` and `in_rows`."""
    if in_rows and isinstance(tensor, torch.Tensor):
        tensor = _interleaved(tensor)
    for step in program.after:
        tensor = step.apply(tensor)
    if program.tv_image and out is None:
        return AS_TV_IMAGE.apply(tensor)
    if out is not None and tensor is not out:
        out.copy_(tensor)
        return out
    return tensor


def _tensor_shape(shape: ImageShape) -> tuple[int, int, int]:
    return shape.channels, shape.height, shape.width


@overload
def to_pil(image: Pixels) -> Image.Image: ...
@overload
def to_pil(image: object) -> object: ...
def to_pil(image: object) -> object:
    """Converts arrays ``(H, W)`` or ``(H, W, 1 or 3)``, also in a list, to new PIL images; returns others unchanged."""
    if isinstance(image, list):
        return [to_pil(view) for view in image]
    if not isinstance(image, np.ndarray):
        return image
    shape = shape_of(image) if core.available() else None
    if shape is not None and shape.height * shape.width >= _LEAST_COPIED:
        job = core.thread_job()
        job.read_pixels(image)
        copied = pillow_sink(job, shape)
        if copied is not None:
            core.check(core.run_thread_job(job))
            return copied
        core.give_back(job)
        large = core.image_of(np.ascontiguousarray(np.atleast_3d(image)))
        if large is not None:
            return large
    pixels = image[..., 0] if image.ndim == 3 and image.shape[2] == 1 else image
    return Image.fromarray(np.array(pixels, order="C"))  # copied, because the array may be the thread's decode buffer


def to_array(image: Image.Image) -> Pixels:
    """A PIL image in mode RGB or L as an array ``(H, W, C)``; by the core in a tenth of Pillow's time."""
    pixels = core.memory_of(image) if core.available() else None
    if pixels is None:
        return np.atleast_3d(np.asarray(image))
    array = np.empty((pixels.height, pixels.width, pixels.channels), np.uint8)
    job = core.thread_job()
    job.read_image(pixels)
    job.write_array(array)
    core.check(core.run_thread_job(job))
    return array


def copied_info(image: Image.Image) -> Info:
    """A copy of an image's ``info``, as Pillow's methods copy it."""
    info = image.info
    if _COPIES_LISTS and any(map(isinstance, info.values(), repeat(list))):
        info = image._copy_info()
    return info.copy()


_COPIES_LISTS = hasattr(Image.Image, "_copy_info")  # since Pillow 13
