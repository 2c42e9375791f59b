"""The tools' questions about pipelines, recipes and plans: what these are made of is known here alone."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fastpipe import readers
from fastpipe.datasets.base import ImageDataset
from fastpipe.datasets.joint import JointDataset
from fastpipe.explanation.graph_breaks import shortened
from fastpipe.ops import Operation
from fastpipe.program import Encoded, Views, execute, lower, steps_in_words
from fastpipe.rng import keyed_generators, keyed_globals
from fastpipe.types import Box, Header, ImageShape, Recipe, Step

if TYPE_CHECKING:
    from fastpipe.reporting.pictures import Normalizations

_RESIZING = frozenset({"RandomResizedCrop", "Resize", "resize", "resized_crop"})
_CONVERTING = frozenset(
    {"ConvertImageDtype", "Normalize", "PILToTensor", "ToDtype", "ToImage", "ToTensor"}
    | {"convert_image_dtype", "normalize", "pil_to_tensor", "to_tensor"}
)


def name_of(transform: object) -> str:
    """The name of a transform, or of a drawn step's operation."""
    if isinstance(transform, Operation):
        return transform.op
    return str(getattr(transform, "__name__", type(transform).__name__))


def is_resize_or_conversion(name: str) -> bool:
    """Whether a transform of that name resizes or converts, which an image can't do without."""
    return name in _RESIZING or name in _CONVERTING


def resizes(dataset: ImageDataset, header: Header) -> bool:
    """Whether a smaller file makes the same image: a crop of so many pixels would show more of the picture.

    Not where boxes and masks belong to it, which are of the image's size.
    """
    if is_joint(dataset):
        return False
    try:
        steps = [_sizing_step(dataset, factor * header.height, factor * header.width) for factor in (1, 2)]
    except ValueError:  # a crop is larger than the image
        return False
    if steps[0] is None:
        return any(name_of(transform) in _RESIZING for transform in dataset.pipeline.rest)
    if name_of(steps[0]) == "resize":
        return True
    heights = {step["height"] for step in steps if isinstance(step, Operation) and step.op == "crop"}
    return len(heights) == 2  # of twice the image another crop


def _sizing_step(dataset: ImageDataset, height: int, width: int) -> object:
    """The first step drawn for such an image that changes its size; None where there is none."""
    recipe = dataset.pipeline.draw(ImageShape(height, width), keyed_generators(0))
    return next((step for step in recipe if name_of(step).endswith(("crop", "resize"))), None)


def is_joint(dataset: Any) -> bool:
    """Whether the transforms of a dataset see the image and its targets together."""
    return isinstance(dataset, JointDataset) and dataset._fastpipe_joint is not None


def unseeded(dataset: Any) -> Any:
    """A copy of a dataset that draws from the global generators, whatever its seed."""
    made = copy.copy(dataset)
    made.seed = made._fastpipe.epoch = None
    return made


def make_sample(dataset: ImageDataset, index: int, data: bytes, seed: int) -> None:
    """Does an image's work between reading and collating, for sample ``index`` in a file of another make."""
    image = planned_image(dataset, index, data, seed)
    if not is_joint(dataset):
        with keyed_globals(seed):
            for transform in dataset.pipeline.rest:
                image = transform(image)


def planned_image(dataset: ImageDataset, index: int, data: bytes, seed: int) -> Any:
    """What is planned of sample ``index``, made of a file's bytes: what the transforms get that run one by one."""
    header = readers.parse_header(data)
    generators = keyed_generators(seed)
    if is_joint(dataset):
        recipe = dataset.recipe(index, generators=generators)
    else:
        recipe = dataset.pipeline.draw(ImageShape(*header.size), generators)
    encoded = Encoded(data, header, reader=dataset.reader, config=dataset.config)
    as_pil = not is_joint(dataset) and bool(dataset.pipeline.rest)
    return execute(lower(recipe.steps, recipe.shape), encoded, as_pil=as_pil)


def normalizations(steps: Iterable[Step], rest: Iterable[Any] = ()) -> Normalizations:
    """The mean and std of every normalisation among drawn steps and the transforms behind them."""
    found: list[tuple[Any, Any]] = []
    for step in steps:
        if isinstance(step, Views):
            found += normalizations(step.views[0])
        elif isinstance(step, Operation) and step.op == "normalize":
            found.append((step["mean"], step["std"]))
    found += [(one.mean, one.std) for one in rest if type(one).__name__ == "Normalize" and hasattr(one, "std")]
    return tuple(found)


def decoded_region(recipe: Recipe | None) -> Box | None:
    """The region of the file that is decoded for a recipe; None for all of it, or where nothing is planned."""
    return None if recipe is None else lower(recipe.steps, recipe.shape).request.box


def recipe_in_words(
    recipe: Recipe | None, rest: Iterable[Any], number: int = 0, brief: Any = shortened
) -> tuple[str, ...]:
    """The steps drawn for one image of a sample, by its number, and what runs behind them, in `brief`'s words."""
    steps: tuple[Step, ...] = () if recipe is None else recipe.steps
    views = steps[-1].views if steps and isinstance(steps[-1], Views) else ()
    if number < len(views):
        steps = (*steps[:-1], *views[number])
    elif number:
        return ()
    return (*steps_in_words(steps), *(f"then {brief(one)}" for one in rest))
