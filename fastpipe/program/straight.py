"""A drawn crop and what follows it, from a file's bytes to a tensor by one call of the core, for one image alone.

What doesn't depend on the crop is worked out once. It is what `execute` does with the lowered program, in fewer steps:
a decode leaves nothing of Python's in the processor's caches, so that each function that is called here costs some µs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from fastpipe import core, readers
from fastpipe.program.execute import AS_TV_IMAGE, Encoded, add_steps
from fastpipe.program.lower import resized
from fastpipe.types import DecodeRequest, ImageShape, Step

_CROP = DecodeRequest()
_MOST_KNOWN = 256


class Followed(NamedTuple):
    """What follows a crop.

    Attributes:
        steps: the first of them resizes; held, so that their numbers stay theirs.
        packed: what the core has to do; None where it can't do all of it.
        size: that the crop is resized to.
        shape, dtype: of the tensor.
        sink: what a job has to know of it.
        tv_image: the tensor is to be a ``tv_tensors.Image``.
    """

    steps: tuple[Step, ...]
    packed: core.Packed | None
    size: tuple[int, int] = (0, 0)
    shape: tuple[int, int, int] = (0, 0, 0)
    dtype: torch.dtype = torch.uint8
    sink: tuple[Any, ...] = ()
    tv_image: bool = False


_known: dict[tuple[int, ...], Followed] = {}


def cropped_whole(encoded: Encoded, box: tuple[int, int, int, int], steps: tuple[Step, ...]) -> torch.Tensor | None:
    """The finished image; None where the core doesn't make all of it, or leaves the file to others.

    Args:
        encoded: the file.
        box: the crop, within the image.
        steps: what follows it. torch's default dtype is float32.
    """
    _, packed, size, shape, dtype, sink, tv_image = followed(steps)
    header, limit = encoded.header, readers.pixel_limit(encoded.max_pixels)
    if (
        packed is None
        or box[2:] == size
        or (limit is not None and header.height * header.width > limit)
        or readers.choose(header, _CROP, encoded.reader, encoded.config).name != "core"
    ):
        return None
    out = torch.empty(shape, dtype=dtype)
    job = core.thread_job(empty=False)
    job.read(encoded.content, box, (0, readers.most_scratch(limit)))
    job.work(packed, out.data_ptr(), sink)
    if core.run_thread_job(job):
        return None
    return AS_TV_IMAGE.apply(out) if tv_image else out


def followed(steps: tuple[Step, ...]) -> Followed:
    """What is known of steps that follow a crop; see `cropped_whole`."""
    key = tuple(map(id, steps))
    return _known.get(key) or _found(key, steps)


def _found(key: tuple[int, ...], steps: tuple[Step, ...]) -> Followed:
    known = Followed(steps, None)
    if any(getattr(step, "memory", None) is None for step in steps):
        return known  # a value of this image's alone
    program = resized(steps)
    if program is not None and program.conversion is not None and not program.after:
        job = core.Batch(1)[0]
        shape, taken = add_steps(job, program.steps, ImageShape(1, 1))
        if taken == len(program.steps):
            size = steps[0].output_shape(shape).size
            dtype = program.conversion.dtype
            planes = (shape.channels, shape.height, shape.width)
            sink = core.Places(torch.empty((1, *planes), dtype=dtype)).sink(*program.conversion.arithmetic)
            known = Followed(steps, job.packed((0, 0)), size, planes, dtype, sink, program.tv_image)
    if len(_known) == _MOST_KNOWN:
        _known.clear()
    _known[key] = known
    return known
