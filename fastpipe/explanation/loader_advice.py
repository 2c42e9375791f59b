"""Threads or worker processes: which serve a program better, in words."""

from __future__ import annotations

from fastpipe import core
from fastpipe.explanation.graph_breaks import one_line
from fastpipe.ops import Operation
from fastpipe.program.program import Program
from fastpipe.transforms.pipeline import Pipeline
from fastpipe.types import ImageShape, Step

_THREADS = 'threads, fastpipe.DataLoader(num_workers=1, threads="auto"): '
_WORKERS = "worker processes, num_workers=N: "
_EITHER = "threads on few CPUs, worker processes on many, as fastpipe.tune measures: "


def advise_loader(program: Program, pipeline: Pipeline, in_python: str = "", *, joint: bool = False) -> str:
    """Words for whether threads or worker processes serve a program better, and why.

    Args:
        program: of an example.
        pipeline: that it was drawn by.
        in_python: what of the dataset is Python code; empty for nothing.
        joint: targets are transformed with the image.
    """
    if pipeline.rest and not in_python:
        in_python = one_line(pipeline.rest[0]).partition("(")[0]
    if in_python:
        return f"{_WORKERS}{in_python} is Python code, which holds the interpreter's lock, so that threads wait"
    step = "targets are transformed with the image" if joint else _beyond_core(program)
    if step:
        return f"{_EITHER}{step}, so that Python has a part in each image, one at a time"
    return f"{_THREADS}the core makes the whole image, without the interpreter's lock"


def _beyond_core(program: Program) -> str:
    """The part of a program that the core doesn't do; empty where it does all."""
    if not core.available():
        return "there is no core here"
    if program.conversion is None:
        return "the transform doesn't end in one tensor"
    if program.request.scale != 1:
        return "reduced sizes aren't the core's"
    job, shape = core.Batch(1)[0], ImageShape(*program.box.size, program.shape.channels)
    for step in program.steps:
        job.clear()
        if not isinstance(step, Operation) or not step.to_core(job, shape):
            return _missing(step)
        shape = step.output_shape(shape)
    return _missing(program.after[0]) if program.after else ""


def _missing(step: Step) -> str:
    return f"the core has no {str(step).partition('(')[0]}"
