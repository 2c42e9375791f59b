"""Rotation, affine, perspective and elastic warps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from fastpipe.core import Kind
from fastpipe.kernels import warp as kernels
from fastpipe.kernels.arrays import through_pillow
from fastpipe.ops.base import NEVER, Operation, register
from fastpipe.ops.interpolation import InterpolationMode, pil_modes_mapping
from fastpipe.ops.matrices import inverse_affine_matrix, inverse_affine_matrix_of_v2, perspective_coeffs
from fastpipe.tensor_kernels.v2_tensors import functional
from fastpipe.types import Fill, ImageShape

if TYPE_CHECKING:
    from fastpipe.core import Job


def _takes(operation: Rotate | Affine | PerspectiveBy, shape: ImageShape) -> bool:
    """True if the core takes the interpolation and the fill; for invalid ones the functional raises."""
    fill, mode = operation.fill, operation.interpolation
    values = len(fill) if isinstance(fill, (list, tuple)) else 1
    return isinstance(mode, InterpolationMode) and mode.value in kernels.FILTERS and values in (1, shape.channels)


_NEAREST = InterpolationMode.NEAREST, InterpolationMode.NEAREST_EXACT


def least_pixels_of_warp(interpolation: InterpolationMode, channels: int) -> float:
    """`Operation.least_pixels` of a rotation, of an affine warp that turns or shears, or of a perspective."""
    if interpolation in _NEAREST:
        return 40_000 if channels == 3 else NEVER
    return 2000 if channels == 3 else 6000


def _turned(degrees: float) -> str:
    return f"turned {abs(degrees):.1f}° {'counter-clockwise' if degrees > 0 else 'clockwise'}"


@register
class Rotate(Operation):
    """Turns the image counter-clockwise, by degrees."""

    op: ClassVar[str] = "rotate"
    angle: float
    interpolation: InterpolationMode = InterpolationMode.NEAREST
    expand: bool = False
    center: Sequence[int] | None = None
    fill: Fill = None

    def least_pixels(self, channels: int) -> float:
        return least_pixels_of_warp(self.interpolation, channels)

    def output_shape(self, shape: ImageShape) -> ImageShape:
        if not self.expand:
            return shape
        *_, height, width = kernels.rotation(*shape.size, self.angle, self.expand, self.center)
        return ImageShape(height, width, shape.channels)

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        mode, size = self.interpolation, shape.size
        return _takes(self, shape) and kernels.add_rotation(
            job, size, self.angle, mode.value, self.expand, self.center, self.fill
        )

    def point_transform(self, shape: ImageShape) -> NDArray[np.float64]:
        moved = Affine(-self.angle, [0, 0], 1.0, 0.0, center=self.center).point_transform(shape)
        if self.expand:
            result = self.output_shape(shape)
            corners = moved @ np.array([[0, shape.width, 0, shape.width], [0, 0, shape.height, shape.height], [1] * 4])
            middle = (corners.min(1) + corners.max(1)) / 2
            moved[:2, 2] += result.width / 2 - middle[0], result.height / 2 - middle[1]
        return moved

    def words(self) -> str:
        return _turned(self.angle)


@register
class Affine(Operation):
    """Turns clockwise by degrees, shifts by pixels, scales, and shears by degrees, about a centre."""

    op: ClassVar[str] = "affine"
    _matrix_of = staticmethod(inverse_affine_matrix)
    angle: float
    translate: Sequence[float]
    scale: float
    shear: float | Sequence[float]
    interpolation: InterpolationMode = InterpolationMode.NEAREST
    fill: Fill = None
    center: Sequence[int] | None = None

    def least_pixels(self, channels: int) -> float:
        if self.interpolation not in _NEAREST or self.angle or any(self._shears()):
            return least_pixels_of_warp(self.interpolation, channels)
        # Without turning and shearing Pillow moves whole pixels; without scaling the core moves whole rows.
        return 100_000 if self.scale == 1 else NEVER

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        if not _takes(self, shape) or self.scale <= 0:
            return False
        matrix = self.matrix(shape, inverted=True)
        return kernels.add_warp(job, Kind.AFFINE, shape.size, matrix, self.interpolation.value, self.fill)

    def matrix(self, shape: ImageShape, inverted: bool) -> list[float]:
        """The first two rows of the matrix on ``(x, y, 1)``, or of its inverse."""
        shear = self._shears()
        return self._matrix_of(
            [shape.width * 0.5, shape.height * 0.5] if self.center is None else self.center,
            self.angle,
            self.translate,
            self.scale,
            shear if len(shear) > 1 else [shear[0], shear[0]],
            inverted,
        )

    def _shears(self) -> Sequence[float]:
        return self.shear if isinstance(self.shear, Sequence) else [self.shear, 0.0]

    def point_transform(self, shape: ImageShape) -> NDArray[np.float64]:
        return np.array([*self.matrix(shape, inverted=False), 0, 0, 1]).reshape(3, 3)

    def words(self) -> str:
        parts = [_turned(-self.angle)] if self.angle else []
        if any(self.translate):
            parts.append(f"shifted by {self.translate[0]:g}, {self.translate[1]:g} px")
        if self.scale != 1:
            parts.append(f"scaled x {self.scale:.3g}")
        shears = list(self.shear) if isinstance(self.shear, (list, tuple)) else [self.shear]
        if any(shears):
            parts.append("sheared by " + ", ".join(f"{degrees:.1f}°" for degrees in shears))
        return ", ".join(parts) or "affine, nothing moved"


def _mode_of_v2(mode: InterpolationMode) -> object:
    """torchvision's mode, as older versions don't take its name."""
    mode_of_v2: object = functional("InterpolationMode")(mode.value)
    return mode_of_v2


@dataclass(frozen=True, slots=True, eq=False)
class AffineOfV2(Affine):
    """`Affine` with the matrix as torchvision's v2 computes it."""

    _matrix_of = staticmethod(inverse_affine_matrix_of_v2)
    takes_arrays_alone: ClassVar[bool] = True

    def apply(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        given = {**self.arguments(), "interpolation": _mode_of_v2(self.interpolation)}
        return through_pillow(image, partial(functional("affine"), **given))


@dataclass(frozen=True, slots=True, eq=False)
class AffineBy(Operation):
    """Pillow's ``Image.transform`` with the matrix from new pixels to old ones; for uint8 arrays only."""

    op: ClassVar[str] = "affine_by"
    takes_arrays_alone: ClassVar[bool] = True
    _method: ClassVar[Image.Transform] = Image.Transform.AFFINE
    _kind: ClassVar[Kind] = Kind.AFFINE
    matrix: tuple[float, ...]
    interpolation: InterpolationMode
    fill: float | tuple[float, ...] | None = None

    def apply(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        resample = pil_modes_mapping[self.interpolation]

        def warped(picture: Image.Image) -> Image.Image:
            return picture.transform(picture.size, self._method, self.matrix, resample, fillcolor=self.fill)

        return through_pillow(image, warped)

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        fill, mode = self.fill, self.interpolation.value
        whole = fill is None or (isinstance(fill, (list, tuple)) and len(fill) == shape.channels)
        if not whole or mode not in kernels.FILTERS:
            return False
        rgbx_pad = 0 if fill is None else 255
        return kernels.add_warp(job, self._kind, shape.size, self.matrix, mode, fill, rgbx_pad)

    def point_transform(self, shape: ImageShape) -> NDArray[np.float64]:
        back = np.array([*self.matrix, 0, 0, 1], dtype=np.float64)
        return np.linalg.inv(back.reshape(3, 3)).astype(np.float64)

    def words(self) -> str:
        _, b, c, d, _, f = self.matrix
        shears = [f"{share:.2f}" for share in (b, d) if share]
        if shears:
            return "sheared by " + ", ".join(shears)
        return f"shifted by {-c:g}, {-f:g} px"


@dataclass(frozen=True, slots=True, eq=False)
class PillowPerspective(AffineBy):
    """Pillow's ``Image.transform`` with eight coefficients from new pixels to old ones; for uint8 arrays only."""

    op: ClassVar[str] = "perspective"
    _method: ClassVar[Image.Transform] = Image.Transform.PERSPECTIVE
    _kind: ClassVar[Kind] = Kind.PERSPECTIVE

    def point_transform(self, shape: ImageShape) -> NDArray[np.float64]:
        return PerspectiveBy(self.matrix).point_transform(shape)

    def words(self) -> str:
        return PerspectiveBy.phrase


@register
class Perspective(Operation):
    """Warps the image so that four points ``(x, y)`` move to four others."""

    op: ClassVar[str] = "perspective"
    startpoints: list[list[int]]
    endpoints: list[list[int]]
    interpolation: InterpolationMode = InterpolationMode.BILINEAR
    fill: Fill = None

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        coefficients = perspective_coeffs(self.startpoints, self.endpoints)
        return PerspectiveBy(coefficients, self.interpolation, self.fill).to_core(job, shape)

    def point_transform(self, shape: ImageShape) -> NDArray[np.float64]:
        return np.append(perspective_coeffs(self.endpoints, self.startpoints), 1.0).reshape(3, 3)

    def words(self) -> str:
        pairs = zip(self.startpoints, self.endpoints, strict=True)
        moved = [max(abs(a - b) for a, b in zip(start, end, strict=True)) for start, end in pairs]
        return f"perspective, corners moved by up to {max(moved)} px"


@register
class ElasticTransform(Operation):
    """Moves each pixel by its own displacement."""

    op: ClassVar[str] = "elastic_transform"
    phrase: ClassVar[str] = "warped elastically"
    drops_info: ClassVar[bool] = True
    displacement: Tensor
    interpolation: InterpolationMode = InterpolationMode.BILINEAR
    fill: Fill = None

    def point_transform(self, shape: ImageShape) -> None:
        return None


@dataclass(frozen=True, slots=True, eq=False)
class PerspectiveBy(Operation):
    """`Perspective` with the eight coefficients from new pixels to old ones, as v2 draws it; for uint8 arrays only."""

    op: ClassVar[str] = "perspective"
    phrase: ClassVar[str] = "seen in perspective"
    takes_arrays_alone: ClassVar[bool] = True
    coefficients: Sequence[float]
    interpolation: InterpolationMode = InterpolationMode.BILINEAR
    fill: Fill = None

    def least_pixels(self, channels: int) -> float:
        return least_pixels_of_warp(self.interpolation, channels)

    def apply(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        mode, coefficients = _mode_of_v2(self.interpolation), self.coefficients
        warp = functional("perspective")
        return through_pillow(image, lambda picture: warp(picture, None, None, mode, self.fill, coefficients))

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        mode, fill = self.interpolation, self.fill
        return _takes(self, shape) and kernels.add_warp(
            job, Kind.PERSPECTIVE, shape.size, self.coefficients, mode.value, fill
        )

    def point_transform(self, shape: ImageShape) -> NDArray[np.float64]:
        return np.linalg.inv(np.append(self.coefficients, 1.0).reshape(3, 3))
