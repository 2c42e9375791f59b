"""Drawn operations: a recipe is a chain of functional calls whose random arguments are already known.

`Call` covers nearly everything: it names a function of `fastpipe.transforms.functional` and holds its
arguments. What an operation does to an image's shape is known here, in `_OUTPUT_SHAPES`, and nowhere else
on the way to a plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastpipe.transforms import functional as F
from fastpipe.transforms.functional import geometry
from fastpipe.types import Box, ImageShape

__all__ = ["Call"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a function of `fastpipe.transforms.functional`.

    Attributes:
        op: the function's name.
        args: its keyword arguments after the image, as ``(name, value)`` pairs in the signature's order.
    """

    op: str
    args: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, op: str, **args: Any) -> Call:
        """``Call.of("crop", top=1, left=2, height=3, width=4)``."""
        return cls(op, tuple(args.items()))

    def __getitem__(self, name: str) -> Any:
        return dict(self.args)[name]

    def apply(self, image: Any) -> Any:
        return getattr(F, self.op)(image, **dict(self.args))

    def output_shape(self, shape: ImageShape) -> ImageShape:
        rule = _OUTPUT_SHAPES.get(self.op)
        return shape if rule is None else rule(shape, **dict(self.args))

    def __str__(self) -> str:
        return f"{self.op}({', '.join(f'{name}={value}' for name, value in self.args)})"
