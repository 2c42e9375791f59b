"""Operations of Pillow's images that lazy images record and transforms don't draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fastpipe.kernels import resizing
from fastpipe.kernels.arrays import through_pillow
from fastpipe.ops import Operation
from fastpipe.types import Box, ImageShape, Size

if TYPE_CHECKING:
    from fastpipe.core import Job


@dataclass(frozen=True, slots=True, eq=False)
class PointTable(Operation):
    """Looks up each channel's values in its own table, as Pillow's ``point``.

    Attributes:
        entries: 256 values for each of three channels, one table after the other.
    """

    op: ClassVar[str] = "point"
    pointwise: ClassVar[bool] = True
    takes_arrays_alone: ClassVar[bool] = True
    entries: bytes

    def apply(self, image: Any) -> object:
        table = np.frombuffer(self.entries, np.uint8).reshape(3, 256)
        return np.stack([table[channel][image[..., channel]] for channel in range(3)], axis=-1)

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        if shape.channels != 3:
            return False
        job.look_up(self.entries)
        return True

    def __str__(self) -> str:
        return "point(table)"


def point_table(entries: Sequence[Any]) -> bytes:
    """A table's entries, which are any numbers, as Pillow's ``point`` reads them: rounded, and clipped to 0 to 255."""
    try:
        return bytes(entries)  # most tables are of whole numbers within the range
    except (TypeError, ValueError):
        return bytes([min(max(round(entry), 0), 255) for entry in entries])


@dataclass(frozen=True, slots=True, eq=False)
class BoxResize(Operation):
    """Makes a window of the result of Pillow's ``resize(size, resample, box)``.

    Attributes:
        whole: ``(height, width)`` of the whole image.
        part: the part of the image that is there.
        result: ``(height, width)`` of the resized image.
        window: the part of the resized image that is made.
        mode: the name of Pillow's filter, any but ``"nearest"``.
        box: left, top, right and bottom of the resize's source box in the whole image.
    """

    op: ClassVar[str] = "resize"
    takes_arrays_alone: ClassVar[bool] = True
    whole: Size
    part: Box
    result: Size
    window: Box
    mode: str
    box: tuple[float, float, float, float]

    @classmethod
    def of(cls, whole: Size, result: Size, mode: str, box: Sequence[float]) -> BoxResize | None:
        """Makes the operation; None if Pillow refuses the box, or rounds its sides."""
        left, top, right, bottom = map(float, np.asarray(box, np.float32))  # in float32, as Pillow has them
        if left < 0 or top < 0 or right > whole.width or bottom > whole.height or right <= left or bottom <= top:
            return None
        if any(np.float32(high - low) != high - low for low, high in ((left, right), (top, bottom))):
            return None
        return cls(whole, Box(0, 0, *whole), result, Box(0, 0, *result), mode, (left, top, right, bottom))

    def output_shape(self, shape: ImageShape) -> ImageShape:
        return ImageShape(self.window.height, self.window.width, shape.channels)

    def required_region(self, region: Box, shape: ImageShape) -> tuple[Box, tuple[Operation, ...]] | None:
        if self.part.size != self.whole:
            return None
        window = Box(self.window.top + region.top, self.window.left + region.left, region.height, region.width)
        left, top, right, bottom = self.box
        first, end = _range(self.whole.height, top, bottom, self.result.height, window.top, window.bottom, self.mode)
        start, stop = _range(self.whole.width, left, right, self.result.width, window.left, window.right, self.mode)
        part = Box(first, start, end - first, stop - start)
        return part, (BoxResize(self.whole, part, self.result, window, self.mode, self.box),)

    def apply(self, image: Any) -> object:
        place = self.whole, self.part, self.result, self.window, self.mode, self.box
        return through_pillow(image, lambda picture: resizing.window_by_pillow(picture, *place))

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        resizing.add_resize(job, self.whole, self.part[:2], self.result, self.window, self.mode, self.box)
        return True

    def __str__(self) -> str:
        box = ", ".join(f"{edge:g}" for edge in self.box)
        return f"resize(size=[{self.result.height}, {self.result.width}], interpolation={self.mode}, box=[{box}])"


def _range(size: int, low: float, high: float, new_size: int, start: int, stop: int, mode: str) -> tuple[int, int]:
    """`resizing.source_range` for a source box from ``low`` to ``high``, by Resample.c's ``precompute_coeffs``."""
    step = (high - low) / new_size
    reach = resizing.SUPPORTS[mode] * max(step, 1.0)
    first = int(low + (start + 0.5) * step - reach + 0.5)
    last = int(low + (stop - 0.5) * step + reach + 0.5)
    return max(min(first, size - 1), 0), min(max(last, 1), size)
