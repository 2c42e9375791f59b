"""Colour operations: most work on one pixel at a time, some on the image's statistics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from fastpipe import core
from fastpipe.kernels import color as kernels
from fastpipe.ops.base import NEVER, Operation, register
from fastpipe.types import ImageShape

if TYPE_CHECKING:
    from fastpipe.core import Job


def _constant(values: object) -> NDArray[np.uint8]:
    """A read-only table, shared by all images of an operation."""
    table: NDArray[np.uint8] = np.array(values, np.uint8)
    table.flags.writeable = False
    return table


_LEVELS = np.arange(256)
_NEGATIVE = _constant(255 - _LEVELS)
_LEVELS32 = _LEVELS.astype(np.float32)
_POSTERIZED = {bits: _constant(_LEVELS & (256 - (1 << (8 - bits)))) for bits in range(1, 9)}


class TableOperation(Operation):
    """An operation that maps each uint8 value to another, if `Operation.table` returns a table for its arguments."""

    __slots__ = ()

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        table = self.table()
        if table is None:
            return False
        job.look_up(table.tobytes() * shape.channels, self.table_rgbx_pad())
        return True

    def table_rgbx_pad(self) -> int:
        """The value of the fourth byte of Pillow's RGB pixels after the look-up.

        0 as after ``Image.point``; `LOOK_UP_RGBX_PAD` if Pillow's function changes that byte like a channel.
        """
        return 0


@register
class AdjustBrightness(TableOperation):
    """Multiplies pixels by a factor."""

    op: ClassVar[str] = "adjust_brightness"
    phrase: ClassVar[str] = "brightness x {brightness_factor:.2f}"
    pointwise: ClassVar[bool] = True
    drops_info: ClassVar[bool] = True
    least: ClassVar[tuple[float, float]] = (5000, 18_000)
    brightness_factor: float

    def table(self) -> NDArray[np.uint8] | None:
        if not self.brightness_factor >= 0:
            return None
        # float32, truncated: equal to Pillow's blend with black.
        table: NDArray[np.uint8] = np.minimum(np.float32(self.brightness_factor) * _LEVELS32, 255).astype(np.uint8)
        return table

    def table_rgbx_pad(self) -> int:
        return core.LOOK_UP_RGBX_PAD  # Image.blend has four channels


class Enhancement(Operation):
    """One of Pillow's enhancements: blends the image with a version of itself; the one field is the factor.

    Attributes:
        kind: the core's operation.
    """

    __slots__ = ()
    __match_args__: ClassVar[tuple[str]]
    kind: ClassVar[core.Kind]

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        factor = getattr(self, self.__match_args__[0])
        if not abs(factor) <= _LARGEST_FACTOR:
            return False
        job.blend(self.kind, factor)
        return True


_LARGEST_FACTOR = 3e38  # the core's factors are float32, whose maximum is 3.4e38


@register
class AdjustContrast(Enhancement):
    """Blends with the mean of the gray image."""

    op: ClassVar[str] = "adjust_contrast"
    phrase: ClassVar[str] = "contrast x {contrast_factor:.2f}"
    moves: ClassVar[bool] = False
    kind: ClassVar[core.Kind] = core.Kind.CONTRAST
    drops_info: ClassVar[bool] = True
    contrast_factor: float


@register
class AdjustSaturation(Enhancement):
    """Blends with the gray image."""

    op: ClassVar[str] = "adjust_saturation"
    phrase: ClassVar[str] = "saturation x {saturation_factor:.2f}"
    pointwise: ClassVar[bool] = True
    kind: ClassVar[core.Kind] = core.Kind.SATURATION
    least: ClassVar[tuple[float, float]] = (2500, NEVER)
    saturation_factor: float


@register
class AdjustHue(Operation):
    """Shifts the hues on the colour circle."""

    op: ClassVar[str] = "adjust_hue"
    phrase: ClassVar[str] = "hue shifted by {hue_factor:+.3f}"
    pointwise: ClassVar[bool] = True
    drops_info: ClassVar[bool] = True
    hue_factor: float

    def returns_input(self, shape: ImageShape) -> bool:
        return shape.channels == 1

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        if not -0.5 <= self.hue_factor <= 0.5:
            return False
        job.turn_hue(int(self.hue_factor * 255) % 256)
        return True


@register
class AdjustGamma(TableOperation):
    """Raises pixels to a power."""

    op: ClassVar[str] = "adjust_gamma"
    pointwise: ClassVar[bool] = True
    gamma: float
    gain: float = 1.0

    def table(self) -> NDArray[np.uint8] | None:
        return _gamma_table(self.gamma, self.gain) if self.gamma >= 0 else None

    def words(self) -> str:
        return f"gamma {self.gamma:.2f}" + ("" if self.gain == 1 else f", gain {self.gain:.2f}")


@lru_cache(maxsize=64)
def _gamma_table(gamma: float, gain: float) -> NDArray[np.uint8]:
    """``255.999 * gain * (value / 255) ** gamma``, rounded down, as torchvision's table for PIL images.

    Cached, because Python's exact powers take as long as the look-up of a small image; therefore read-only.
    """
    values = [int((255 + 1 - 1e-3) * gain * pow(level / 255.0, gamma)) for level in range(256)]
    return _constant(np.clip(values, 0, 255))


@register
class Invert(TableOperation):
    """Makes the negative."""

    op: ClassVar[str] = "invert"
    phrase: ClassVar[str] = "inverted"
    pointwise: ClassVar[bool] = True

    def table(self) -> NDArray[np.uint8]:
        return _NEGATIVE


@register
class Posterize(TableOperation):
    """Keeps the upper bits of each value."""

    op: ClassVar[str] = "posterize"
    phrase: ClassVar[str] = "posterized to {bits} bits"
    pointwise: ClassVar[bool] = True
    bits: int

    def table(self) -> NDArray[np.uint8] | None:
        return _POSTERIZED.get(self.bits) if isinstance(self.bits, int) else None  # Pillow decides about other types


@register
class Solarize(TableOperation):
    """Inverts values at or above a threshold."""

    op: ClassVar[str] = "solarize"
    phrase: ClassVar[str] = "solarized from {threshold:.0f}"
    pointwise: ClassVar[bool] = True
    threshold: float

    def table(self) -> NDArray[np.uint8]:
        return np.where(self.threshold > _LEVELS, 255 - _NEGATIVE, _NEGATIVE)


@register
class Autocontrast(Operation):
    """Stretches each channel from its darkest to its lightest value."""

    op: ClassVar[str] = "autocontrast"
    phrase: ClassVar[str] = "contrast stretched"
    moves: ClassVar[bool] = False

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        job.autocontrast()
        return True


@register
class Equalize(Operation):
    """Equalizes each channel's histogram."""

    op: ClassVar[str] = "equalize"
    phrase: ClassVar[str] = "histogram equalized"
    moves: ClassVar[bool] = False

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        job.equalize()
        return True


@register
class RgbToGrayscale(Operation):
    """Converts to gray, in one channel or three equal ones."""

    op: ClassVar[str] = "rgb_to_grayscale"
    phrase: ClassVar[str] = "made gray"
    pointwise: ClassVar[bool] = True
    least: ClassVar[tuple[float, float]] = (8000, NEVER)
    num_output_channels: int = 1

    def keeps_info(self, shape: ImageShape) -> bool:
        return self.num_output_channels == 1

    def least_pixels(self, channels: int) -> float:
        return self.least[channels != 3] if self.num_output_channels == 1 else 0

    def output_shape(self, shape: ImageShape) -> ImageShape:
        return ImageShape(shape.height, shape.width, self.num_output_channels)

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        if self.num_output_channels not in (1, 3):
            return False
        job.gray(self.num_output_channels)
        return True


@dataclass(frozen=True, slots=True, eq=False)
class LookUp(TableOperation):
    """Consecutive table operations as one look-up in their composed table.

    Attributes:
        operations: the operations in order; each has a `table`.
    """

    op: ClassVar[str] = "look_up"
    pointwise: ClassVar[bool] = True
    operations: tuple[TableOperation, ...]

    def apply(self, image: object) -> object:
        if isinstance(image, np.ndarray):
            return kernels.apply_table(image, self.table())
        for operation in self.operations:
            image = operation.apply(image)
        return image

    def table(self) -> NDArray[np.uint8]:
        composed = np.arange(256, dtype=np.uint8)
        for operation in self.operations:
            table = operation.table()
            assert table is not None
            composed = table[composed]
        return composed

    def table_rgbx_pad(self) -> int:
        looked_up = all(operation.table_rgbx_pad() == core.LOOK_UP_RGBX_PAD for operation in self.operations)
        return core.LOOK_UP_RGBX_PAD if looked_up else 0  # a blend with black leaves 0

    def words(self) -> str:
        return ", ".join(operation.words() for operation in self.operations)

    def __str__(self) -> str:
        return "+".join(map(str, self.operations))
