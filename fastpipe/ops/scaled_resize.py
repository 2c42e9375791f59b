"""Decoding at a reduced scale, which ``fidelity="fast"`` allows, and the resize behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from fastpipe.kernels import resizing
from fastpipe.ops.base import APPROXIMATE, Contract, Operation
from fastpipe.types import Box, DecodeRequest, ImageShape, Size


@dataclass(frozen=True, slots=True, eq=False)
class ScaledResize(Operation):
    """A resize behind a decode at a reduced scale: approximate, and only under ``fidelity="fast"``.

    Attributes:
        source: the box of the full-size image that the result shows.
        size: ``(height, width)`` of the result.
        mode: the interpolation's name.
    """

    op: ClassVar[str] = "resize"
    contract: ClassVar[Contract] = APPROXIMATE
    takes_arrays_alone: ClassVar[bool] = True
    source: Box
    size: Size
    mode: str

    def apply_to(self, pixels: NDArray[Any], got: DecodeRequest) -> Any:
        """Cuts `source`, to the nearest decoded pixel, out of what the reader returned, and resizes it."""
        origin = got.box or Box(0, 0, 0, 0)
        top, bottom = (round((edge - origin.top) / got.scale) for edge in (self.source.top, self.source.bottom))
        left, right = (round((edge - origin.left) / got.scale) for edge in (self.source.left, self.source.right))
        cut = pixels[top : max(bottom, top + 1), left : max(right, left + 1)]
        return resizing.resize(cut, self.size.height, self.size.width, self.mode)

    def apply(self, image: Any) -> Any:
        return self.apply_to(image, DecodeRequest(self.source))

    def output_shape(self, shape: ImageShape) -> ImageShape:
        return ImageShape(self.size.height, self.size.width, shape.channels)

    def __str__(self) -> str:
        return f"approximate resize(size=[{self.size.height}, {self.size.width}], interpolation={self.mode})"


def reduced_scale(source: Size, target: Size) -> int:
    """The largest of 1, 2, 4, 8 that leaves at least the target's pixels in both directions."""
    if min(target) < 1:
        return 1
    shrink = min(source.height / target.height, source.width / target.width)
    return next((scale for scale in (8, 4, 2) if shrink >= scale), 1)
