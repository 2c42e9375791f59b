"""From a recipe to a decode plan: which pixels to ask the reader for, and what is left to do to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fastpipe.pipeline.fused import fuse_conversion, fuse_tables
from fastpipe.pipeline.rules import crop_box, rewrite
from fastpipe.pipeline.scaled import ScaledResize, reduced_scale
from fastpipe.pipeline.views import Views, plan_region
from fastpipe.transforms.steps import Call
from fastpipe.types import Box, DecodeRequest, ImageShape, Recipe, Step

__all__ = ["DecodePlan", "Fidelity", "plan_decode"]

Fidelity = Literal["torchvision", "fast"]


@dataclass(frozen=True, slots=True)
class DecodePlan:
    """What `run` does for one recipe.

    Attributes:
        request: the pixels asked of the reader.
        steps: the operations on what the reader returns, in order.
    """

    request: DecodeRequest
    steps: tuple[Step, ...]


def plan_decode(recipe: Recipe, fidelity: Fidelity = "torchvision") -> DecodePlan:
    """The plan for a recipe that starts from a file.

    A crop that comes first becomes the box that is decoded. Under ``fidelity="fast"`` a `resize` right behind it
    that shrinks by two or more lets the reader decode at a reduced scale; that alone is approximate.

    Args:
        recipe: what was drawn for the image.
        fidelity: ``"torchvision"`` or ``"fast"``.
    """
    steps = rewrite(recipe.steps, recipe.shape)
    box: Box | None = None
    if steps and isinstance(steps[0], Call) and steps[0].op == "crop":
        first = crop_box(steps[0])
        if first.inside(recipe.shape.size) and first.height > 0 and first.width > 0:
            box, steps = first, steps[1:]
    elif steps and isinstance(steps[0], Views):
        box, views = plan_region(steps[0], recipe.shape)
        steps = (views, *steps[1:])
    scale = 1
    if fidelity == "fast" and steps and isinstance(steps[0], Call) and steps[0].op == "resize":
        source = box or Box(0, 0, *recipe.shape.size)
        target = steps[0].output_shape(ImageShape(*source.size)).size
        scale = reduced_scale(source.size, target)
        if scale > 1:
            steps = (ScaledResize(source, steps[0]), *steps[1:])
    return DecodePlan(DecodeRequest(box, scale), _fused(steps, recipe.shape))


def _fused(steps: tuple[Step, ...], shape: ImageShape) -> tuple[Step, ...]:
    """Look-ups and conversions fused; of the shape only the channels matter."""
    steps = tuple(Views(tuple(_fused(v, shape) for v in s.views)) if isinstance(s, Views) else s for s in steps)
    return fuse_conversion(fuse_tables(steps), _channels_at_conversion(steps, shape))


def _channels_at_conversion(steps: tuple[Step, ...], shape: ImageShape) -> int:
    for step in steps:
        if isinstance(step, Call) and step.op in ("to_tensor", "pil_to_tensor"):
            break
        shape = step.output_shape(shape)
    return shape.channels
