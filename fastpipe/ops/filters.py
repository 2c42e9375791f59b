"""Neighbourhood operations: torchvision's, and Pillow's own blurs, which torchvision doesn't have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from PIL import Image, ImageFilter

from fastpipe import core
from fastpipe.kernels.arrays import UInt8Array, through_pillow
from fastpipe.ops.base import Operation, register
from fastpipe.ops.color import Enhancement
from fastpipe.ops.geometry import Crop
from fastpipe.tensor_kernels.filters import blur_arguments, blur_weights, gaussian_kernel_1d, gaussian_kernel_1d_of_v2
from fastpipe.tensor_kernels.v2_tensors import functional
from fastpipe.types import Box, Floats, ImageShape

if TYPE_CHECKING:
    from fastpipe.core import Job


@register
class GaussianBlur(Operation):
    """Blurs by a weighted mean of the neighbourhood; torchvision computes it by torch's float convolution."""

    op: ClassVar[str] = "gaussian_blur"
    moves: ClassVar[bool] = False
    drops_info: ClassVar[bool] = True
    _weights_of = staticmethod(gaussian_kernel_1d)
    kernel_size: Sequence[int] | int
    sigma: Sequence[float] | float | None = None

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        """Adds the blur; False if torch adds up the convolution in another order, or torchvision refuses it."""
        arguments = blur_arguments(self.kernel_size, self.sigma)
        weights = None if arguments is None else blur_weights(*arguments, *shape, self._weights_of)
        if weights is not None:
            job.torch_blur(*weights)
        return weights is not None

    def words(self) -> str:
        arguments = blur_arguments(self.kernel_size, self.sigma)
        return "blurred" if arguments is None else f"blurred, sigma {max(arguments[1]):.2f}"


@dataclass(frozen=True, slots=True, eq=False)
class GaussianBlurOfV2(GaussianBlur):
    """`GaussianBlur` with the weights as torchvision's v2 computes them, and its arguments; for uint8 arrays only."""

    _weights_of = staticmethod(gaussian_kernel_1d_of_v2)
    takes_arrays_alone: ClassVar[bool] = True

    def apply(self, image: UInt8Array) -> UInt8Array:
        return through_pillow(image, partial(functional("gaussian_blur"), **self.arguments()))


@register
class AdjustSharpness(Enhancement):
    """Blends with the smoothed image."""

    op: ClassVar[str] = "adjust_sharpness"
    phrase: ClassVar[str] = "sharpness x {sharpness_factor:.2f}"
    moves: ClassVar[bool] = False
    narrows: ClassVar[bool] = False
    kind: ClassVar[core.Kind] = core.Kind.SHARPNESS
    least: ClassVar[tuple[float, float]] = (0, 600)
    sharpness_factor: float

    def required_region(self, region: Box, shape: ImageShape) -> tuple[Box, tuple[Operation, ...]]:
        """Needs each pixel's direct neighbours; the image's outermost pixels stay as they are in the region, too."""
        return _with_neighbours(self, region, shape, 1, 1)


# -- Pillow's own blurs

_LARGEST_RADIUS = 1 << 20  # the core's limit


def radii_of(radius: object) -> tuple[float, float] | None:
    """A blur's horizontal and vertical radius, from a number or a tuple of two.

    None if Pillow has to decide, for example about a list, which the user may still change.
    """
    given = radius if isinstance(radius, tuple) else (radius, radius)
    if len(given) != 2 or not all(isinstance(one, (int, float)) and 0 <= one <= _LARGEST_RADIUS for one in given):
        return None
    return given[0], given[1]


class _PillowBlur(Operation):
    """Pillow's extended box blur, in integer arithmetic.

    Attributes:
        kind: the core's operation.
        filter: Pillow's filter class.
        passes: the number of passes, each of which rounds.
    """

    __slots__ = ()
    moves: ClassVar[bool] = False
    narrows: ClassVar[bool] = False
    kind: ClassVar[core.Kind]
    filter: ClassVar[type[ImageFilter.GaussianBlur | ImageFilter.BoxBlur]]
    passes: ClassVar[int]
    radius: Floats

    def apply(self, image: Image.Image | UInt8Array) -> Image.Image | UInt8Array:
        """Applies Pillow's filter to a PIL image, or to a uint8 array ``(H, W, C)`` with 1 or 3 channels."""

        def blurred(picture: Image.Image) -> Image.Image:
            return picture.filter(self.filter(self.radius))

        return blurred(image) if isinstance(image, Image.Image) else through_pillow(image, blurred)

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        radii = radii_of(self.radius)
        if radii is None:
            return False
        job.blur(self.kind, *radii)
        return True

    def required_region(self, region: Box, shape: ImageShape) -> tuple[Box, tuple[Operation, ...]] | None:
        """Needs the pixels within reach of all passes; each box of a Gaussian blur is no wider than its radius."""
        radii = radii_of(self.radius)
        if radii is None:
            return None
        x, y = (self.passes * (int(radius) + 2) if radius else 0 for radius in radii)
        return _with_neighbours(self, region, shape, x, y)


@dataclass(frozen=True, slots=True, eq=False)
class PillowGaussianBlur(_PillowBlur):
    """``ImageFilter.GaussianBlur``: three box blurs that approximate a Gaussian.

    Attributes:
        radius: the standard deviation in pixels, or a horizontal and a vertical one.
    """

    op: ClassVar[str] = "pillow_gaussian_blur"
    phrase: ClassVar[str] = "blurred by Pillow, Gaussian, radius {radius}"
    kind: ClassVar[core.Kind] = core.Kind.GAUSSIAN_BLUR
    filter: ClassVar[type[ImageFilter.GaussianBlur | ImageFilter.BoxBlur]] = ImageFilter.GaussianBlur
    passes: ClassVar[int] = 3
    radius: Floats


@dataclass(frozen=True, slots=True, eq=False)
class PillowBoxBlur(_PillowBlur):
    """``ImageFilter.BoxBlur``: the mean of a square.

    Attributes:
        radius: pixels on each side, or a horizontal and a vertical number.
    """

    op: ClassVar[str] = "pillow_box_blur"
    phrase: ClassVar[str] = "blurred by Pillow, box, radius {radius}"
    kind: ClassVar[core.Kind] = core.Kind.BOX_BLUR
    filter: ClassVar[type[ImageFilter.GaussianBlur | ImageFilter.BoxBlur]] = ImageFilter.BoxBlur
    passes: ClassVar[int] = 1
    radius: Floats


def _with_neighbours(
    operation: Operation, region: Box, shape: ImageShape, x: int, y: int
) -> tuple[Box, tuple[Operation, ...]]:
    """`Operation.required_region` for pixels that depend on others up to ``x`` columns and ``y`` rows away."""
    top, left = max(region.top - y, 0), max(region.left - x, 0)
    bottom, right = min(region.bottom + y, shape.height), min(region.right + x, shape.width)
    needed = Box(top, left, bottom - top, right - left)
    if needed == region:
        return needed, (operation,)
    return needed, (operation, Crop(region.top - top, region.left - left, region.height, region.width))
