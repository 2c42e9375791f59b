"""``fidelity="fast"``: decode at a reduced DCT scale, then finish with the ordinary resize.

libjpeg-turbo's inverse DCT gives an image at 1/2, 1/4 or 1/8 of its size for less work than the full one. The
result is a good box-filtered reduction, but not the one that torchvision computes: nothing here is used unless
the user asks for it. ``benchmarks/fidelity.py`` measures the error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpipe.transforms.steps import Call
from fastpipe.types import Box, DecodeRequest, ImageShape, Size

__all__ = ["ScaledResize", "reduced_scale"]


def reduced_scale(source: Size, target: Size) -> int:
    """The largest of 1, 2, 4, 8 that leaves at least the target's pixels in both directions."""
    if min(target) < 1:
        return 1
    shrink = min(source.height / target.height, source.width / target.width)
    return next((scale for scale in (8, 4, 2) if shrink >= scale), 1)


@dataclass(frozen=True, slots=True)
class ScaledResize:
    """The `resize` behind a decode at a reduced scale.

    Attributes:
        source: the box of the full-size image that the result shows.
        resize: the resize that was drawn.
    """

    source: Box
    resize: Call

    def apply_to(self, pixels: np.ndarray[Any, Any], got: DecodeRequest) -> Any:
        """Cuts `source`, to the nearest decoded pixel, out of what the reader returned, and resizes it."""
        origin = got.box or Box(0, 0, 0, 0)
        top, bottom = (round((edge - origin.top) / got.scale) for edge in (self.source.top, self.source.bottom))
        left, right = (round((edge - origin.left) / got.scale) for edge in (self.source.left, self.source.right))
        height, width = self.output_shape(ImageShape(*self.source.size)).size
        cut = pixels[top : max(bottom, top + 1), left : max(right, left + 1)]
        return Call.of("resize", **{**dict(self.resize.args), "size": [height, width], "max_size": None}).apply(cut)

    def apply(self, image: Any) -> Any:
        return self.apply_to(image, DecodeRequest(self.source))

    def output_shape(self, shape: ImageShape) -> ImageShape:
        return self.resize.output_shape(ImageShape(*self.source.size, shape.channels))

    def __str__(self) -> str:
        return f"approximate {self.resize}"
