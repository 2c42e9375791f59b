"""torchvision's tensor backend on uint8 images, as operations on pixels ``(H, W, C)`` before the conversion.

A v2 pipeline that begins with ``ToImage`` computes with tensors, whose bytes differ from Pillow's. These operations run
before the conversion to a tensor, so that the core makes a sample from its file, and give the tensor's bytes. They run
in the core, which has torch's arithmetic (`fastpipe.tensor_kernels.v2_tensors` finds out how this torch rounds), or by
torchvision's own function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
import torch

from fastpipe import core
from fastpipe.kernels.arrays import UInt8Array, by_core, channels
from fastpipe.ops.after_tensor import FunctionOfV2
from fastpipe.ops.base import Arguments, Operation, on_array_by_core
from fastpipe.ops.color import LookUp
from fastpipe.ops.filters import GaussianBlurOfV2
from fastpipe.ops.geometry import CenterCrop, Crop, Pad, Resize, ResizeWindow, makes_no_pixels, resized
from fastpipe.ops.interpolation import InterpolationMode
from fastpipe.tensor_kernels.v2_tensors import (
    COLORS,
    FILTERS,
    SAMPLE_FILTERS,
    Warp,
    affine,
    color_call,
    contrast_table,
    functional,
    fused,
    quarter_turns,
    rotation,
    samples_affine,
)
from fastpipe.types import Box, ImageShape, Step

if TYPE_CHECKING:
    from fastpipe.core import Job

Pixels: TypeAlias = "UInt8Array | torch.Tensor"
_MOST_SUM = 1 << 24
"""Up to this value float32 holds sums of integers exactly, in whatever order torch adds them up."""


def as_theirs(given: Arguments) -> Arguments:
    """Keyword arguments with the interpolation converted to torchvision's."""
    mode = given.get("interpolation")
    if not isinstance(mode, InterpolationMode):
        return given
    return {**given, "interpolation": functional("InterpolationMode")(mode.value)}


def _by_torchvision(image: UInt8Array, name: str, given: Arguments) -> UInt8Array:
    planar = torch.from_numpy(np.require(image, requirements=["C", "W"])).reshape(*image.shape[:2], -1).permute(2, 0, 1)
    result = functional(name)(planar, **as_theirs(given)).permute(1, 2, 0).numpy()
    return np.ascontiguousarray(result if image.ndim == 3 or result.shape[2] > 1 else result[..., 0])


def _applied(operation: Operation, image: Pixels, name: str, given: Arguments) -> Pixels:
    """An operation's result: on an array by the core or torchvision, on a tensor by torchvision."""
    if isinstance(image, torch.Tensor):
        result: torch.Tensor = functional(name)(image, **as_theirs(given))
        return result
    by_core = on_array_by_core(operation, image)
    return _by_torchvision(image, name, given) if by_core is None else by_core


# -- operations that move pixels or look values up


@dataclass(frozen=True, slots=True, eq=False)
class TensorPad(Pad):
    """A `Pad` for which torchvision's function on tensors gives the same bytes."""

    moves_ahead: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, eq=False)
class TensorLookUp(LookUp):
    """A `LookUp` for which torchvision's functions on tensors give the same bytes."""

    moves_ahead: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, eq=False)
class PermuteChannels(Operation):
    """Permutes the channels of uint8 arrays."""

    op: ClassVar[str] = "permute_channels"
    takes_arrays_alone: ClassVar[bool] = True
    drops_info: ClassVar[bool] = True
    moves_ahead: ClassVar[bool] = True
    pointwise: ClassVar[bool] = True
    permutation: tuple[int, ...]

    def apply(self, image: Pixels) -> Pixels:
        if isinstance(image, torch.Tensor):
            permuted: torch.Tensor = functional("permute_channels")(image, list(self.permutation))
            return permuted
        return image if image.ndim == 2 else np.ascontiguousarray(image[..., list(self.permutation)])  # gray: (H, W)

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        if shape.channels == 3:
            job.permute(self.permutation)
        return True

    def words(self) -> str:
        return "channels in the order " + ", ".join(map(str, self.permutation))


# -- resize


@dataclass(frozen=True, slots=True, eq=False)
class TensorResizeWindow(ResizeWindow):
    """A window of `TensorResize`'s result, from the part of the image that the window needs; by the core only."""

    takes_arrays_alone: ClassVar[bool] = True

    @staticmethod
    def add(
        job: Job,
        whole: tuple[int, int] | None,
        origin: tuple[int, int],
        result: tuple[int, int],
        window: tuple[int, int, int, int],
        mode: str,
    ) -> bool:
        if mode not in FILTERS:
            return False
        job.resize(whole, origin, result, window, FILTERS[mode], core.PassOrder.TORCH_PASSES)
        return True

    def apply(self, image: UInt8Array) -> UInt8Array | None:  # type: ignore[override] # no PIL images
        return on_array_by_core(self, image)

    def __str__(self) -> str:
        return f"{ResizeWindow.__str__(self)}, as a tensor"


@dataclass(frozen=True, slots=True, eq=False)
class TensorResize(Resize):
    """Resizes as torch resizes uint8 tensors: antialiased, bilinear or bicubic."""

    takes_arrays_alone: ClassVar[bool] = True
    moves_ahead: ClassVar[bool] = True
    narrows: ClassVar[bool] = False
    windows: ClassVar[type[ResizeWindow]] = TensorResizeWindow

    def apply(self, image: Pixels) -> Pixels:
        given = {"size": self.size, "interpolation": self.interpolation, "antialias": True}
        return _applied(self, image, "resize", given)

    def required_region(self, region: Box, shape: ImageShape) -> tuple[Box, tuple[Operation, ...]] | None:
        return Resize.required_region(self, region, shape) if core.available() else None

    def __str__(self) -> str:
        return f"{Resize.__str__(self)} as a tensor"


# -- colours and warps


@dataclass(frozen=True, slots=True, eq=False)
class OnPixels(FunctionOfV2):
    """One of torchvision's v2 functions on tensors, computed on an image's pixels."""

    op: ClassVar[str] = "v2_on_pixels"
    takes_arrays_alone: ClassVar[bool] = True
    moves_ahead: ClassVar[bool] = True

    def apply(self, image: Pixels) -> Pixels:
        if self.name == "adjust_contrast" and isinstance(image, np.ndarray):
            by_core = _contrast_of_large(image, **self.given)
            if by_core is not None:
                return by_core
        return _applied(self, image, self.name, self.given)

    def output_shape(self, shape: ImageShape) -> ImageShape:
        if self.name != "rgb_to_grayscale":
            return shape
        return resized(shape, (*shape.size, self.given.get("num_output_channels", 1)))

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        if self.name in _NEIGHBOURS:
            return _NEIGHBOURS[self.name](job, shape, **self.given)
        return _add_color(job, shape, self.name, self.given)

    def required_region(self, region: Box, shape: ImageShape) -> tuple[Box, tuple[Operation, ...]] | None:
        return (region, (self,)) if self.name in COLORS and COLORS[self.name].pointwise else None

    def on_mask(self) -> None:
        return None

    def __str__(self) -> str:
        return f"{FunctionOfV2.__str__(self)} as a tensor"


def _add_color(job: Job, shape: ImageShape, name: str, given: Arguments) -> bool:
    call = color_call(name, **given)
    if call is None:
        return False
    kind, value, flags = call
    if kind is core.Kind.TENSOR_GRAY:
        job.tensor_gray(int(value), flags)
    elif kind is core.Kind.TENSOR_HUE:
        job.tensor_hue(value)
    elif kind is core.Kind.TENSOR_AUTOCONTRAST:
        job.tensor_autocontrast(flags)
    elif kind is core.Kind.EQUALIZE:
        job.equalize()  # the same as Pillow's
    elif kind is core.Kind.TENSOR_CONTRAST and shape.height * shape.width * 255 > _MOST_SUM:
        return False
    else:
        job.tensor_blend(kind, value, flags)
    return True


def _contrast_of_large(image: UInt8Array, contrast_factor: float) -> UInt8Array | None:
    """The contrast of an array ``(H, W, 3)`` whose sum of gray values needs torch's own order; None for any other."""
    (height, width), flags = image.shape[:2], fused()
    if channels(image) != 3 or height * width * 255 <= _MOST_SUM or flags is None or contrast_factor < 0:
        return None
    gray = on_array_by_core(OnPixels("rgb_to_grayscale", {}), image)
    table = None if gray is None else contrast_table(torch.from_numpy(gray[..., 0]).float()[None], contrast_factor)
    return None if table is None else by_core(image, partial(_add_table, table=table), image.shape)


def _add_table(job: Job, table: torch.Tensor) -> bool:
    job.look_up(3 * table.numpy().tobytes())
    return True


def _add_affine(job: Job, shape: ImageShape, **given: Any) -> bool:
    return _add_warp(job, shape, affine(shape.size, **given))


def _add_rotate(job: Job, shape: ImageShape, **given: Any) -> bool:
    warp = rotation(shape.size, **given)
    if warp is not None:
        return warp.size == shape.size and _add_warp(job, shape, warp)
    turns = quarter_turns(given["angle"], given.get("center"))
    if turns == 2:
        job.flip()
        job.flip_vertically()
    return turns in (0, 2)


def _add_blur(job: Job, shape: ImageShape, **given: Any) -> bool:
    return GaussianBlurOfV2(**given).to_core(job, shape)


def _add_warp(job: Job, shape: ImageShape, warp: Warp) -> bool:
    flags, fill = fused(), warp.fill
    if flags is None or warp.mode not in SAMPLE_FILTERS or not samples_affine():
        return False
    colors = None if fill is None else list(fill) if isinstance(fill, Sequence) else [fill]
    if colors is not None:
        if len(colors) not in (1, shape.channels) or not all(0 <= color <= 255 for color in colors):
            return False
        colors = (colors * 3)[:3]
    if not all(map(math.isfinite, warp.theta)) or max(shape.size) >= 1 << 22:
        return False
    job.tensor_sample(shape.size, warp.theta, SAMPLE_FILTERS[warp.mode], colors, flags)
    return True


_NEIGHBOURS: dict[str, Callable[..., bool]] = {
    "affine": _add_affine,
    "gaussian_blur": _add_blur,
    "rotate": _add_rotate,
}
"""Functions for which a pixel of the result depends on several of the input. Their results are contiguous planes."""
ON_PIXELS = frozenset({*COLORS, *_NEIGHBOURS})
"""The functions that `OnPixels` takes."""


# -- memory

Layout: TypeAlias = Literal["rows", "gaps", "planes"]
"""A tensor's memory layout: interleaved in rows like Pillow's pixels; interleaved with gaps; or contiguous planes."""


def layout_after(step: Step, shape: ImageShape, layout: Layout) -> Layout:
    """The layout of torchvision's result when the step is applied to a tensor of this shape and layout."""
    if layout == "planes":
        return "planes"
    if isinstance(step, (Crop, CenterCrop)):
        if not makes_no_pixels(step, shape):
            return "planes"
        narrower = step.output_shape(shape).width < shape.width and shape.height > 1
        return "gaps" if narrower else layout
    if isinstance(step, (Pad, PermuteChannels)):
        return "planes"
    if isinstance(step, Resize):
        return "planes" if layout == "gaps" or shape.channels == 1 else layout
    if isinstance(step, OnPixels):
        return "planes" if step.name in _NEIGHBOURS or COLORS[step.name].to_planes else "rows"
    return "rows"
