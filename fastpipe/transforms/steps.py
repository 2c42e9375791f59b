"""Drawn operations: a recipe is a chain of functional calls whose random arguments are already known.

`Call` covers nearly everything: it names a function of `fastpipe.transforms.functional` and holds its
arguments. What an operation does to an image's shape is known here, in `_OUTPUT_SHAPES`, and nowhere else
on the way to a plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import torch

from fastpipe.errors import PlanError
from fastpipe.transforms import functional as F
from fastpipe.transforms.functional import geometry
from fastpipe.types import ImageShape

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
        """The operation on a PIL image, an ndarray ``(H, W, C)`` or a tensor ``(…, C, H, W)``."""
        return getattr(F, self.op)(image, **dict(self.args))

    def output_shape(self, shape: ImageShape) -> ImageShape:
        """The shape that `apply` gives an image of that shape, worked out without pixels.

        Raises:
            PlanError: the operation gives several images.
        """
        rule = _OUTPUT_SHAPES.get(self.op)
        return shape if rule is None else rule(shape, **dict(self.args))

    def __eq__(self, other: object) -> bool:
        """Equal operations and arguments; tensors and arrays among them by value."""
        if not isinstance(other, Call):
            return NotImplemented
        if self.op != other.op or len(self.args) != len(other.args):
            return False
        return all(
            mine == yours and _equal(value, other_value)
            for (mine, value), (yours, other_value) in zip(self.args, other.args, strict=True)
        )

    def __hash__(self) -> int:
        return hash((self.op, tuple(name for name, _ in self.args)))

    def __str__(self) -> str:
        return f"{self.op}({', '.join(f'{name}={_text(value)}' for name, value in self.args)})"


def _equal(value: Any, other: Any) -> bool:
    if isinstance(value, torch.Tensor) or isinstance(other, torch.Tensor):
        return type(value) is type(other) and torch.equal(value, other)
    if isinstance(value, np.ndarray) or isinstance(other, np.ndarray):
        return type(value) is type(other) and np.array_equal(value, other)
    return bool(value == other)


def _text(value: Any) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return f"<{str(value.dtype).removeprefix('torch.')} {'×'.join(map(str, value.shape))}>"
    if isinstance(value, (list, tuple)):
        text = ", ".join(_text(x) for x in value)
        return f"[{text}]" if isinstance(value, list) else f"({text})"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _crop(shape: ImageShape, top: int, left: int, height: int, width: int) -> ImageShape:
    return shape._replace(height=height, width=width)


def _center_crop(shape: ImageShape, output_size: Any) -> ImageShape:
    _, _, height, width = geometry.center_crop_box(*shape.size, output_size)
    return shape._replace(height=height, width=width)


def _resize(shape: ImageShape, size: Any, max_size: int | None = None, **_: Any) -> ImageShape:
    height, width = geometry.resized_size(*shape.size, size, max_size)
    return shape._replace(height=height, width=width)


def _resized_crop(shape: ImageShape, top: int, left: int, height: int, width: int, size: Any, **_: Any) -> ImageShape:
    return _resize(shape._replace(height=height, width=width), size)


def _pad(shape: ImageShape, padding: Any, **_: Any) -> ImageShape:
    left, top, right, bottom = geometry.padding_ltrb(padding)
    return shape._replace(height=top + shape.height + bottom, width=left + shape.width + right)


def _rotate(shape: ImageShape, angle: float, expand: bool = False, center: Any = None, **_: Any) -> ImageShape:
    height, width = geometry.rotated_size(*shape.size, angle, expand, center)
    return shape._replace(height=height, width=width)


def _grayscale(shape: ImageShape, num_output_channels: int = 1) -> ImageShape:
    return shape._replace(channels=num_output_channels)


def _several(shape: ImageShape, **_: Any) -> ImageShape:
    raise PlanError("five_crop and ten_crop give several images, which have no one shape; end the drawn part there")


_OUTPUT_SHAPES: dict[str, Callable[..., ImageShape]] = {
    "center_crop": _center_crop,
    "crop": _crop,
    "five_crop": _several,
    "pad": _pad,
    "resize": _resize,
    "resized_crop": _resized_crop,
    "rgb_to_grayscale": _grayscale,
    "rotate": _rotate,
    "ten_crop": _several,
    "to_grayscale": _grayscale,
}
