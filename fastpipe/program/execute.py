"""A program and a file's bytes to the finished sample; no random number is drawn here.

Backends claim what they can of a program, from its front: the core the decode of a JPEG or PNG, the operations that it
has and the sink, in one call; a reader the decode alone. What is left runs on arrays: the core takes operations that
it has, kernels the others, one by one. Behind the conversion to a tensor torch runs them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from PIL import Image

from fastpipe import core, readers
from fastpipe.errors import PlanError
from fastpipe.kernels import memory
from fastpipe.ops import AsTvImage, ScaledResize, ToNormalizedTensor, ToPlanarTensor
from fastpipe.program.borders import behind_conversion, without_border
from fastpipe.program.core_steps import add_steps
from fastpipe.program.encoded import Encoded
from fastpipe.program.profiling import mark, profiled
from fastpipe.program.program import Program, Views
from fastpipe.types import ImageShape, Step

_CONVERSIONS = (ToPlanarTensor, ToNormalizedTensor)
AS_TV_IMAGE = AsTvImage()
DIRECT = frozenset({torch.uint8, torch.float32, torch.float16, torch.bfloat16})
"""Dtypes that the core writes."""


def execute(program: Program, encoded: Encoded, out: torch.Tensor | None = None, *, in_rows: bool = False) -> Any:
    """Decodes what a program needs, and does what it says.

    Args:
        program: for an image of this size.
        encoded: the file.
        out: where a program that has a conversion writes its result: a tensor ``(C, H, W)`` with any strides, uint8
            where the conversion keeps the pixels, else float32, float16 or bfloat16; such as a slot of a batch.

        in_rows: a tensor lies in memory as torchvision leaves it, in rows of pixels or not: for what draws a number for
            each element, in memory's order.

    Returns:
        What the last step gives: `out`; a uint8 array ``(H, W, C)`` or, after a conversion, a tensor ``(C, H, W)``. The
        array may be a view of this thread's decode buffer: it is valid until the thread's next decode.
    """
    if out is not None and (program.conversion is None or tuple(out.shape) != _tensor_shape(program.result)):
        raise PlanError(f"{program} gives no image that fits into {tuple(out.shape)}")
    into = None if program.after or (out is not None and out.dtype not in DIRECT) else out
    in_rows = in_rows and program.in_rows
    bordered = without_border(program)
    if bordered is not None:
        inner, border = bordered
        canvas = border.canvas(into, in_rows=in_rows)
        execute(inner, encoded, border.inside(canvas))
        return finish_tensor(program, canvas, out, in_rows)
    chosen = readers.choose(encoded.header, program.request, encoded.reader, encoded.config)
    by_core = chosen.name == "core"
    if by_core:
        limit = readers.pixel_limit(encoded.max_pixels)
        readers.check_limit(encoded.header, limit, encoded.source)
        done = _by_core(program, encoded, into, limit, in_rows)
        if done is not None:
            return finish_tensor(program, done, out, in_rows)
    image: Any
    image, got = readers.decode(
        encoded.content,
        program.request,
        header=encoded.header,
        reader=encoded.reader,
        config=encoded.config,
        source=encoded.source,
        max_pixels=encoded.max_pixels,
        refused=by_core,
    )
    mark("decode")
    steps = program.steps
    if steps and isinstance(steps[0], ScaledResize):
        image = steps[0].apply_to(image, got)
        mark(steps[0])
        steps = steps[1:]
    return finish_tensor(program, _on_pixels(image, steps, program.conversion, into), out, in_rows)


def _by_core(program: Program, encoded: Encoded, out: torch.Tensor | None, limit: int | None, in_rows: bool) -> Any:
    """Decodes by the core, and runs the steps that it has; kernels run the rest. None where it refuses the file."""
    job = core.thread_job()
    box = program.box
    job.read(encoded.content, box, (0, readers.most_scratch(limit)))
    shape = ImageShape(box.height, box.width)
    taken = 0
    if not profiled():  # who listens wants to hear the decode alone
        shape, taken = add_steps(job, program.steps, shape)
    whole = taken == len(program.steps) and program.conversion is not None and not profiled()
    result: Any
    if whole:
        result = _sink(job, program.conversion, shape, out, in_rows)
    else:
        result = readers.thread_scratch().take(shape.height, shape.width, shape.channels)
        job.write_array(result)
    status = core.run_thread_job(job)
    if status:
        if core.refused(status):
            return None
        core.check(status)
    mark("decode")
    return result if whole else _on_pixels(result, program.steps[taken:], program.conversion, out)


def _on_pixels(image: Any, steps: tuple[Step, ...], conversion: Any, out: torch.Tensor | None) -> Any:
    """The steps, then the conversion, on a uint8 array."""
    by_core = core.available() and not profiled()
    while steps or conversion is not None:
        if by_core:
            made, taken, finished = _claimed(image, steps, conversion, out)
            if finished:
                return made
            if taken:
                image, steps = made, steps[taken:]
                continue
        if not steps:
            return _converted(image, conversion, out)
        step = steps[0]
        image = [_view(image, view) for view in step.views] if isinstance(step, Views) else step.apply(image)
        mark(step)
        steps = steps[1:]
    return image


def _view(image: Any, steps: tuple[Step, ...]) -> Any:
    cut = next((n for n, step in enumerate(steps) if isinstance(step, _CONVERSIONS)), None)
    made = _on_pixels(image, steps if cut is None else steps[:cut], None if cut is None else steps[cut], None)
    for step in () if cut is None else steps[cut + 1 :]:
        made = step.apply(made)
    return made


def _claimed(image: Any, steps: tuple[Step, ...], conversion: Any, out: torch.Tensor | None) -> tuple[Any, int, bool]:
    """Runs the first steps on an array by the core: the result, how many steps, and whether it was converted, too."""
    if not isinstance(image, np.ndarray) or image.size == 0 or image.dtype != np.uint8:
        return None, 0, False
    before = ImageShape(image.shape[0], image.shape[1], image.shape[2] if image.ndim == 3 else 1)
    if before.channels not in (1, 3):
        return None, 0, False
    job = core.thread_job()
    job.read_pixels(image)
    shape, taken = add_steps(job, steps, before)
    finished = taken == len(steps) and conversion is not None
    if not taken and not finished:
        core.give_back(job)
        return None, 0, False
    if finished:
        made: Any = _sink(job, conversion, shape, out)
    else:
        made = np.empty(shape if image.ndim == 3 or shape.channels > 1 else shape.size, dtype=np.uint8)
        job.write_array(made)
    core.check(core.run_thread_job(job))
    return made, taken, finished


def _sink(
    job: core.Job, conversion: Any, shape: ImageShape, out: torch.Tensor | None, in_rows: bool = False
) -> torch.Tensor:
    if out is None:
        dtype = conversion.dtype
        if in_rows:
            out = memory.fresh(shape, dtype).permute(2, 0, 1)
        else:
            out = memory.fresh(_tensor_shape(shape), dtype)
            kind = core.DType.UINT8 if dtype is torch.uint8 else core.DType.FLOAT32
            job.write_planes(out.data_ptr(), shape, kind, *conversion.arithmetic)
            return out
    job.write_tensor(out, *conversion.arithmetic)
    return out


def _converted(image: Any, conversion: ToPlanarTensor | ToNormalizedTensor, out: torch.Tensor | None) -> torch.Tensor:
    """The conversion by kernels on arrays."""
    if out is None:
        out = conversion.apply(image)
    elif out.is_contiguous() and out.dtype in (torch.uint8, torch.float32):
        conversion.apply(image, out)
    else:
        out.copy_(conversion.apply(image))
    mark(conversion)
    return out


def finish_tensor(program: Program, made: Any, out: torch.Tensor | None, in_rows: bool = False) -> Any:
    """Runs the steps behind the conversion on its result; `out` and `in_rows` as of `execute`."""
    if in_rows and isinstance(made, torch.Tensor):
        made = made.permute(1, 2, 0).contiguous().permute(2, 0, 1)  # no copy where it lies so already
    padded = behind_conversion(program.after, made) if program.after and isinstance(made, torch.Tensor) else None
    for step in program.after if padded is None else ():
        made = step.apply(made)
        mark(step)
    if padded is not None:
        made = padded
        mark(program.after[-1])
    if program.tv_image and out is None:
        return AS_TV_IMAGE.apply(made)
    if out is not None and made is not out:
        out.copy_(made)
        return out
    return made


def _tensor_shape(shape: ImageShape) -> tuple[int, int, int]:
    return shape.channels, shape.height, shape.width


def to_pil(image: Any) -> Any:
    """An array ``(H, W)`` or ``(H, W, 1 or 3)``, also in a list, as PIL images of their own; others as they are."""
    if isinstance(image, list):
        return [to_pil(view) for view in image]
    if not isinstance(image, np.ndarray):
        return image
    pixels = image[..., 0] if image.ndim == 3 and image.shape[2] == 1 else image
    return Image.fromarray(np.array(pixels, order="C"))  # a copy: the array may be the thread's decode buffer
