"""The plan of a transform or dataset as text: what is decided where, what is exact, what breaks the plan."""

from __future__ import annotations

import random
from typing import Any, get_args

import torch

from fastpipe.pipeline.compile import Pipeline, compile_pipeline
from fastpipe.pipeline.plan import Fidelity, plan_decode
from fastpipe.pipeline.scaled import ScaledResize
from fastpipe.pipeline.views import Views
from fastpipe.transforms.steps import Call
from fastpipe.types import Box, Generators, ImageShape, Step

__all__ = ["explain"]

_EXAMPLE = ImageShape(375, 500)

_EXACT = "equals torchvision bit for bit"
_ROUNDING = "within 1/255 of torchvision"
_WARP = "as near to torchvision-on-PIL as torchvision's tensor backend"
_WITHIN = dict.fromkeys(
    ("adjust_contrast", "adjust_saturation", "adjust_sharpness", "gaussian_blur", "resize", "resized_crop"), _ROUNDING
) | dict.fromkeys(("adjust_hue", "affine", "elastic_transform", "perspective", "rotate"), _WARP)


def explain(subject: Any, *, shape: ImageShape = _EXAMPLE, fidelity: Fidelity | None = None) -> str:
    """Says what runs where for a transform, or for a dataset with one.

    The example is drawn from generators of its own: the global ones don't move.

    Args:
        subject: a transform, or a dataset that has a ``transform``.
        shape: the image size to show the plan for.
        fidelity: ``"torchvision"`` or ``"fast"``; None takes the dataset's, or ``"torchvision"``.

    Returns:
        The text, several lines.
    """
    transform = getattr(subject, "transform", subject) if hasattr(subject, "__getitem__") else subject
    chosen: Fidelity = getattr(subject, "fidelity", "torchvision") if fidelity is None else fidelity
    if chosen not in get_args(Fidelity):
        raise ValueError(f"fidelity={chosen!r}: choose one of {', '.join(map(repr, get_args(Fidelity)))}.")
    pipeline = compile_pipeline(transform)
    recipe = pipeline.draw(shape, Generators(torch.Generator().manual_seed(0), random.Random(0)))
    plan = plan_decode(recipe, chosen)
    box = plan.request.box or Box(0, 0, *shape.size)
    share = 100 * box.height * box.width / max(1, shape.height * shape.width)
    scale = f", at 1/{plan.request.scale} of the size (approximate)" if plan.request.scale > 1 else ""
    lines = [
        "draw    from the image's size, before a pixel is decoded:",
        *(f"          {_one_line(member)}" for member in pipeline.drawn or ("nothing",)),
        f"example {recipe}",
        f"decode  rows {box.top}–{box.bottom}, columns {box.left}–{box.right} of {shape.height}×{shape.width}"
        f" ({share:.0f}% of the pixels){scale}; {_EXACT if not scale else 'error: benchmarks/fidelity.py'}",
        *(f"run     {step}; {_promise(step)}" for step in plan.steps),
        *_about_the_rest(pipeline),
    ]
    if not getattr(subject, "plans", True):
        lines.append("note    this dataset has a loader of its own, which loads whole images: nothing above applies")
    return "\n".join(lines)


def _promise(step: Step) -> str:
    if isinstance(step, ScaledResize):
        return "approximate: benchmarks/fidelity.py has the error"
    if isinstance(step, Views):
        return "; ".join(dict.fromkeys(_promise(inner) for steps in step.views for inner in steps)) or _EXACT
    if isinstance(step, Call):
        return _WITHIN.get(step.op, _EXACT)
    return getattr(step, "promise", _EXACT)


def _about_the_rest(pipeline: Pipeline) -> list[str]:
    if not pipeline.rest:
        return ["then    nothing: the whole transform is planned"]
    first, *others = pipeline.rest
    lines = [
        f"then    {_one_line(first)} ends the plan: its result doesn't follow from the image's size and the random "
        "numbers alone (a foreign callable, a Lambda, or a subclass that draws its own way)",
        "          it gets what torchvision would hand it, a PIL image or a tensor; correct, only slower",
    ]
    lines += [f"          {_one_line(other)} runs behind it, one by one" for other in others]
    if others:
        lines.append("          to plan more, move it behind the transforms of fastpipe.transforms")
    return lines


def _one_line(transform: Any) -> str:
    return transform if isinstance(transform, str) else " ".join(repr(transform).split())
