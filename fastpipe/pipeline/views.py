"""Several augmentations of one image, from one decode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fastpipe.pipeline.rules import crop_box, crop_call, rewrite
from fastpipe.transforms._base import drawable
from fastpipe.transforms.steps import Call
from fastpipe.types import Box, Generators, ImageShape, Step

__all__ = ["MultiView", "Views", "plan_region"]


@dataclass(frozen=True, slots=True)
class Views:
    """Several chains of drawn steps, each for the same image.

    Attributes:
        views: the steps of each.
    """

    views: tuple[tuple[Step, ...], ...]

    def apply(self, image: Any) -> list[Any]:
        """The result of each chain."""
        results = []
        for steps in self.views:
            result = image
            for step in steps:
                result = step.apply(result)
            results.append(result)
        return results

    def output_shape(self, shape: ImageShape) -> ImageShape:
        """The first view's: the others may differ."""
        for step in self.views[0]:
            shape = step.output_shape(shape)
        return shape

    def __str__(self) -> str:
        return " | ".join(" → ".join(map(str, steps)) or "as it is" for steps in self.views)


class MultiView:
    """n augmentations of one image, for self-supervised training: a list of what the transform gives n times.

    The views are drawn one after the other, as calling the transform n times would draw. In a dataset of fastpipe
    the image is decoded once, and only the region that the views need together. Put it last in a `Compose`.

    Args:
        transform: what makes a view; planned where it is made of transforms of `fastpipe.transforms`.
        n: how many views, at least 1.

    Raises:
        ValueError: n is less than 1.
        TypeError: the transform isn't callable.
    """

    def __init__(self, transform: Callable[[Any], Any], n: int = 2) -> None:
        if n < 1:
            raise ValueError(f"n={n}: give the number of views, at least 1.")
        if not callable(transform):
            raise TypeError(f"transform should be callable, got {type(transform).__name__!r}")
        self.transform = transform
        self.n = n

    def __call__(self, img: Any) -> list[Any]:
        return [self.transform(img) for _ in range(self.n)]

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        transform: Any = self.transform
        return (Views(tuple(transform.draw(shape, generators) for _ in range(self.n))),)

    def _can_draw(self) -> bool:
        return drawable(self.transform)

    def __repr__(self) -> str:
        inner = repr(self.transform).replace("\n", "\n    ")
        return f"{type(self).__name__}(\n    n={self.n}\n    {inner}\n)"


def plan_region(step: Views, shape: ImageShape) -> tuple[Box | None, Views]:
    """The region of the image that the views need together, and what each does to that region.

    Args:
        step: as drawn.
        shape: the whole image.

    Returns:
        The region, None for the whole image, and the views as they apply to what is decoded.
    """
    chains = [rewrite(steps, shape) for steps in step.views]
    boxes = [box for steps in chains if (box := _leading_box(steps, shape)) is not None]
    if len(boxes) < len(chains):
        return None, Views(tuple(chains))
    top, left = min(box.top for box in boxes), min(box.left for box in boxes)
    bottom, right = max(box.bottom for box in boxes), max(box.right for box in boxes)
    region = Box(top, left, bottom - top, right - left)
    moved = (crop_call(box._replace(top=box.top - top, left=box.left - left)) for box in boxes)
    inside = ImageShape(*region.size, shape.channels)
    return region, Views(tuple(rewrite((c, *s[1:]), inside) for c, s in zip(moved, chains, strict=True)))


def _leading_box(steps: Sequence[Step], shape: ImageShape) -> Box | None:
    if not steps or not isinstance(steps[0], Call) or steps[0].op != "crop":
        return None
    box = crop_box(steps[0])
    return box if box.inside(shape.size) and box.height > 0 and box.width > 0 else None
