"""`MultiView`: several augmentations of one image, from one decode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fastpipe.pillow.image_record import source_of
from fastpipe.plain_lookup import are_same
from fastpipe.program.program import Views
from fastpipe.transforms._base import draw_steps, drawable
from fastpipe.transforms.compose import Compose
from fastpipe.types import Generators, ImageShape, ImageTransform, Step


class MultiView:
    """Several augmentations of one image, for self-supervised training, as a list of the transforms' results.

    The views are drawn one after the other, as by calling the transforms. A dataset of fastpipe decodes an image once,
    and only the region that the views need together. If a view has a foreign member, such as a class from a paper's
    repository, its members before and after that one are planned all the same, and so are the other views. Then each
    view's part is decoded alone, or the whole image once, whichever is less work. Put it last in a `Compose`.

    Args:
        transform: the transform that makes a view, or a list of transforms; those from `fastpipe.transforms` are
            planned.
        n: number of views for each transform, at least 1; for a list also one number for each. DINO's two large and
            eight small crops are ``MultiView([large, small], [2, 8])``.

    Raises:
        ValueError: ``n`` is less than 1, or doesn't have one number for each transform.
        TypeError: a transform isn't callable.
    """

    def __init__(
        self,
        transform: ImageTransform | Sequence[ImageTransform],
        n: int | Sequence[int] | None = None,
    ) -> None:
        several = isinstance(transform, Sequence)
        self.transforms = list(transform) if isinstance(transform, Sequence) else [transform]
        if n is None:
            n = 1 if several else 2
        self.counts = list(n) if isinstance(n, Sequence) else [n] * len(self.transforms)
        if len(self.counts) != len(self.transforms) or not self.counts or min(self.counts) < 1:
            raise ValueError(f"n={n}: give the number of views, at least 1, or one number for each transform.")
        for one in self.transforms:
            if not callable(one):
                raise TypeError(f"transform should be callable, got {type(one).__name__!r}")
        self.transform = transform
        self.n = self.counts if several else self.counts[0]

    def _each(self) -> Iterator[ImageTransform]:
        for transform, count in zip(self.transforms, self.counts, strict=True):
            yield from [transform] * count

    def __call__(self, img: object) -> list[Any]:
        calls = self._calls()
        source = source_of(img)
        if source is not None:
            source.expect(len(calls))
        return [call(img) for call in calls]

    def _calls(self) -> list[Compose]:
        """A `Compose` for each view; it runs the view's transform as programs, except for foreign parts."""
        known: list[Compose] | None = getattr(self, "_composes", None)
        if known is None or not are_same([one.transforms[0] for one in known], self.transforms):
            known = self._composes = [Compose([transform]) for transform in self.transforms]
        return [one for one, count in zip(known, self.counts, strict=True) for _ in range(count)]

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "_composes"}

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        return (Views(tuple(draw_steps(transform, shape, generators) for transform in self._each())),)

    def _can_draw(self) -> bool:
        return all(map(drawable, self.transforms))

    def __repr__(self) -> str:
        inner = "\n".join(map(repr, self.transforms)).replace("\n", "\n    ")
        return f"{type(self).__name__}(\n    n={self.n}\n    {inner}\n)"
