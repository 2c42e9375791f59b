"""Runs a program on a file's bytes to the finished sample; draws no random number.

Backends take as many of a program's steps as they can, from the front. The core decodes a JPEG or PNG, runs the
operations that it has and writes the sink in one call; other readers only decode. The remaining steps run as on a
loaded image: see `on_image`.
"""

from __future__ import annotations

import threading
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from fastpipe import core, readers
from fastpipe.ops import Operation
from fastpipe.program.core_job import Decoded, Encoded, fill_from_file, pillow_sink, tensor_sink
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
    """Decodes the part of a file that a program needs, and runs the program on it.

    Args:
        program: a program for an image of the file's size.
        encoded: the file.
        out: the tensor ``(C, H, W)`` for the result of a program with a conversion, such as a batch's slot: any
            strides; uint8 if the conversion keeps uint8, else float32, float16 or bfloat16.
        in_rows: give a new tensor the memory layout of torchvision's, interleaved or not, because a later transform
            draws a number for each element in memory order.
        as_pil: return a new PIL image, or a list of them, instead of an array.

    Returns:
        The result of the last step: `out`, a uint8 array ``(H, W, C)`` or, after a conversion, a tensor ``(C, H, W)``.
        The array may be a view of this thread's decode buffer: it is valid until the thread's next decode.
    """

    return run(program, partial(_decoded, encoded=encoded, as_pil=as_pil), out, in_rows)


def _decoded(program: Program, out: torch.Tensor | None, in_rows: bool, *, encoded: Encoded, as_pil: bool) -> object:
    """Runs a program up to its conversion."""
    chosen = readers.choose(encoded.header, encoded.reader, encoded.config)
    by_core = chosen.name == "core"
    if by_core:
        limit = readers.pixel_limit(encoded.max_pixels)
        readers.check_limit(encoded.header, limit, encoded.source)
        done = decode_by_core(program, out, in_rows, encoded=encoded, as_pil=as_pil)
        if done is not None:
            return done
    image: object = encoded.decode(program.region, refused=by_core)
    result: object = on_pixels(image, program.steps, program.conversion, out, None, in_rows)
    return to_pil(result) if as_pil else result


_KEEP_BYTES = 64 << 20
_local = threading.local()


def _scratch_array(shape: ImageShape) -> NDArray[np.uint8]:
    """An uninitialised array in the thread's own memory, valid until the thread's next call.

    Page faults of a new half megabyte cost a quarter of a decode.
    """
    needed = shape.height * shape.width * shape.channels
    if needed > _KEEP_BYTES:  # a huge image must not occupy memory for the rest of the training
        return np.empty(shape, np.uint8)
    memory: NDArray[np.uint8] | None = getattr(_local, "memory", None)
    if memory is None or needed > memory.size:  # exact at first, later with room to grow
        memory = _local.memory = np.empty(needed if memory is None else needed + needed // 4, np.uint8)
    return memory[:needed].reshape(shape)


def decode_by_core(
    program: Program,
    out: torch.Tensor | None,
    in_rows: bool,
    *,
    encoded: Encoded | Decoded,
    as_pil: bool = False,
    all_steps: bool = False,
    is_kept: bool = False,
) -> object:
    """Decodes by the core and runs the steps that it has; kernels run the rest, except with `all_steps`.

    An array with `is_kept` stays valid.

    None if the core isn't available, refuses the file, leaves a step to torch, or, with `all_steps`, lacks a step.
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
        # Used between two jobs, too: an array, which a user's step gets, has no fourth byte.
        result = pillow_sink(job, shape)
    if result is None:
        is_all = is_all and program.conversion is None
        result = np.empty(shape, np.uint8) if is_kept else _scratch_array(shape)
        job.write_array(result)
    status = core.run_thread_job(job)
    if core.refused(status) or not core.check_or_unsure(status):
        return None
    if not is_all:
        result = on_pixels(result, program.steps[taken:], program.conversion, out, None, in_rows)
    return to_pil(result) if as_pil else result
