"""Operations on images of floats for which torch takes long: the same bytes and memory layout.

The result is None for tensors and arguments of another kind; torch does the work then. In the sums of a resize torch's
compiler has decided which products are rounded before they are added; `rounding` finds it out once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from fastpipe import core
from fastpipe.core import planes as native
from fastpipe.core.planes import FloatResize, FloatRounding, Hue
from fastpipe.kernels import trials
from fastpipe.tensor_kernels import planes
from fastpipe.torch_modes import is_traced, multiplies_exactly, torch_modes_active


def resized(batch: Tensor, size: Sequence[int], mode: str, antialias: bool) -> Tensor | None:
    """``torch.nn.functional.interpolate(batch, size, mode=mode, align_corners=False, antialias=antialias)`` of floats.

    Args:
        batch: any tensor; float32 ``(N, C, H, W)`` may be resized. So may uint8 by a bilinear filter: as v1 does it,
            which converts to float32 before, and rounds to uint8 afterwards.
        size: the result's height and width.
        mode: torch's name of the interpolation.
        antialias: smooth before shrinking.

    Returns:
        The result, in torch's memory layout; None if torch has to make it.
    """
    if not takes(batch.dtype, mode) or not antialias or batch.ndim != 4:
        return None
    if torch.get_num_threads() > MOST_THREADS:
        return None
    if batch.numel() == 0 or not planes.is_plain(batch) or batch.requires_grad or torch_modes_active():
        return None
    if mode == "bicubic":
        form = cubic_rounding()
    else:
        sums = rounding()
        form = None if sums is None else (sums, FloatResize.FLOATS)
    return None if form is None else _resized(batch, size, form)


def takes(dtype: torch.dtype, mode: object) -> bool:
    """True for a dtype whose antialiased resize by a filter `resized` may compute."""
    return dtype is torch.float32 if mode == "bicubic" else mode == "bilinear" and dtype in _VALUES


Form: TypeAlias = tuple[FloatRounding, FloatResize]
"""How a resize's sums are rounded, and the filter, with how its weights are."""
MOST_THREADS = 4
"""torch resizes and blurs with all of its threads, the core with one, which is at least four times as fast as one of
torch's."""
_VALUES = {torch.float32: FloatResize.FLOATS, torch.uint8: FloatResize.FROM_BYTES | FloatResize.TO_BYTES}


def _resized(batch: Tensor, size: Sequence[int], form: Form) -> Tensor | None:
    images, channels, height, width = batch.shape
    new_height, new_width = size
    # torch itself gives wrong values for some images of one row or column.
    if min(height, width, new_height, new_width) < 2 or max(height, width, new_height, new_width) > planes.MOST:
        return None
    of_image, of_channel, of_row, of_column = batch.stride()
    is_interleaved = channels > 1 and of_channel == 1 and of_column == channels
    if images > 1:
        if is_interleaved or of_image != channels * of_channel:
            return None
        channels *= images
    if not is_interleaved and of_column != 1:
        return None
    values, is_last = _VALUES[batch.dtype], is_channels_last(batch)
    if values:  # v1's conversion leaves no gaps, and its rounding gives one channel the strides of planes
        is_last = batch.shape[1] > 1 and is_channels_last(batch.to("meta", torch.float32))
    layout = torch.channels_last if is_last else torch.contiguous_format
    out = torch.empty((*batch.shape[:2], new_height, new_width), dtype=batch.dtype, device="cpu", memory_format=layout)
    done = native.resize_floats(
        core.thread_context(),
        batch.data_ptr(),
        (of_channel, of_row, of_column),
        (channels, height, width, new_height, new_width),
        out.data_ptr(),
        form[0],
        form[1] | values | (FloatResize.INTERLEAVED if is_last else FloatResize.FLOATS),
    )
    return out if done else None


def is_channels_last(batch: Tensor) -> bool:
    """True if torch gives a result of this tensor channels last: c10's ``is_channels_last_strides_2d``."""
    sizes, strides = batch.shape, batch.stride()
    least = 0
    if strides[1] == 0:
        return False
    for dimension in (1, 3, 2, 0):
        if sizes[dimension] == 0 or strides[dimension] < least:
            return False
        if dimension == 0 and least == strides[1]:
            return False
        least = strides[dimension] * max(sizes[dimension], 1)
    return True


def hue_adjusted(image: Tensor, hue_factor: object, *, as_v1: bool = False) -> Tensor | None:
    """torchvision's ``adjust_hue`` of a tensor: 40 times as fast for v1, 15 to 20 times for v2 (224 px, one thread).

    Args:
        image: any tensor; uint8, or float32 with values from 0 to 1, ``(..., 3, H, W)`` may be adjusted.
        hue_factor: -0.5 to 0.5 turns.
        as_v1: compute as ``torchvision.transforms``, not as its v2; for up to four dimensions.

    Returns:
        The result, in torchvision's memory layout; None if torch has to make it, or torchvision refuses or keeps it.
    """
    if image.dtype not in _HUES or image.ndim < 3 or image.shape[-3] != 3 or not isinstance(hue_factor, (int, float)):
        return None
    if not -0.5 <= hue_factor <= 0.5 or image.numel() == 0 or max(image.shape) > planes.MOST:
        return None
    if not planes.is_plain(image) or image.requires_grad or torch_modes_active():
        return None
    if as_v1 and (image.ndim > 4 or not multiplies_exactly() or not _has_strides_of_v1()):
        return None
    values = _HUES[image.dtype] | (Hue.V1 | Hue.TO_PIXELS if as_v1 else Hue.BYTES)
    if not image.is_contiguous() and image.movedim(-3, -1).is_contiguous():
        values |= Hue.FROM_PIXELS
    else:
        image = image.contiguous()
    *leading, _, height, width = image.shape
    if as_v1:
        out = torch.empty_strided(image.shape, _hue_strides_of_v1(image.shape), dtype=image.dtype, device="cpu")
    else:
        out = torch.empty(image.shape, dtype=image.dtype, device="cpu")
    arguments = image.data_ptr(), (math.prod(leading), height, width), out.data_ptr(), hue_factor, values
    return out if native.adjust_hue(core.thread_context(), *arguments) else None


_HUES = {torch.float32: Hue.FLOATS, torch.uint8: Hue.BYTES}


def _hue_strides_of_v1(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of v1's result, which ``torch.einsum`` makes, for an image or a batch."""
    *leading, channels, height, width = shape
    row = width * channels
    of_image = height * row if leading and leading[0] > 1 else channels
    return *[of_image for _ in leading], 1, row, channels


@functools.cache
def _has_strides_of_v1() -> bool:
    """True if a result of ``torch.einsum`` has the known strides."""
    for shape in ((3, 4, 5), (1, 3, 4, 5), (2, 3, 4, 5)):
        *leading, channels, height, width = shape
        mask, colors = (
            torch.zeros((*leading, *sizes, height, width), dtype=torch.float32, device="cpu")
            for sizes in ((6,), (channels, 6))
        )
        if torch.einsum("...ijk, ...xijk -> ...xjk", mask, colors).stride() != _hue_strides_of_v1(shape):
            return False
    return True


def normalized(image: Tensor, mean: Tensor, std: Tensor) -> Tensor | None:
    """``(image - mean) / std`` of interleaved pixels, row by row: torch takes each pixel by itself.

    Args:
        image: any tensor; ``(C, H, W)`` whose pixels' channels follow each other may be normalised.
        mean: one number a channel.
        std: one number a channel.
    """
    if image.ndim != 3 or type(image) is not Tensor or is_traced():
        return None
    channels, _, width = image.shape
    of_channel, _, of_column = image.stride()
    if channels < 2 or (of_channel, of_column) != (1, channels) or not len(mean) == len(std) == channels:
        return None
    rows = image.permute(1, 2, 0).flatten(1)
    rows = rows.sub(mean.repeat(width)).div_(std.repeat(width))
    return rows.view(-1, width, channels).permute(2, 0, 1)


@functools.cache
def rounding() -> FloatRounding | None:
    """The rounding by which this torch adds up a bilinear resize's products; None if the core doesn't have it."""
    found = _form_of("bilinear", [(sums, FloatResize.FLOATS) for sums in _SUMS])
    return None if found is None else found[0]


@functools.cache
def cubic_rounding() -> Form | None:
    """The same for a bicubic resize, with how the weights are computed."""
    filters = FloatResize.CUBIC | FloatResize.FUSED_WEIGHTS, FloatResize.CUBIC
    return _form_of("bicubic", [(sums, weights) for weights in filters for sums in _SUMS])


_SUMS = FloatRounding.FUSED_REST, FloatRounding.APART, FloatRounding.FUSED


def _form_of(mode: str, forms: Sequence[Form]) -> Form | None:
    generator = torch.Generator().manual_seed(0)
    image = torch.randn((1, 3, 61, 83), generator=generator, dtype=torch.float32, device="cpu")
    layouts = image, image.contiguous(memory_format=torch.channels_last), image[..., 1:60, 2:79]
    sizes = (23, 40), (97, 64), (61, 12), (9, 120), (3, 2), (2, 83)
    pairs = [(batch, size) for batch in layouts for size in sizes]
    known = [
        torch.nn.functional.interpolate(batch, size, mode=mode, align_corners=False, antialias=True)
        for batch, size in pairs
    ]
    for form in forms:
        results = [_resized(*pair, form) for pair in pairs]
        if all(is_same(result, expected) for result, expected in zip(results, known, strict=True)):
            return form
    if core.available():
        trials.refuse("This torch resizes tensors of floats in another way than fastpipe knows, and does it itself.")
    return None


def is_same(result: Tensor | None, expected: Tensor) -> bool:
    """True if a result has the values and the memory layout of another."""
    return result is not None and torch.equal(result, expected) and result.stride() == expected.stride()
