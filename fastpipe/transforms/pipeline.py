"""A compiled transform, split into members that are drawn from an image's size and members that need pixels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, TypeAlias, cast

import torch
from torch.nn.modules import module as _modules

from fastpipe.plain_lookup import (
    ByClass,
    class_attribute,
    module_of,
    modules_of,
    own_attribute,
    own_attributes,
)
from fastpipe.rng import StreamGenerators, drawing
from fastpipe.transforms._base import UsersDraw, drawable, draws_from_stream, own_method
from fastpipe.transforms.adapters import planned, recipe_of
from fastpipe.transforms.converted import seen_through
from fastpipe.transforms.replaced_methods import is_as_its_library_has_it
from fastpipe.types import Generators, ImageShape, ImageTransform, Recipe, Step

_Draw: TypeAlias = Callable[..., tuple[Step, ...]]
FixedSteps: TypeAlias = tuple[tuple[Step, ...] | None, ...]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A compiled transform.

    Attributes:
        drawn: the first transforms, whose parameters depend on the image's size alone.
        unplanned: the remaining transforms, from the first one that isn't drawable on.
        draws_from_python: whether a draw may use Python's generator or numpy's.
    """

    drawn: tuple[ImageTransform, ...]
    unplanned: tuple[ImageTransform, ...]
    draws_from_python: bool = field(init=False, repr=False, compare=False)
    # For each of `drawn`: its draw method, whether that takes streams, and whether a later draw depends on the shape.
    _draws: tuple[tuple[_Draw, bool, bool], ...] = field(init=False, repr=False, compare=False)
    # For each of `drawn`: its draw method if it draws no random numbers; else None.
    _fixed: tuple[_Draw | None, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        adapted = tuple(map(planned, self.drawn))
        looking = (n for n, one in enumerate(adapted) if _looks_at_shape(one) and not _draws_nothing(one))
        looks = max(looking, default=0)
        streams = [draws_from_stream(one) for one in adapted]
        draws = (
            (one.draw if takes_streams else UsersDraw(one), takes_streams, number < looks)
            for number, (one, takes_streams) in enumerate(zip(adapted, streams, strict=True))
        )
        object.__setattr__(self, "_draws", tuple(draws))  # frozen
        object.__setattr__(self, "_fixed", tuple(one.draw if _draws_nothing(one) else None for one in adapted))
        within = [planned(one) for transform in self.drawn for one in all_within(transform)]
        object.__setattr__(self, "draws_from_python", any(map(_draws_from_python, within)))

    def draw(self, shape: ImageShape, generators: Generators | None = None) -> Recipe:
        """Draws the recipe for an image; see `steps` for the arguments."""
        return Recipe(shape, self.steps(shape, generators))

    def steps(
        self, shape: ImageShape, generators: Generators | None = None, fixed: FixedSteps | None = None
    ) -> tuple[Step, ...]:
        """Draws every random parameter of `drawn`, in torchvision's order, without pixels.

        Args:
            shape: the image's height, width and channels.
            generators: the source of random numbers; None for the global generators, as in torchvision. For many
                samples in a row, give the result of ``with drawing(generators)``, which reads their state only once.
            fixed: the result of `fixed_steps`, computed once for many samples.
        """
        streamed = isinstance(generators, StreamGenerators)
        if not streamed:
            with drawing(generators) as held:
                if held is not generators:
                    return self.steps(shape, held, fixed)
        given: Any = generators
        steps: list[Step] = []
        for (draw, takes_streams, is_seen), known in zip(self._draws, fixed or repeat(None), strict=False):
            drawn = draw(shape, given if takes_streams or not streamed else given.plain()) if known is None else known
            if drawn:
                steps += drawn
                if is_seen:
                    for step in drawn:
                        if getattr(step, "changes_shape", True):
                            shape = step.output_shape(shape)
        return tuple(steps)

    def fixed_steps(self) -> FixedSteps:
        """The steps of each of `drawn` that draws nothing, from its current attributes; None for the others."""
        return tuple([None if draw is None else draw(None, None) for draw in self._fixed])


def _looks_at_shape(transform: object) -> bool:
    """True if a transform's steps may depend on the image's shape; fastpipe's classes declare if they don't."""
    return bool(own_attribute(type(transform), "_looks_at_shape", True))


def _draws_nothing(transform: object) -> bool:
    """True if a transform's class declares that its steps are the same for each image."""
    return bool(own_attribute(type(transform), "_draws_nothing"))


def _draws_from_python(transform: object) -> bool:
    """True if a draw may use Python's generator or numpy's, as the transform's class declares."""
    own = class_attribute(transform, "_draws_from_python")
    return not draws_from_stream(transform) if own is None else bool(own)


LISTS = (list, tuple, torch.nn.ModuleList)
GLOBAL_HOOKS = [getattr(_modules, f"_global_forward_{name}hooks", None) for name in ("", "pre_")]
"""torch's dicts of hooks of all modules; None for one that this torch lacks."""


def any_global_hooks() -> bool:
    """True if torch calls a user's function for each module, or may: then only the modules themselves can run."""
    return None in GLOBAL_HOOKS or any(GLOBAL_HOOKS)


def is_of_v2(adapted: object) -> bool:
    """True for v2's transforms; of another library's, the adapter is asked: see `planned`."""
    return own_method(adapted, "_plans_itself") is not None


def members_within(transform: object) -> tuple[object, ...]:
    """The transforms that a known transform contains, whatever it does with them; none for a class of the user's."""
    kind = type(transform)
    if not _is_known(kind):
        return ()
    own = own_attributes(transform)
    found = own.get("transforms", own.get("_modules", {}).get("transforms"))  # torch's modules keep theirs apart
    return tuple(found) if issubclass(type(found), LISTS) else ()


@ByClass
def _is_known(kind: type) -> bool:
    return recipe_of(kind) is not None or any(home.startswith("fastpipe.") for _, home in modules_of(kind))


def all_within(transform: object) -> Iterator[object]:
    """The transform, and all transforms that it contains."""
    yield transform
    for member in members_within(transform):
        yield from all_within(member)


def _is_compose(transform: object) -> bool:
    """True if the class itself declares it; a derived class may do something else."""
    kind = type(transform)
    is_ours = own_attribute(kind, "_is_compose") is True and module_of(kind).startswith("fastpipe.")
    return is_ours and is_as_its_library_has_it(kind)


def members_of(transform: Any) -> Sequence[ImageTransform] | None:
    """The members of a `Compose`, of v1, v2 or torchvision; None for other transforms and for subclasses."""
    if not _is_compose(transform):
        transform = seen_through(transform)
        if not (_is_compose(transform) or _is_compose(planned(transform))):
            return None
    own = vars(transform)
    if own.get("_forward_hooks") or own.get("_forward_pre_hooks") or "forward" in own:
        return None
    members: Sequence[ImageTransform] = transform.transforms
    return members


def flatten(transform: Any) -> Iterator[ImageTransform]:
    """The transforms of a nested `Compose`, in the order in which they run; or the transform itself."""
    if transform is None:
        return
    members = members_of(transform)
    if members is not None:
        for member in members:
            yield from flatten(member)
    else:
        yield transform


def compile_pipeline(transform: object, *, v2_alone: bool = False) -> Pipeline:
    """Splits a transform at the first member that isn't drawable (a foreign callable, a `Lambda`, …).

    Args:
        transform: a transform, or a `Compose`.
        v2_alone: only plan v2's transforms, because others can't handle boxes.
    """
    if any_global_hooks():
        return Pipeline((), () if transform is None else (cast(ImageTransform, transform),))
    members = tuple(flatten(transform))
    cut = drawn_from(members, 0, v2_alone=v2_alone)
    return Pipeline(members[:cut], members[cut:])


def drawn_from(members: Sequence[object], start: int, *, v2_alone: bool = False) -> int:
    """The end of the run of transforms from ``start`` on that fit into one plan; ``start`` if there is none.

    v1 and v2 represent a converted image differently, so a plan has transforms of only one of them.
    """
    if any_global_hooks():
        return start
    of_v2 = True if v2_alone else None
    for end in range(start, len(members)):
        member = planned(members[end])
        own = is_of_v2(member)
        if of_v2 not in (None, own) or not drawable(members[end]):
            return end
        of_v2 = own
    return len(members)
