"""A program and a file's bytes to the finished sample; no random number is drawn here.

Backends claim what they can of a program, from its front: the core the decode of a JPEG or PNG, the operations that it
has and the sink, in one call; a reader the decode alone. What is left runs as on an image that is loaded: `on_image`.
"""

from __future__ import annotations

import threading

import numpy as np
import torch
from numpy.typing import NDArray

from fastpipe import core, readers
from fastpipe.ops import Operation
from fastpipe.program.core_job import Encoded, fill_from_file, pillow_sink, tensor_sink
from fastpipe.program.on_image import on_pixels, run, to_pil
from fastpipe.program.program import Program, Views
from fastpipe.types import ImageShape


def execute(
    program: Program,
    encoded: Encoded,
    out: torch.Tensor | None = None,
    *,
    in_rows: bool = False,
    as_pil: bool = False,
) -> object:
    """Decodes what a program needs, and does what it says.

    Args:
        program: for an image of this size.
        encoded: the file.
        out: where a program that has a conversion writes its result: a tensor ``(C, H, W)`` with any strides, uint8
            where the conversion keeps the pixels, else float32, float16 or bfloat16; such as a slot of a batch.
        in_rows: a tensor lies in memory as torchvision leaves it, in rows of pixels or not: for what draws a number for
            each element, in memory's order.
        as_pil: what is no tensor is a new PIL image, or a list of them.

    Returns:
        What the last step gives: `out`; a uint8 array ``(H, W, C)`` or, after a conversion, a tensor ``(C, H, W)``. The
        array may be a view of this thread's decode buffer: it is valid until the thread's next decode.
    """

    def from_file(program: Program, into: torch.Tensor | None, in_rows: bool) -> object:
        made = _decoded(program, encoded, into, in_rows, as_pil)
        if as_pil:
            made = to_pil(made)
        return made

    return run(program, from_file, out, in_rows)


def _decoded(program: Program, encoded: Encoded, out: torch.Tensor | None, in_rows: bool, as_pil: bool) -> object:
    """A program up to its conversion."""
    chosen = readers.choose(encoded.header, encoded.reader, encoded.config)
    by_core = chosen.name == "core"
    if by_core:
        limit = readers.pixel_limit(encoded.max_pixels)
        readers.check_limit(encoded.header, limit, encoded.source)
        done = decode_by_core(program, encoded, out, in_rows, as_pil)
        if done is not None:
            return done
    image: object = encoded.decode(program.region, refused=by_core)
    return on_pixels(image, program.steps, program.conversion, out, None, in_rows)


_KEEP_BYTES = 64 << 20
_local = threading.local()


def _scratch_array(shape: ImageShape) -> NDArray[np.uint8]:
    """An uninitialised array in the thread's own memory, valid until its next one.

    A new half megabyte costs a quarter of a decode in page faults.
    """
    needed = shape.height * shape.width * shape.channels
    if needed > _KEEP_BYTES:  # one huge image must not hold its memory for the rest of the training
        return np.empty(shape, np.uint8)
    memory: NDArray[np.uint8] | None = getattr(_local, "memory", None)
    if memory is None or needed > memory.size:  # exact at first, then with room to grow
        memory = _local.memory = np.empty(needed if memory is None else needed + needed // 4, np.uint8)
    return memory[:needed].reshape(shape)


def decode_by_core(
    program: Program,
    encoded: Encoded,
    out: torch.Tensor | None,
    in_rows: bool,
    as_pil: bool,
    *,
    all_steps: bool = False,
) -> object:
    """Decodes by the core, and runs the steps that it has; kernels run the rest, unless the core is to have all steps.

    None where it isn't there, refuses the file, hasn't all steps, or leaves one to torch.
    """
    if not core.available():
        return None
    job = core.thread_job()
    shape, taken = fill_from_file(job, program, encoded)
    is_all = taken == len(program.steps)
    if all_steps and not is_all:
        core.give_back(job)
        return None
    result: object = None
    if is_all and program.conversion is not None:
        result = tensor_sink(job, program.conversion, shape, out, in_rows)
    elif as_pil and all(isinstance(step, Operation | Views) for step in program.steps[taken:]):
        # Also between jobs: an array, which is what a user's step gets, hasn't the fourth byte.
        result = pillow_sink(job, shape)
    if result is None:
        is_all = is_all and program.conversion is None
        result = _scratch_array(shape)
        job.write_array(result)
    status = core.run_thread_job(job)
    if core.refused(status) or not core.check_or_unsure(status):
        return None
    return result if is_all else on_pixels(result, program.steps[taken:], program.conversion, out, None, in_rows)
