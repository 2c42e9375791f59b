"""Operations of torchvision's v2 that run on tensors, after the conversion, and conversions between classes of images.

A v2 pipeline may convert the image to a tensor first and resize the tensor, which gives other pixels than Pillow. So a
transform on a tensor draws a `TensorOperation`, which calls torchvision's function. If that only moves pixels, or maps
each value to another, the operation on pixels gives the same bytes: it runs before the conversion (`ahead_of`), and
only the pixels that it keeps are decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from fastpipe import result_memory
from fastpipe.kernels.arrays import through_pillow
from fastpipe.ops.base import Arguments, Operation, call, imported
from fastpipe.ops.conversion import ConvertImageDtype, Normalize, PilToTensor, ToTensor
from fastpipe.ops.geometry import CenterCrop, Crop, HFlip, Pad, VFlip, makes_no_pixels
from fastpipe.ops.sizes import padding_ltrb
from fastpipe.ops.tensor_shape import TensorShape
from fastpipe.types import Box, ImageShape, Step

_V2 = "fastpipe.tensor_kernels.v2_tensors"  # imported at its first use


@dataclass(frozen=True, slots=True, eq=False)
class ToImage(PilToTensor):
    """Converts ``(H, W, C)`` to ``(C, H, W)``, uint8, as a ``tv_tensors.Image``."""

    def apply(self, image: object) -> torch.Tensor:
        result: torch.Tensor = imported(_V2).functional("to_image")(image)
        return result

    def output_shape(self, shape: ImageShape) -> ImageShape:
        return TensorShape.of(shape, torch.uint8, pure=False, ahead=True)


@dataclass(frozen=True, slots=True, eq=False)
class ToFloatTensor(ToTensor):
    """v1's `ToTensor` in a v2 pipeline, whose result is known to be a plain tensor."""

    def output_shape(self, shape: ImageShape) -> ImageShape:
        return TensorShape.of(shape, torch.get_default_dtype(), pure=True, ahead=True)


@dataclass(frozen=True, slots=True, eq=False)
class ToPureTensor(Operation):
    """Converts a ``tv_tensors.Image`` to a plain tensor."""

    op: ClassVar[str] = "to_pure_tensor"
    phrase: ClassVar[str] = "a plain tensor"
    pointwise: ClassVar[bool] = True

    def apply(self, image: torch.Tensor) -> torch.Tensor:
        return image.as_subclass(torch.Tensor)

    def output_shape(self, shape: ImageShape) -> ImageShape:
        return TensorShape.of(shape, getattr(shape, "dtype", torch.uint8), True, getattr(shape, "ahead", True))


@dataclass(frozen=True, slots=True, eq=False)
class AsTvImage(ToPureTensor):
    """Converts a plain tensor to a ``tv_tensors.Image``."""

    op: ClassVar[str] = "as_tv_image"
    phrase: ClassVar[str] = "a tv_tensors.Image"

    def apply(self, image: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = image.as_subclass(imported("torchvision.tv_tensors").Image)
        return result

    def output_shape(self, shape: ImageShape) -> ImageShape:
        return TensorShape.of(shape, getattr(shape, "dtype", torch.uint8), False, getattr(shape, "ahead", True))


@dataclass(frozen=True, slots=True, eq=False)
class ToDtype(ConvertImageDtype):
    """Converts the dtype; scales by ``x * (1 / 255)``, which rounds otherwise than v1's division by 255."""

    op: ClassVar[str] = "to_dtype"
    scale: bool = False

    def apply(self, image: torch.Tensor) -> Any:
        size = tuple(image.shape)
        is_scaled = self.scale and self.dtype == torch.float32 and image.dtype == torch.uint8 and image.ndim == 3
        if not (is_scaled and image.is_contiguous() and result_memory.is_large(size, self.dtype)):
            return imported(_V2).functional("to_dtype")(image, self.dtype, self.scale)
        out = result_memory.fresh(size, self.dtype)
        for rows in result_memory.strips(image):  # torchvision's two operations, on as many rows as the cache holds
            out[:, rows].copy_(image[:, rows]).mul_(1.0 / 255)
        return out

    def output_shape(self, shape: ImageShape) -> ImageShape:
        return TensorShape.of(shape, self.dtype, getattr(shape, "pure", False))


@dataclass(frozen=True, slots=True, eq=False)
class FunctionOfV2(Operation):
    """One of torchvision's v2 functions.

    Attributes:
        name: the function's name.
        given: its keyword arguments.
    """

    name: str
    given: Arguments

    def words(self) -> str:
        return self.name.replace("_", " ")

    def arguments(self) -> Arguments:
        return dict(self.given)

    def __str__(self) -> str:
        return call(self.name, self.given)


@dataclass(frozen=True, slots=True, eq=False)
class PilOperation(FunctionOfV2):
    """One of torchvision's v2 functions without an operation here, applied to an array through a PIL image.

    Attributes:
        shape: the shape of the result.
    """

    op: ClassVar[str] = "v2_on_pil"
    takes_arrays_alone: ClassVar[bool] = True
    drops_info: ClassVar[bool] = True
    shape: ImageShape

    def apply(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return through_pillow(image, partial(imported(_V2).functional(self.name), **self.given))

    def output_shape(self, shape: ImageShape) -> ImageShape:
        return self.shape


@dataclass(frozen=True, slots=True, eq=False)
class TensorOperation(FunctionOfV2):
    """One of torchvision's v2 functions on a tensor ``(C, H, W)``.

    Attributes:
        size: height, width and channels of the result.
        like: the operation on pixels that does the same; it defines how points move and which region is needed.
        by_pixel: each pixel of the result depends on the same pixel of the input alone.
    """

    op: ClassVar[str] = "v2_on_tensor"
    size: tuple[int, int, int]
    like: Operation | None = None
    by_pixel: bool = False

    def apply(self, image: torch.Tensor) -> Any:
        result = imported(_V2).run(self.name, image.as_subclass(torch.Tensor), **self.given)
        if result is not None:
            return result
        return imported(_V2).functional(self.name)(image, **self.given)

    def output_shape(self, shape: ImageShape) -> ImageShape:
        return TensorShape.of(self.size, getattr(shape, "dtype", torch.uint8), getattr(shape, "pure", False))

    def required_region(self, region: Box, shape: ImageShape) -> tuple[Box, tuple[Operation, ...]] | None:
        if self.by_pixel:
            return region, (self,)
        if isinstance(self.like, Pad) and not _black(self.like):
            return None
        if isinstance(self.like, (Crop, CenterCrop, HFlip, VFlip, Pad)):
            return self.like.required_region(region, shape)
        return None

    def point_transform(self, shape: ImageShape) -> NDArray[np.float64] | None:
        if self.like is not None:
            return self.like.point_transform(shape)
        return np.eye(3) if self.size[:2] == shape[:2] else None

    def on_mask(self) -> Operation | None:
        return None if self.like is None else self.like.on_mask()

    def words(self) -> str:
        return FunctionOfV2.words(self) if self.like is None else self.like.words()


def _black(pad: Pad) -> bool:
    return pad.padding_mode == "constant" and pad.fill in (0, None) and min(padding_ltrb(pad.padding)) >= 0


def ahead_of(tail: Sequence[Step], shape: ImageShape) -> tuple[list[Operation], list[Step]]:
    """Finds the operations on a tensor that may run on pixels, before the conversion, with the same bytes.

    Args:
        tail: the conversion to a tensor, and the steps after it.
        shape: the image's shape at the conversion.

    Returns:
        The operations to run before the conversion; and the conversion with the remaining steps.
    """
    before: list[Operation] = []
    kept: list[Step] = [tail[0]]
    for step in tail[1:]:
        like = step.like if isinstance(step, TensorOperation) else None
        if like is not None and _commutes(like, shape, kept[1:]):
            before.append(like)
        else:
            kept.append(step)
        shape = ImageShape(*step.output_shape(shape))
    return before, kept


def _commutes(like: Operation, shape: ImageShape, others: Sequence[Step]) -> bool:
    """True if an operation on pixels gives the same result before the other steps as after them."""
    if makes_no_pixels(like, shape):
        return all(isinstance(one, (ToDtype, Normalize, ToPureTensor)) for one in others)
    black = isinstance(like, (Crop, CenterCrop)) or (isinstance(like, Pad) and _black(like))
    return black and all(isinstance(one, (ToDtype, ToPureTensor)) for one in others)
