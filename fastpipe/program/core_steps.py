"""A program's steps as operations of a job of the core's."""

from __future__ import annotations

from fastpipe import core
from fastpipe.ops import Operation, Resize
from fastpipe.types import ImageShape, Step

_MOST_AT_ONCE = 2  # operations of the core's that a step adds
_MOST_KEPT = 64


def add_steps(job: core.Job, steps: tuple[Step, ...], shape: ImageShape) -> tuple[ImageShape, int]:
    """Adds the first steps that the core has to a job; the shape behind them, and how many they are."""
    for number, step in enumerate(steps):
        known = getattr(step, "interned", None)
        if known:
            found = known.get(shape) or known.get(shape[2])
            if found is not None:
                if not job.add(found[0]):
                    return shape, number
                shape = found[1]
                continue
        begin = None if known is None else job.mark()
        if job.room < _MOST_AT_ONCE or not isinstance(step, Operation) or not step.to_core(job, shape):
            return shape, number
        behind = step.output_shape(shape) if step.changes_shape else shape
        if known is not None and begin is not None:
            if len(known) >= _MOST_KEPT:
                known.clear()
            # a resize to a given size is the same for images of any size
            known[shape[2] if isinstance(step, Resize) and step.fixed else shape] = job.packed(begin), behind
        shape = behind
    return shape, len(steps)
