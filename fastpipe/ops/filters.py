"""Operations on a pixel's neighbourhood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from fastpipe import core
from fastpipe.kernels.filters import blur_weights
from fastpipe.ops.base import Operation, register
from fastpipe.ops.color import Enhancement
from fastpipe.ops.geometry import Crop
from fastpipe.types import Box, ImageShape

if TYPE_CHECKING:
    from fastpipe.core import Job


@register
@dataclass(frozen=True, slots=True, eq=False)
class GaussianBlur(Operation):
    """A weighted mean of the neighbourhood, through torch's float convolution in torchvision."""

    op: ClassVar[str] = "gaussian_blur"
    moves: ClassVar[bool] = False
    drops_info: ClassVar[bool] = True
    kernel_size: Any
    sigma: Any = None

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        """Not where torch adds up the convolution in another order than the core."""
        weights = None if self.sigma is None else blur_weights(self.kernel_size, self.sigma, *shape)
        if weights is not None:
            job.torch_blur(*weights)
        return weights is not None

    def words(self) -> str:
        sigmas = list(self.sigma) if isinstance(self.sigma, (list, tuple)) else [self.sigma]
        return "blurred" if None in sigmas else f"blurred, sigma {max(sigmas):.2f}"


@register
@dataclass(frozen=True, slots=True, eq=False)
class AdjustSharpness(Enhancement):
    """A blend with the smoothed image."""

    op: ClassVar[str] = "adjust_sharpness"
    phrase: ClassVar[str] = "sharpness x {sharpness_factor:.2f}"
    moves: ClassVar[bool] = False
    narrows: ClassVar[bool] = False
    kind: ClassVar[core.Kind] = core.Kind.SHARPNESS
    sharpness_factor: float

    def least_pixels(self, channels: int) -> float:
        return 0 if channels == 3 else 600

    def required_region(self, region: Box, shape: ImageShape) -> tuple[Box, tuple[Operation, ...]]:
        """A pixel's neighbours; the ring of pixels that stay is the image's where the region touches its edge."""
        top, left = max(region.top - 1, 0), max(region.left - 1, 0)
        bottom, right = min(region.bottom + 1, shape.height), min(region.right + 1, shape.width)
        needed = Box(top, left, bottom - top, right - left)
        if needed == region:
            return needed, (self,)
        return needed, (self, Crop(region.top - top, region.left - left, region.height, region.width))
