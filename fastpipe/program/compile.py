"""A transform split into what can be drawn from an image's size and what has to see pixels first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fastpipe.transforms._base import drawable
from fastpipe.transforms.compose import members_of
from fastpipe.transforms.drawing import WordGenerators, draw_steps, drawing
from fastpipe.types import Generators, ImageShape, Recipe, Step

__all__ = ["Pipeline", "compile_pipeline", "flatten"]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A compiled transform.

    Attributes:
        drawn: the transforms, from the front, whose parameters depend on the image's size alone.
        rest: what follows them: the first transform that isn't drawable and everything behind it.
    """

    drawn: tuple[Any, ...]
    rest: tuple[Callable[[Any], Any], ...]

    def draw(self, shape: ImageShape, generators: Generators | None = None) -> Recipe:
        """Draws every random parameter of `drawn`, in torchvision's order, touching no pixel.

        Args:
            shape: the image's height, width and channels.
            generators: where the numbers come from; None for the global generators, as torchvision. For many
                samples in a row, what ``with drawing(generators)`` gives: their state is then read only once.
        """
        if not isinstance(generators, WordGenerators):
            with drawing(generators) as held:
                if isinstance(held, WordGenerators):
                    return self.draw(shape, held)
                return self._drawn(shape, held)
        return self._drawn(shape, generators)

    def _drawn(self, start: ImageShape, generators: Generators) -> Recipe:
        steps: list[Step] = []
        shape = start
        for transform in self.drawn:
            for step in draw_steps(transform, shape, generators):
                steps.append(step)
                shape = step.output_shape(shape)
        return Recipe(start, tuple(steps))


def flatten(transform: Any) -> Iterable[Any]:
    """The transforms of a nested `Compose`, in the order in which they run; one that isn't a `Compose`, itself."""
    if transform is None:
        return
    members = members_of(transform)
    if members is not None:
        for member in members:
            yield from flatten(member)
    else:
        yield transform


def compile_pipeline(transform: Any) -> Pipeline:
    """Splits a transform at the first member that isn't drawable (a foreign callable, a `Lambda`, …)."""
    members = tuple(flatten(transform))
    cut = next((index for index, member in enumerate(members) if not drawable(member)), len(members))
    # v1 and v2 say differently what an image is behind a conversion: a plan is of one of them.
    changes = (index for index in range(1, cut) if _is_v2(members[index]) != _is_v2(members[0]))
    cut = next(changes, cut)
    return Pipeline(members[:cut], members[cut:])


def _is_v2(transform: Any) -> bool:
    return hasattr(transform, "_plans_itself")
