"""A transform split into what can be drawn from an image's size and what has to see pixels first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastpipe.core import Drawn
from fastpipe.rng import StreamGenerators, drawing, keyed_generators
from fastpipe.transforms._base import drawable, draws_from_stream
from fastpipe.transforms.compose import members_of
from fastpipe.transforms.crops import SHAPELESS, CropsAndFlips
from fastpipe.types import Generators, ImageShape, Recipe, Step


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A compiled transform.

    Attributes:
        drawn: the transforms, from the front, whose parameters depend on the image's size alone.
        rest: what follows them: the first transform that isn't drawable and everything behind it.
        at_once: `drawn`, where the core draws them for many images together.
    """

    drawn: tuple[Any, ...]
    rest: tuple[Callable[[Any], Any], ...]
    # Of each of `drawn` its method, whether it takes words, and whether a later one looks at the shape that it gives.
    _draws: tuple[tuple[Callable[..., tuple[Step, ...]], bool, bool], ...] = field(
        init=False, repr=False, compare=False
    )
    at_once: CropsAndFlips | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        looks = max((number for number, one in enumerate(self.drawn) if type(one) not in SHAPELESS), default=0)
        draws = ((one.draw, draws_from_stream(one), number < looks) for number, one in enumerate(self.drawn))
        object.__setattr__(self, "_draws", tuple(draws))  # frozen
        object.__setattr__(self, "at_once", CropsAndFlips.of(self.drawn))

    def draw(self, shape: ImageShape, generators: Generators | None = None) -> Recipe:
        """Draws every random parameter of `drawn`, in torchvision's order, touching no pixel.

        Args:
            shape: the image's height, width and channels.
            generators: where the numbers come from; None for the global generators, as torchvision. For many
                samples in a row, what ``with drawing(generators)`` gives: their state is then read only once.
        """
        if isinstance(generators, StreamGenerators):
            return self._drawn(shape, generators)
        with drawing(generators) as held:
            return next(self.draw_each((shape,), held))

    def draw_each(self, shapes: Sequence[ImageShape], held: Generators) -> Iterator[Recipe]:
        """`draw`, for one image after the other, from what ``with drawing()`` gives; drawn ahead where it can be."""
        done, count = 0, len(shapes)
        at_once = self.at_once if isinstance(held, StreamGenerators) and held.has_source else None
        while done < count:
            for steps in [] if at_once is None else at_once.draw(shapes[done:], held.stream):
                yield Recipe(shapes[done], steps)
                done += 1
            if done < count:
                yield self._drawn(shapes[done], held)
                done += 1

    def crops(self, shapes: Sequence[tuple[int, int, int]], held: Generators) -> Sequence[Drawn]:
        """What `at_once` draws of what ``with drawing()`` gives: of the first of these images, or of none."""
        if self.at_once is None or not isinstance(held, StreamGenerators) or not held.has_source:
            return ()
        return self.at_once.numbers(shapes, held.stream)

    def crops_keyed(self, shapes: Sequence[tuple[int, int, int]], keys: Sequence[int]) -> Sequence[Drawn]:
        """The same, each from generators that a key seeds; height 0 of an image that it can't draw for."""
        return () if self.at_once is None else self.at_once.numbers_keyed(shapes, keys)

    def draw_keyed(self, shapes: Sequence[ImageShape], keys: Sequence[int]) -> Iterator[Recipe]:
        """`draw`, for each image from generators of its own, which a key seeds."""
        at_once = self.at_once
        known = [None] * len(shapes) if at_once is None else at_once.draw_keyed(shapes, keys)
        for shape, key, steps in zip(shapes, keys, known, strict=True):
            yield self.draw(shape, keyed_generators(key)) if steps is None else Recipe(shape, steps)

    def _drawn(self, start: ImageShape, generators: Generators) -> Recipe:
        steps: list[Step] = []
        shape = start
        for draw, takes_streams, is_seen in self._draws:
            given = generators
            if not takes_streams and isinstance(generators, StreamGenerators):
                given = generators.plain()
            drawn = draw(shape, given)
            if drawn:
                steps += drawn
                if is_seen:
                    for step in drawn:
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


def compile_pipeline(transform: Any, *, v2_alone: bool = False) -> Pipeline:
    """Splits a transform at the first member that isn't drawable (a foreign callable, a `Lambda`, …).

    Args:
        transform: one, or a `Compose`.
        v2_alone: what isn't v2's is no part of the plan: it would not know what to do with boxes.
    """
    members = tuple(flatten(transform))
    takes = (drawable(member) and (_is_v2(member) or not v2_alone) for member in members)
    cut = next((index for index, taken in enumerate(takes) if not taken), len(members))
    # v1 and v2 say differently what an image is behind a conversion: a plan is of one of them.
    changes = (index for index in range(1, cut) if _is_v2(members[index]) != _is_v2(members[0]))
    cut = next(changes, cut)
    return Pipeline(members[:cut], members[cut:])


def _is_v2(transform: Any) -> bool:
    return hasattr(transform, "_plans_itself")
