"""torch's resize of floats, as the last operation on pixels: of an image that was converted to a tensor before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fastpipe import core
from fastpipe.core.planes import FloatResize
from fastpipe.ops.after_tensor import TensorOperation
from fastpipe.ops.base import Operation
from fastpipe.ops.conversion import Normalize, PilToTensor, TensorConversion, ToNormalizedTensor
from fastpipe.ops.geometry import CenterCrop, Crop, HFlip, Resize, VFlip, makes_no_pixels
from fastpipe.ops.interpolation import interpolation_of
from fastpipe.tensor_kernels import floats
from fastpipe.types import Box, ImageShape, Size, Step

if TYPE_CHECKING:
    from fastpipe.core import Job


@dataclass(frozen=True, slots=True, eq=False)
class ResizeAsFloats(Operation):
    """Converts bytes to floats from 0 to 1, and resizes these as torch does: antialiased, bilinear.

    The conversion to a tensor, which follows, only normalises them.

    Attributes:
        whole: ``(height, width)`` of the image.
        result: ``(height, width)`` of the resized image.
        window: the part of the resized image that is made, before it is mirrored.
        hflip, vflip: the window is mirrored left to right, or top to bottom.
        multiplied: bytes are multiplied by 1 / 255 instead of divided by 255; see `ToNormalizedTensor`.
    """

    op: ClassVar[str] = "resize"
    whole: Size
    result: Size
    window: Box
    hflip: bool = False
    vflip: bool = False
    multiplied: bool = False

    @property
    def box(self) -> Box:
        """The part of the image that the window needs, and perhaps a row or column more on each side."""
        top, bottom = _needed(self.whole.height, self.result.height, self.window.top, self.window.bottom)
        left, right = _needed(self.whole.width, self.result.width, self.window.left, self.window.right)
        return Box(top, left, bottom - top, right - left)

    def cropped(self, box: Box) -> ResizeAsFloats:
        """The operation for a part of its result."""
        top = self.window.height - box.bottom if self.vflip else box.top
        left = self.window.width - box.right if self.hflip else box.left
        return replace(self, window=Box(self.window.top + top, self.window.left + left, box.height, box.width))

    def output_shape(self, shape: ImageShape) -> ImageShape:
        return ImageShape(self.window.height, self.window.width, shape.channels)

    def required_region(self, region: Box, shape: ImageShape) -> tuple[Box, tuple[Operation, ...]] | None:
        return self.box, (self.cropped(region),)

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        rounding = floats.rounding()
        if rounding is None:
            return False
        origin = (0, 0) if shape.size == self.whole else self.box[:2]
        flags = rounding | FloatResize.HFLIP * self.hflip | FloatResize.VFLIP * self.vflip
        flags |= FloatResize.MULTIPLY * self.multiplied
        job.float_resize(self.whole, origin, self.result, self.window, flags)
        return True

    def apply(self, image: Image.Image | NDArray[np.uint8]) -> NDArray[np.float32]:
        """Returns float32 ``(H, W, C)``, by the core alone."""
        pixels = np.atleast_3d(np.asarray(image))
        result = np.empty((self.window.height, self.window.width, pixels.shape[2]), np.float32)
        job = core.thread_job()
        job.read_pixels(pixels)
        self.to_core(job, ImageShape(*pixels.shape))
        job.write_array(result)
        core.check(core.run_thread_job(job))
        return result

    def __str__(self) -> str:
        flips = "".join(f", {name}" for name in ("hflip", "vflip") if getattr(self, name))
        window = "" if self.window == (0, 0, *self.result) else f", {self.window} alone"
        return f"resize(size=[{self.result.height}, {self.result.width}]) as floats{window}{flips}"


def _needed(inputs: int, outputs: int, first: int, end: int) -> tuple[int, int]:
    """The inputs that outputs from `first` to `end` read: the first one, and the one after the last."""
    scale = inputs / outputs
    reach = max(scale, 1.0) + 1
    return max(0, math.floor(scale * (first + 0.5) - reach)), min(inputs, math.ceil(scale * (end - 0.5) + reach))


def resized_as_floats(
    conversion: TensorConversion | None, first: Step, after: Sequence[Step], shape: ImageShape
) -> tuple[ResizeAsFloats, tuple[Step, ...]] | None:
    """The resize that the steps after a conversion to floats begin with, and the other steps; None if there is none.

    Crops and flips right after the resize, and after a `Normalize` that follows it, belong to it.

    Args:
        conversion: the conversion of bytes.
        first: the step that makes a tensor.
        after: the steps after the conversion.
        shape: the image's shape at the conversion.
    """
    if not isinstance(conversion, ToNormalizedTensor) or not conversion.plain or not after:
        return None
    result = _resized(after[0], isinstance(first, PilToTensor), shape)
    if result is None or not core.available() or floats.rounding() is None:
        return None
    whole = Size(*shape.size)
    resize = ResizeAsFloats(whole, result, Box(0, 0, *result), multiplied=conversion.multiplied)
    kept: list[Step] = []
    for number, step in enumerate(after[1:], 1):
        like = step.like if isinstance(step, TensorOperation) else step
        if isinstance(like, HFlip):
            resize = replace(resize, hflip=not resize.hflip)
        elif isinstance(like, VFlip):
            resize = replace(resize, vflip=not resize.vflip)
        elif isinstance(like, (Crop, CenterCrop)) and makes_no_pixels(like, resize.output_shape(shape)):
            resize = resize.cropped(like.as_crop(resize.output_shape(shape)).box)
        elif isinstance(step, Normalize) and not kept:
            kept.append(step)
        else:
            return resize, (*kept, *after[number:])
    return resize, tuple(kept)


def _resized(step: Step, in_rows: bool, shape: ImageShape) -> Size | None:
    """The size to which a step on a float tensor resizes, if the core does it as torch does; else None.

    Args:
        step: any step.
        in_rows: the tensor may be interleaved, of which v1's resize makes planes.
        shape: the tensor's shape.
    """
    if isinstance(step, TensorOperation) and step.name == "resize":
        mode = interpolation_of(step.given.get("interpolation", "bilinear"))
        is_known = mode.value == "bilinear" and bool(step.given.get("antialias", True))
    else:
        is_known = type(step) is Resize and step.mode == "bilinear" and step.antialias is True and not in_rows
    if not is_known or not isinstance(step, Operation) or shape.channels != 3:
        return None
    size = Size(*step.output_shape(shape)[:2])
    # torch itself gives wrong values for some images of one row or column.
    return size if size != shape.size and min(*size, *shape.size) >= 2 else None
