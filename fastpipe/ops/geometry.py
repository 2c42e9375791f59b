"""Crop, flip, pad and resize, with the part of the input that a part of their result needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fastpipe import core
from fastpipe.kernels import resizing
from fastpipe.ops.base import NEVER, Operation, interned_if_hashable, interned_once, on_array, register
from fastpipe.ops.interpolation import InterpolationMode
from fastpipe.ops.sizes import center_crop_box, height_and_width, padding_ltrb, resized_size
from fastpipe.ops.tensor_shape import TensorShape
from fastpipe.types import Box, Fill, ImageShape, Ints, Size, new_namedtuple

if TYPE_CHECKING:
    from fastpipe.core import Job

__all__ = [
    "CenterCrop",
    "Crop",
    "HFlip",
    "Pad",
    "Resize",
    "ResizeWindow",
    "Transpose",
    "VFlip",
    "center_crop_to",
    "crop_at",
    "makes_no_pixels",
    "pad_by",
    "resize_to",
]

_FILTERS = {int(filter): filter.name.lower() for filter in Image.Resampling}
_PADDINGS = ("constant", "edge", "reflect", "symmetric")


def resized(shape: ImageShape, size: tuple[int, ...]) -> ImageShape:
    """An image's shape with another ``(height, width, channels)`` and the same class and dtype."""
    if isinstance(shape, TensorShape):
        return TensorShape.of(size, shape.dtype, shape.pure, shape.ahead)
    shape_after: ImageShape = new_namedtuple(ImageShape, size)
    return shape_after


def _scaling(x: float, y: float, dx: float = 0, dy: float = 0) -> NDArray[np.float64]:
    return np.array([[x, 0, dx], [0, y, dy], [0, 0, 1]], dtype=np.float64)


@register
class Crop(Operation):
    """Cuts out a box; pixels outside of the image are black."""

    op: ClassVar[str] = "crop"
    phrase: ClassVar[str] = "cropped to {height}x{width} from row {top}, column {left}"
    moves_ahead: ClassVar[bool] = True
    least: ClassVar[tuple[float, float]] = (NEVER, NEVER)
    top: int
    left: int
    height: int
    width: int

    @property
    def box(self) -> Box:
        return Box(self.top, self.left, self.height, self.width)

    def as_crop(self, shape: ImageShape) -> Crop:
        """The crop itself; see `CenterCrop.as_crop`."""
        return self

    def output_shape(self, shape: ImageShape) -> ImageShape:
        size = self.height, self.width, shape[2]
        return new_namedtuple(ImageShape, size) if type(shape) is ImageShape else resized(shape, size)

    def required_region(self, region: Box, shape: ImageShape) -> tuple[Box, tuple[Operation, ...]] | None:
        top, left, height, width = region
        rows, columns, _ = shape
        top, left = top + self.top, left + self.left
        bottom, right = top + height, left + width
        if height < 1 or width < 1 or bottom <= 0 or right <= 0 or top >= rows or left >= columns:
            return None  # all of the box is outside of the image
        if top >= 0 and left >= 0 and bottom <= rows and right <= columns:
            return new_namedtuple(Box, (top, left, height, width)), ()
        first, begin, last, end = max(top, 0), max(left, 0), min(bottom, rows), min(right, columns)
        around = Margin([begin - left, first - top, right - end, bottom - last])
        return Box(first, begin, last - first, end - begin), (around,)

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        if not self.box.inside(shape.size) or min(self.box.size) < 1:
            return False
        job.crop(*self.box)
        return True

    def point_transform(self, shape: ImageShape) -> NDArray[np.float64]:
        return _scaling(1, 1, -self.left, -self.top)


@dataclass(frozen=True, slots=True, eq=False)
class WholeCrop(Crop):
    """The whole image as a copy; if other operations follow, it costs nothing."""

    phrase: ClassVar[str] = "copied"


@register
class CenterCrop(Operation):
    """Cuts out the middle; pixels outside of a smaller image are black."""

    op: ClassVar[str] = "center_crop"
    moves_ahead: ClassVar[bool] = True
    output_size: Ints

    def as_crop(self, shape: ImageShape) -> Crop:
        """The box as a `Crop` of an image of this shape; it extends beyond a smaller image."""
        return Crop(*center_crop_box(*shape.size, self.output_size))

    def keeps_info(self, shape: ImageShape) -> bool:
        return self.as_crop(shape).box.inside(shape.size)  # else it is padded

    def output_shape(self, shape: ImageShape) -> ImageShape:
        return resized(shape, (*height_and_width(self.output_size), shape.channels))

    def required_region(self, region: Box, shape: ImageShape) -> tuple[Box, tuple[Operation, ...]] | None:
        inner = self.as_crop(shape).required_region(region, shape)
        if inner is None or not inner[1]:
            return inner
        box, (around,) = inner
        assert isinstance(around, Margin)
        return box, (Pad(around.padding),)

    def point_transform(self, shape: ImageShape) -> NDArray[np.float64]:
        return self.as_crop(shape).point_transform(shape)

    def words(self) -> str:
        size = self.output_size
        return "cropped in the middle" if isinstance(size, int) else f"cropped to the middle {size[0]}x{size[-1]}"


@register
class HFlip(Operation):
    """Mirrors left and right."""

    op: ClassVar[str] = "hflip"
    phrase: ClassVar[str] = "mirrored left-right"
    narrows: ClassVar[bool] = False
    moves_ahead: ClassVar[bool] = True
    least: ClassVar[tuple[float, float]] = (20_000, 20_000)

    def required_region(self, region: Box, shape: ImageShape) -> tuple[Box, tuple[Operation, ...]]:
        return Box(region.top, shape.width - region.right, region.height, region.width), (self,)

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        job.flip()
        return True

    def point_transform(self, shape: ImageShape) -> NDArray[np.float64]:
        return _scaling(-1, 1, shape.width)


@register
class VFlip(Operation):
    """Mirrors top and bottom."""

    op: ClassVar[str] = "vflip"
    phrase: ClassVar[str] = "mirrored top-bottom"
    narrows: ClassVar[bool] = False
    moves_ahead: ClassVar[bool] = True
    least: ClassVar[tuple[float, float]] = (NEVER, NEVER)

    def required_region(self, region: Box, shape: ImageShape) -> tuple[Box, tuple[Operation, ...]]:
        return Box(shape.height - region.bottom, region.left, region.height, region.width), (self,)

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        job.flip_vertically()
        return True

    def point_transform(self, shape: ImageShape) -> NDArray[np.float64]:
        return _scaling(1, -1, 0, shape.height)


@dataclass(frozen=True, slots=True, eq=False)
class Transpose(Operation):
    """Swaps rows and columns of a uint8 array, for an image's EXIF orientation."""

    op: ClassVar[str] = "transpose"
    takes_arrays_alone: ClassVar[bool] = True
    phrase: ClassVar[str] = "rows and columns exchanged"
    narrows: ClassVar[bool] = False

    def apply(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return np.swapaxes(image, 0, 1)

    def output_shape(self, shape: ImageShape) -> ImageShape:
        return ImageShape(shape.width, shape.height, shape.channels)

    def required_region(self, region: Box, shape: ImageShape) -> tuple[Box, tuple[Operation, ...]]:
        return Box(region.left, region.top, region.width, region.height), (self,)

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        job.transpose()
        return True

    def point_transform(self, shape: ImageShape) -> NDArray[np.float64]:
        return np.array([[0, 1, 0], [1, 0, 0], [0, 0, 1]], dtype=np.float64)


@register
class Pad(Operation):
    """Adds a border; a negative width crops."""

    op: ClassVar[str] = "pad"
    drops_info: ClassVar[bool] = True
    rgbx_pad: ClassVar[int] = 255
    """The fourth byte of a constant border in Pillow's memory: 255 as in a colour."""
    padding: Ints
    fill: Fill = 0
    padding_mode: str = "constant"

    def least_pixels(self, channels: int) -> float:
        return NEVER if self.padding_mode == "constant" else 0

    def output_shape(self, shape: ImageShape) -> ImageShape:
        left, top, right, bottom = padding_ltrb(self.padding)
        return resized(shape, (top + shape.height + bottom, left + shape.width + right, shape.channels))

    def required_region(self, region: Box, shape: ImageShape) -> tuple[Box, tuple[Operation, ...]] | None:
        left, top, right, bottom = padding_ltrb(self.padding)
        if min(left, top, right, bottom) < 0:
            return None
        inner = Crop(-top, -left, *region.size).required_region(region, shape)
        if inner is None:
            return None
        constant = self.padding_mode == "constant"
        if not inner[1]:  # the crop removes all that is added; modes other than constant set the fourth byte to 255
            return inner[0], () if constant else (Pad(0, self.fill, self.padding_mode),)
        box, (around,) = inner
        assert isinstance(around, Margin)
        return (box, (type(self)(around.padding, self.fill, self.padding_mode),)) if constant else None

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        sides = padding_ltrb(self.padding)
        fill = list(self.fill) if isinstance(self.fill, (list, tuple)) else [self.fill]
        whole = [value for value in fill if isinstance(value, int) and 0 <= value <= 255]
        if len(whole) != len(fill) or len(fill) not in (1, shape.channels):
            return False
        if min(sides) < 0 or self.padding_mode not in _PADDINGS or max(sides) >= _WIDEST:
            return False
        if self.padding_mode in ("reflect", "symmetric") and max(sides) >= min(shape.size):
            return False
        fills = whole[0], whole[-2 % len(whole)], whole[-1]
        job.pad(*sides, _PADDINGS.index(self.padding_mode), fills, self.rgbx_pad)
        return True

    def point_transform(self, shape: ImageShape) -> NDArray[np.float64]:
        left, top, _, _ = padding_ltrb(self.padding)
        return _scaling(1, 1, left, top)

    def words(self) -> str:
        left, top, right, bottom = padding_ltrb(self.padding)
        same = left == top == right == bottom
        sides = str(left) if same else f"{left}, {top}, {right}, {bottom} (left, top, right, bottom)"
        return f"padded by {sides}" + ("" if self.padding_mode == "constant" else f", {self.padding_mode}")


_WIDEST = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Margin(Pad):
    """The black border of a crop that leaves the image: `Pad` with 0 in the fourth byte, as after Pillow's ``crop``."""

    rgbx_pad: ClassVar[int] = 0

    def apply(self, image: object) -> object:
        if not isinstance(image, Image.Image):
            return Pad.apply(self, image)
        left, top, right, bottom = padding_ltrb(self.padding)
        return image.crop((-left, -top, image.width + right, image.height + bottom))


@dataclass(frozen=True, slots=True, eq=False)
class ResizeWindow(Operation):
    """Makes a window of the result of `Resize`, from the part of the image that the window needs.

    Attributes:
        whole: ``(height, width)`` of the whole image.
        box: the part of the image that is there.
        result: ``(height, width)`` of the resized image.
        window: the part of the resized image that is made.
        mode: the interpolation's name.
        source: the part of the whole image that is resized: left, top, right and bottom; None for all of it.
    """

    op: ClassVar[str] = "resize"
    whole: Size
    box: Box
    result: Size
    window: Box
    mode: str
    source: tuple[float, float, float, float] | None = None

    @staticmethod
    def add(
        job: Job,
        whole: tuple[int, int] | None,
        origin: tuple[int, int],
        result: tuple[int, int],
        window: tuple[int, int, int, int],
        mode: str,
    ) -> bool:
        """Adds the resize to a job as `resizing.add_resize` does; False if the core doesn't have this resize."""
        resizing.add_resize(job, whole, origin, result, window, mode)
        return True

    @classmethod
    def of(cls, whole: Size, result: Size, window: Box, mode: str) -> ResizeWindow:
        """Makes the operation for a window, with the part of the image that the window needs."""
        top, bottom = resizing.source_range(whole.height, result.height, window.top, window.bottom, mode)
        left, right = resizing.source_range(whole.width, result.width, window.left, window.right, mode)
        return cls(whole, Box(top, left, bottom - top, right - left), result, window, mode)

    def apply(self, image: Image.Image | NDArray[np.uint8]) -> Image.Image | NDArray[np.uint8] | None:
        if isinstance(image, Image.Image):
            place = self.whole, self.box, self.result, self.window
            return resizing.window_by_pillow(image, *place, self.mode, self.source)
        return on_array(self, image)

    def output_shape(self, shape: ImageShape) -> ImageShape:
        return ImageShape(self.window.height, self.window.width, shape.channels)

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        return self.add(job, self.whole, self.box[:2], self.result, self.window, self.mode)

    def __str__(self) -> str:
        window = f"rows {self.window.top}–{self.window.bottom}, columns {self.window.left}–{self.window.right}"
        return f"resize(size=[{self.result.height}, {self.result.width}], interpolation={self.mode}), {window} alone"


@register
class Resize(Operation):
    """Resizes the image by one of Pillow's filters, antialiased."""

    op: ClassVar[str] = "resize"
    narrows: ClassVar[bool] = False
    windows: ClassVar[type[ResizeWindow]] = ResizeWindow
    size: Ints
    interpolation: InterpolationMode | int = InterpolationMode.BILINEAR
    max_size: int | None = None
    antialias: bool | None = None
    fixed: tuple[int, int] | None = field(init=False, repr=False)
    """Height and width of the result if they don't depend on the image; else None."""

    def __post_init__(self) -> None:
        size, fixed = self.size, None
        if isinstance(size, (list, tuple)) and len(size) == 2 and self.max_size is None:
            fixed = size[0], size[1]
        object.__setattr__(self, "fixed", fixed)  # frozen

    @property
    def mode(self) -> str:
        """The name of Pillow's filter for the interpolation: an `InterpolationMode` or one of Pillow's numbers."""
        given = self.interpolation
        if isinstance(given, int):
            return _FILTERS[given]
        name: str = given._value_  # faster than `value`, which is a function in Python
        return "nearest" if name == "nearest-exact" else name

    def returns_input(self, shape: ImageShape) -> bool:
        return self.output_shape(shape) == shape

    def least_pixels(self, channels: int) -> float:
        if self.mode == "nearest":  # its time depends on the size of the result
            least = (40_000 if channels == 3 else 16_000) if core.isa() == "avx512" else 180_000
            return 0 if self.fixed and self.fixed[0] * self.fixed[1] >= least else NEVER
        return 0 if self.fixed and self.fixed[0] * self.fixed[1] >= 3000 else 3000

    def output_shape(self, shape: ImageShape) -> ImageShape:
        if self.fixed:
            height, width = self.fixed
        else:
            height, width = resized_size(shape.height, shape.width, self.size, self.max_size)
        return resized(shape, (height, width, shape[2]))

    def required_region(self, region: Box, shape: ImageShape) -> tuple[Box, tuple[Operation, ...]] | None:
        rows, columns, _ = shape
        height, width, _ = self.output_shape(shape)
        if height == rows and width == columns:
            return region, ()
        if region == (0, 0, height, width) or rows < 1 or columns < 1:
            return None
        window = self.windows.of(shape.size, Size(height, width), region, self.mode)
        return window.box, (window,)

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        height, width, _ = self.output_shape(shape)
        if height < 1 or width < 1:
            return False
        return self.windows.add(job, None, (0, 0), (height, width), (0, 0, height, width), self.mode)

    def point_transform(self, shape: ImageShape) -> NDArray[np.float64]:
        height, width, _ = self.output_shape(shape)
        return _scaling(width / shape.width, height / shape.height)

    def words(self) -> str:
        sides = list(self.size) if isinstance(self.size, (list, tuple)) else [self.size]
        text = f"resized to {sides[0]}x{sides[1]}" if len(sides) == 2 else f"shorter side resized to {sides[0]}"
        if self.max_size is not None:
            text += f", longer to {self.max_size} at most"
        return text if self.mode == "bilinear" else f"{text} ({self.mode})"


def makes_no_pixels(operation: Operation, shape: ImageShape) -> bool:
    """True if the operation only moves pixels: each pixel of the result is a pixel of the input."""
    if isinstance(operation, (HFlip, VFlip)):
        return True
    if isinstance(operation, Crop):
        return operation.box.inside(shape.size)
    if isinstance(operation, CenterCrop):
        height, width, _ = operation.output_shape(shape)
        return height <= shape.height and width <= shape.width
    return False


# -- constructors for operations that are drawn again and again: interned if their arguments are hashable

_FEW_PLACES = 1024


def crop_at(top: int, left: int, height: int, width: int, places: int) -> Crop:
    """A crop that was drawn from `places` possible ones; interned if there are few."""
    return interned_once(Crop, top, left, height, width) if places <= _FEW_PLACES else Crop(top, left, height, width)


def center_crop_to(size: Ints) -> CenterCrop:
    """The interned crop of the middle."""
    return interned_if_hashable(CenterCrop, size)


def pad_by(padding: Ints, fill: Fill = 0, padding_mode: str = "constant") -> Pad:
    """The interned border."""
    return interned_if_hashable(Pad, padding, fill, padding_mode)


def resize_to(
    size: Ints, interpolation: InterpolationMode | int, max_size: int | None = None, antialias: bool | None = None
) -> Resize:
    """The interned resize."""
    return interned_if_hashable(Resize, size, interpolation, max_size, antialias)
