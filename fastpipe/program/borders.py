"""Borders of one colour at the end of a program, as `RandomZoomOut` leaves them: nothing is converted for them.

The image inside is made in its place in the result, and the border is filled with what its colour is converted to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fastpipe.kernels import memory
from fastpipe.ops import HFlip, Normalize, Pad, TensorOperation, ToDtype, ToPureTensor, VFlip
from fastpipe.ops.sizes import padding_ltrb
from fastpipe.program.program import Program
from fastpipe.types import Box, ImageShape, Step


@dataclass(frozen=True, slots=True)
class Border:
    """A result with an image inside.

    Attributes:
        shape: of the result: channels, height, width.
        inner: where the image is.
        colour: of the border, a tensor ``(C, 1, 1)`` of the result's dtype.
    """

    shape: tuple[int, int, int]
    inner: Box
    colour: torch.Tensor

    def canvas(self, out: torch.Tensor | None, in_rows: bool = False) -> torch.Tensor:
        """The result with the border made.

        Args:
            out: where it goes; None for memory of its own.
            in_rows: laid out as rows of pixels, ``(H, W, C)``.
        """
        if out is None:
            channels, height, width = self.shape
            make = memory.new_result if self.colour.any() else memory.zeros
            layout = (height, width, channels) if in_rows else self.shape
            out = make(layout, self.colour.dtype)
            out = out.permute(2, 0, 1) if in_rows else out
            if make is memory.zeros:
                return out
        box = self.inner
        for part in (out[:, : box.top], out[:, box.bottom :]):
            part.copy_(self.colour.expand_as(part))
        for part in (out[:, box.top : box.bottom, : box.left], out[:, box.top : box.bottom, box.right :]):
            part.copy_(self.colour.expand_as(part))
        return out

    def inside(self, canvas: torch.Tensor) -> torch.Tensor:
        """The image's place."""
        box = self.inner
        return canvas[:, box.top : box.bottom, box.left : box.right]


def without_border(program: Program) -> tuple[Program, Border] | None:
    """The program of the image inside, up to the conversion, and the border around it; None where there is none."""
    steps, conversion = program.steps, program.conversion
    if conversion is None or not memory.is_large(program.result, torch.uint8):
        return None
    place = _pad_before_flips(steps)
    if place is None:
        return None
    height, width, channels = program.result
    pad: Any = steps[place]
    fill = pad.fill if isinstance(pad.fill, (list, tuple)) else [pad.fill] * channels
    if len(fill) != channels or not all(isinstance(value, int) and 0 <= value <= 255 for value in fill):
        return None
    inner = _inner(pad, steps[place + 1 :], height, width)
    if inner is None:
        return None
    colour = conversion.apply(np.array(fill, np.uint8).reshape(1, 1, channels))
    result = ImageShape(inner.height, inner.width, channels)
    rest = (*steps[:place], *steps[place + 1 :])
    return program._replace(steps=rest, after=(), result=result, tv_image=False), Border(
        (channels, height, width), inner, colour
    )


def behind_conversion(steps: Sequence[Step], image: torch.Tensor) -> torch.Tensor | None:
    """The steps on a tensor ``(C, H, W)``, where one of the last pads it with zeros; None where none does."""
    shown = [step.like if isinstance(step, TensorOperation) else step for step in steps]
    place = _pad_before_flips(shown, (HFlip, VFlip, ToDtype, Normalize, ToPureTensor))
    if place is None or image.dtype != torch.uint8:
        return None
    pad: Any = shown[place]
    if pad.fill not in (0, None):
        return None
    for step in steps[:place]:
        image = step.apply(image)
    left, top, right, bottom = padding_ltrb(pad.padding)
    channels, height, width = image.shape
    height, width = height + top + bottom, width + left + right
    behind = steps[place + 1 :]
    flips = [pair for pair in zip(behind, shown[place + 1 :], strict=True) if isinstance(pair[1], (HFlip, VFlip))]
    inner = _inner(pad, [like for _, like in flips], height, width)
    if inner is None or not memory.is_large((channels, height, width), torch.uint8):
        for step in steps[place:]:
            image = step.apply(image)
        return image
    values = [step for step in behind if isinstance(step, (ToDtype, Normalize))]
    colour = image.new_zeros((channels, 1, 1))
    for step in values:
        colour = step.apply(colour)
    border = Border((channels, height, width), inner, colour)
    canvas = border.canvas(None)
    for step, _ in flips:
        image = step.apply(image)
    if len(values) == 1 and isinstance(values[0], ToDtype) and values[0].scales(image):
        values[0].apply_into(image, border.inside(canvas))
        return canvas
    for step in values:
        image = step.apply(image)
    border.inside(canvas).copy_(image)
    return canvas


def _pad_before_flips(steps: Sequence[Any], behind: tuple[type, ...] = (HFlip, VFlip)) -> int | None:
    """The place of a constant pad behind which there are flips alone, or what `behind` has."""
    place = len(steps) - 1
    while place >= 0 and isinstance(steps[place], behind):
        place -= 1
    pad = steps[place] if place >= 0 else None
    return place if isinstance(pad, Pad) and pad.padding_mode == "constant" else None


def _inner(pad: Pad, flips: Sequence[Any], height: int, width: int) -> Box | None:
    """The image's box in a padded and flipped result of that size; None if there is no border."""
    left, top, right, bottom = padding_ltrb(pad.padding)
    if min(left, top, right, bottom) < 0 or max(left, top, right, bottom) == 0:
        return None
    for flip in flips:
        if isinstance(flip, HFlip):
            left, right = right, left
        else:
            top, bottom = bottom, top
    box = Box(top, left, height - top - bottom, width - left - right)
    return box if box.height > 0 and box.width > 0 else None
