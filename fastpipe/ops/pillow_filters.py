"""Pillow's own blurs, which torchvision doesn't have: ``Image.filter`` with ``GaussianBlur`` or ``BoxBlur``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from PIL import Image, ImageFilter

from fastpipe.core import Kind
from fastpipe.ops.base import Operation
from fastpipe.ops.geometry import Crop
from fastpipe.types import Box, ImageShape

if TYPE_CHECKING:
    from fastpipe.core import Job

__all__ = ["PillowBoxBlur", "PillowGaussianBlur", "radii_of"]

_LARGEST_RADIUS = 1 << 20  # the core's


def radii_of(radius: Any) -> tuple[float, float] | None:
    """A blur's radii along rows and down columns, from a number or a tuple of two.

    None for what Pillow has to decide about, such as a list, which may change until then.
    """
    given = radius if isinstance(radius, tuple) else (radius, radius)
    if len(given) != 2 or not all(isinstance(one, (int, float)) and 0 <= one <= _LARGEST_RADIUS for one in given):
        return None
    return given[0], given[1]


class _Blur(Operation):
    """Pillow's extended box blur, in whole numbers.

    Attributes:
        kind: the core's operation.
        filter: Pillow's class.
        passes: of which each rounds.
    """

    __slots__ = ()
    moves: ClassVar[bool] = False
    narrows: ClassVar[bool] = False
    kind: ClassVar[Kind]
    filter: ClassVar[type[Any]]
    passes: ClassVar[int]
    radius: Any

    def apply(self, image: Any) -> Any:
        """Pillow's own filter on a PIL image, or on a uint8 array ``(H, W, C)`` of 1 or 3 channels."""
        if isinstance(image, Image.Image):
            return image.filter(self.filter(self.radius))
        made = self.apply(Image.fromarray(np.ascontiguousarray(image if image.shape[2] == 3 else image[..., 0])))
        return np.array(made).reshape(image.shape)

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        radii = radii_of(self.radius)
        if radii is None:
            return False
        job.blur(self.kind, *radii)
        return True

    def required_region(self, region: Box, shape: ImageShape) -> tuple[Box, tuple[Operation, ...]] | None:
        """The pixels that the passes reach; a Gaussian's boxes are no wider than its radius."""
        radii = radii_of(self.radius)
        if radii is None:
            return None
        x, y = (self.passes * (int(radius) + 2) if radius else 0 for radius in radii)
        top, left = max(region.top - y, 0), max(region.left - x, 0)
        bottom, right = min(region.bottom + y, shape.height), min(region.right + x, shape.width)
        needed = Box(top, left, bottom - top, right - left)
        if needed == region:
            return needed, (self,)
        return needed, (self, Crop(region.top - top, region.left - left, region.height, region.width))


@dataclass(frozen=True, slots=True, eq=False)
class PillowGaussianBlur(_Blur):
    """``ImageFilter.GaussianBlur``: three box blurs, which come near a Gaussian.

    Attributes:
        radius: the standard deviation in pixels, or two: along rows and down columns.
    """

    op: ClassVar[str] = "pillow_gaussian_blur"
    phrase: ClassVar[str] = "blurred by Pillow, Gaussian, radius {radius}"
    kind: ClassVar[Kind] = Kind.GAUSSIAN_BLUR
    filter: ClassVar[type[Any]] = ImageFilter.GaussianBlur
    passes: ClassVar[int] = 3
    radius: Any


@dataclass(frozen=True, slots=True, eq=False)
class PillowBoxBlur(_Blur):
    """``ImageFilter.BoxBlur``: the mean of a square.

    Attributes:
        radius: pixels on each side, or two numbers: along rows and down columns.
    """

    op: ClassVar[str] = "pillow_box_blur"
    phrase: ClassVar[str] = "blurred by Pillow, box, radius {radius}"
    kind: ClassVar[Kind] = Kind.BOX_BLUR
    filter: ClassVar[type[Any]] = ImageFilter.BoxBlur
    passes: ClassVar[int] = 1
    radius: Any
