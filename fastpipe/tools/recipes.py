"""Functions of the tools that depend on the internals of pipelines, recipes and plans."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from fastpipe.datasets.base import ImageDataset
from fastpipe.datasets.joint import JointDataset
from fastpipe.interop.graph_breaks import shortened
from fastpipe.ops import Operation
from fastpipe.program import Views, lower, steps_in_words
from fastpipe.rng import keyed_generators
from fastpipe.types import Box, Header, ImageShape, Recipe, Step

if TYPE_CHECKING:
    from fastpipe.reporting.pictures import Normalizations

_RESIZING = frozenset({"RandomResizedCrop", "Resize"})
_LONG = 60  # the most characters of a transform in a line


def resizes(dataset: ImageDataset, header: Header) -> bool:
    """True if the transform resizes, so that a smaller file gives the same image; False for a crop of fixed pixels.

    Also False for boxes and masks, whose coordinates belong to the image's size.
    """
    if is_joint(dataset):
        return False
    try:
        steps = [_sizing_step(dataset, factor * header.height, factor * header.width) for factor in (1, 2)]
    except ValueError:  # a crop that is larger than the image
        return False
    if steps[0] is None:
        return any(type(transform).__name__ in _RESIZING for transform in dataset.pipeline.unplanned)
    if steps[0].op == "resize":
        return True
    heights = {step["height"] for step in steps if step is not None and step.op == "crop"}
    return len(heights) == 2  # an image of twice the size gets another crop


def _sizing_step(dataset: ImageDataset, height: int, width: int) -> Operation | None:
    """The first drawn step that changes the size of an image of that height and width; None if there is none."""
    recipe = dataset.pipeline.draw(ImageShape(height, width), keyed_generators(0))
    operations = (step for step in recipe if isinstance(step, Operation))
    return next((step for step in operations if step.op.endswith(("crop", "resize"))), None)


def is_joint(dataset: object) -> bool:
    """True if a dataset's transforms take the image and its targets together."""
    return isinstance(dataset, JointDataset) and dataset._fastpipe_joint is not None


DatasetT = TypeVar("DatasetT", bound=ImageDataset)


def unseeded(dataset: DatasetT) -> DatasetT:
    """A copy of a dataset that draws from the global generators, whatever its seed."""
    copied = copy.copy(dataset)
    copied.seed = None
    return copied


def normalizations(steps: Iterable[Step], rest: Iterable[Any] = ()) -> Normalizations:
    """The mean and std of every normalisation among drawn steps and the transforms after them."""
    pairs: list[tuple[Any, Any]] = []
    for step in steps:
        if isinstance(step, Views):
            pairs += normalizations(step.views[0])
        elif isinstance(step, Operation) and step.op == "normalize":
            pairs.append((step["mean"], step["std"]))
    pairs += [(one.mean, one.std) for one in rest if type(one).__name__ == "Normalize" and hasattr(one, "std")]
    return tuple(pairs)


def decoded_region(recipe: Recipe | None) -> Box | None:
    """The region of the image that is decoded for a recipe; None for the whole image, or without a recipe."""
    return None if recipe is None else lower(recipe.steps, recipe.shape).region


def recipe_in_words(recipe: Recipe | None, rest: Iterable[object], number: int = 0) -> tuple[str, ...]:
    """Describes the steps drawn for the image with that number in a sample, and the transforms that run after them."""
    steps: tuple[Step, ...] = () if recipe is None else recipe.steps
    views = steps[-1].views if steps and isinstance(steps[-1], Views) else ()
    if number < len(views):
        steps = (*steps[:-1], *views[number])
    elif number:
        return ()
    return (*steps_in_words(steps), *(f"then {shortened(one, _LONG)}" for one in rest))
