"""OpenCV's resize, as albumentations' transforms call it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from fastpipe.kernels import cv_resizing
from fastpipe.ops.base import OWN, Contract, Operation
from fastpipe.types import ImageShape

if TYPE_CHECKING:
    from fastpipe.core import Job


@dataclass(frozen=True, slots=True, eq=False)
class ResizeAsOpenCv(Operation):
    """OpenCV's resize by INTER_LINEAR of a uint8 array; only where `fastpipe.kernels.cv_resizing.is_known`.

    Attributes:
        height: of the result.
        width: of the result.
    """

    op: ClassVar[str] = "resize_as_opencv"
    phrase: ClassVar[str] = "resized to {height}x{width}"
    contract: ClassVar[Contract] = OWN
    takes_arrays_alone: ClassVar[bool] = True
    height: int
    width: int

    def apply(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return cv_resizing.resized(np.ascontiguousarray(image), self.height, self.width)

    def output_shape(self, shape: ImageShape) -> ImageShape:
        return ImageShape(self.height, self.width, shape.channels)

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        if shape.size == (self.height, self.width):
            return True
        if shape.size == (2 * self.height, 2 * self.width):
            return False
        job.resize_as_opencv(self.height, self.width)
        return True
