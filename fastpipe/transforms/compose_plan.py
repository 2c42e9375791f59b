"""Plans for calling a `Compose` on a loaded image: transforms are drawn from the image's size, and run as one program.

A plan is made once. Each call only checks what may have changed since: the list of transforms, and hooks or methods
set on them; their attributes are read by each draw. Transforms that can't be drawn are called with the same image as in
torchvision, and those after them make a program of their own. If a program fails, its transforms are called one by one,
from the same state of the generators, so that errors and draws are torchvision's. If these calls succeed, the failure
was a bug in fastpipe, and its error is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from PIL import Image
from torch.utils.data import get_worker_info

from fastpipe.errors import PlanError
from fastpipe.mistakes import attempt, raise_mistake
from fastpipe.pending import is_pending
from fastpipe.plain_lookup import ByClass, attribute_of_class, own_attribute
from fastpipe.program.core_job import LoadedImage
from fastpipe.program.lower import lower
from fastpipe.program.on_image import run_on_image, shape_of
from fastpipe.rng import drawing
from fastpipe.torch_modes import torch_modes_active
from fastpipe.transforms._base import call
from fastpipe.transforms.adapters import planned
from fastpipe.transforms.pipeline import LISTS, Pipeline, drawn_from, flatten
from fastpipe.transforms.sized_image import Untraceable
from fastpipe.transforms.unchanged import Unchanged
from fastpipe.types import Generators, ImageShape, ImageTransform, Step

MakeResult: TypeAlias = "Callable[[tuple[Step, ...], ImageShape, LoadedImage], object]"
"""Makes the result of steps that were drawn for an image of a given shape."""


class ComposePlan:
    """The calls of an image's transforms, valid as long as the transforms stay the same.

    Args:
        transforms: the transforms, applied in order.

    Attributes:
        runs: the transforms in order: several that are drawn together, or one that is called.
        draws: whether any transforms are drawn.
    """

    __slots__ = ("_fills_by_class", "_unchanged", "draws", "runs")

    def __init__(self, transforms: Iterable[object]) -> None:
        transforms = tuple(transforms)
        self._unchanged = Unchanged(transforms)
        self.runs = tuple(pipelines_of([member for transform in transforms for member in flatten(transform)]))
        self._fills_by_class = any(map(fills_by_class, self._unchanged.within))
        self.draws = any(run.drawn for run in self.runs)

    def holds(self, transforms: Sequence[object]) -> bool:
        """True if the transforms, and those they contain, are the same as when the plan was made."""
        return self._unchanged.holds(transforms)

    def takes(self, image: object) -> bool:
        """True if the image's class is the one for which the transforms are drawn, or makes no difference."""
        return not self._fills_by_class or not is_opened_file(image)

    def __call__(self, image: object) -> object:
        for run in self.runs:
            image = run_one(run, image)
        return image


def fills_by_class(transform: object) -> bool:
    """True if a transform of v2's has a fill for ``PIL.Image.Image``, which it looks up by the image's class."""
    fill = own_attribute(transform, "_fill")
    return isinstance(fill, dict) and Image.Image in fill


def is_opened_file(image: object) -> bool:
    """True for Pillow's images of a class of their own, as an opened file that nothing has been done to."""
    return isinstance(image, Image.Image) and image.__class__ is not Image.Image


def made_at_once(steps: tuple[Step, ...], shape: ImageShape, image: LoadedImage) -> object:
    """Runs steps that were drawn for an image of this shape, and returns the result."""
    return run_on_image(lower(steps, shape), image, in_rows=True)


def run_one(
    run: Pipeline,
    image: object,
    on_mistake: Callable[[Exception], None] = raise_mistake,
    make: MakeResult = made_at_once,
) -> object:
    """Runs one of a `ComposePlan`'s runs on an image, and returns the result.

    Args:
        run: transforms that are drawn together, or one that is called.
        image: the result of the run before.
        on_mistake: is called with a program's error if its transforms succeed when called one by one.
        make: makes the result of drawn steps.
    """
    is_image = bool(run.drawn) and (not isinstance(image, np.ndarray) or _takes_arrays(run.drawn[0]))
    return run_drawn(run, image, shape_of(image) if is_image else None, on_mistake, make)


def run_drawn(
    run: Pipeline,
    image: Any,
    shape: ImageShape | None,
    on_mistake: Callable[[Exception], None],
    make: MakeResult,
) -> object:
    """Runs one of a `ComposePlan`'s runs on an image of a given shape; None to call its transforms one by one.

    See `run_one` for the other arguments.
    """
    if shape is None:
        return _in_turn(run, image)
    drawn = partial(draw_and_run, run.steps, image, shape, run.draws_from_python, make)
    return attempt(drawn, partial(_in_turn, run, image), on_mistake, [image], partial(_loaded, image), UNPLANNED)


UNPLANNED = (PlanError, Untraceable)
"""Errors that say that transforms can't be drawn for an image."""


def _in_turn(run: Pipeline, image: Any) -> object:
    """Calls a run's transforms one by one."""
    for transform in (*run.drawn, *run.unplanned):
        image = call(transform, image)
    return image


def _loaded(image: object) -> None:
    """Has Pillow raise a broken file's error before the draws, where the image was made."""
    if isinstance(image, Image.Image) and is_pending(image) and not is_opened_file(image):
        image.load()


def _takes_arrays(transform: object) -> bool:
    """True if an array is an image to a transform: to fastpipe's own, and to another library's ``ToTensor``.

    Another library's transform may treat an array in its own way: refuse it, ignore it, or read it in another layout.
    """
    return planned(transform) is transform or type(transform).__name__ == "ToTensor"


def pipelines_of(members: Sequence[ImageTransform], *, v2_alone: bool = False) -> Iterator[Pipeline]:
    """Splits transforms into runs, drawn together or called; see `drawn_from` for ``v2_alone``."""
    start = 0
    while start < len(members):
        end = drawn_from(members, start, v2_alone=v2_alone)
        if end > start:
            yield Pipeline(tuple(members[start:end]), ())
        else:
            end = start + 1
            yield Pipeline((), (members[start],))
        start = end


def draw_and_run(
    draw: Callable[[ImageShape, Generators], tuple[Step, ...]],
    image: LoadedImage,
    shape: ImageShape,
    with_python: bool = False,
    make: MakeResult = made_at_once,
) -> object:
    """Draws steps for an image of this shape, and runs them as a program, or by `make`.

    If that raises, restores torch's generator, and with ``with_python`` also Python's and numpy's.
    """
    turn = drawing(globally=True, with_python=with_python)
    try:
        with turn as generators:
            steps = draw(shape, generators)
        return make(steps, shape, image) if steps else image
    except BaseException:  # whatever it is, the draws are taken back
        turn.rewind()
        raise


@ByClass
def _is_pillow(kind: type) -> bool:
    """True for Pillow's image classes, but not for v2's stand-ins, which have no pixels."""
    return issubclass(kind, Image.Image) and attribute_of_class(kind, "stands_for") is None


class ComposePlanSlot:
    """The base of transforms that apply ``self.transforms`` in order, and run them as programs."""

    __slots__ = ("_compose_plan",)  # isn't in `vars`, pickles and copies

    _compose_plan: ComposePlan

    def __getstate__(self) -> object:
        return self.__dict__

    def _call_for(self, image: object) -> ComposePlan | None:
        """The plan for an image; None if the transforms have to be called one by one."""
        kind: type = type(image)
        if kind is not Image.Image and kind is not np.ndarray and not _is_pillow(kind):
            return None
        if torch_modes_active():
            return None
        transforms = self.transforms  # type: ignore[attr-defined]
        known = getattr(self, "_compose_plan", None)
        if known is None or not known.holds(transforms):
            known = ComposePlan(transforms) if isinstance(transforms, LISTS) else _NONE
            object.__setattr__(self, "_compose_plan", known)
        if not known.draws or not known.takes(image):
            return None
        if get_worker_info() is not None:  # in a worker of torch's loader, for any dataset
            from fastpipe.memory.torch_worker import serve_torch_loader

            serve_torch_loader()
        return known


_NONE = ComposePlan(())
