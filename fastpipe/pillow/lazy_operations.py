"""The operations that only calls of Pillow's methods record; transforms draw none of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fastpipe.kernels import resizing
from fastpipe.ops import Operation, ResizeWindow
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
class BoxResize(ResizeWindow):
    """Pillow's ``resize(size, resample, box)`` by any filter but ``"nearest"``; the box is ``source``."""

    @classmethod
    def from_box(cls, whole: Size, result: Size, mode: str, box: Sequence[float]) -> BoxResize | None:
        """Makes the operation; None if Pillow refuses the box, or rounds its sides."""
        left, top, right, bottom = map(float, np.asarray(box, np.float32))  # in float32, as Pillow has them
        if left < 0 or top < 0 or right > whole.width or bottom > whole.height or right <= left or bottom <= top:
            return None
        if any(np.float32(high - low) != high - low for low, high in ((left, right), (top, bottom))):
            return None
        return cls(whole, Box(0, 0, *whole), result, Box(0, 0, *result), mode, (left, top, right, bottom))

    def required_region(self, region: Box, shape: ImageShape) -> tuple[Box, tuple[Operation, ...]] | None:
        if self.box.size != self.whole:
            return None
        assert self.source is not None
        left, top, right, bottom = self.source
        window = Box(self.window.top + region.top, self.window.left + region.left, region.height, region.width)
        rows = self.whole.height, self.result.height, window.top, window.bottom
        columns = self.whole.width, self.result.width, window.left, window.right
        first, end = resizing.source_range(*rows, self.mode, (top, bottom))
        start, stop = resizing.source_range(*columns, self.mode, (left, right))
        part = Box(first, start, end - first, stop - start)
        return part, (BoxResize(self.whole, part, self.result, window, self.mode, self.source),)

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        resizing.add_resize(job, self.whole, self.box[:2], self.result, self.window, self.mode, self.source)
        return True

    def __str__(self) -> str:
        assert self.source is not None
        box = ", ".join(f"{edge:g}" for edge in self.source)
        return f"resize(size=[{self.result.height}, {self.result.width}], interpolation={self.mode}, box=[{box}])"
