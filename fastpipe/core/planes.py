"""torch's and torchvision's operations on image tensors ``(..., C, H, W)``, each by one call.

Every function returns True if it did its work; otherwise nothing is written. Addresses are of ``data_ptr()``.
"""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Sequence

from fastpipe.core.library import done, native
from fastpipe.core.operations import one_blend
from fastpipe.core.pool import Context
from fastpipe.core.structs import Kind

BILINEAR, FUSED, FLOATS, V2 = 1, 2, 4, 8
"""The flags FPC_GRID_SAMPLE_BILINEAR, …_FUSED, …_FLOATS and …_V2."""


def change_planes(
    context: Context, kind: Kind, image: int, shape: Sequence[int], out: int, factor: float = 1.0, flags: int = 0
) -> bool:
    """Runs TENSOR_GRAY, _SATURATION, _CONTRAST, _AUTOCONTRAST or EQUALIZE.

    Args:
        context: the context whose scratch memory is used.
        kind: the operation.
        image: address of contiguous images.
        shape: number of images, channels, height and width.
        out: address of the results, which don't overlap; undefined if the result is False.
        factor: the factor of a blend.
        flags: a `TensorRounding`.
    """
    operation = one_blend(kind, flags, factor)
    sizes = (ctypes.c_int32 * 4)(*shape)
    return done(native().fpc_change_planes(context.address, operation, image, sizes, out))


def grid_sample_planes(
    context: Context,
    image: int,
    shape: Sequence[int],
    out: int,
    flags: int,
    fill: Sequence[float] | None,
    theta: int | None = None,
    grid: int | None = None,
) -> bool:
    """Runs torch's ``grid_sample`` on planes.

    Args:
        context: the context whose scratch memory is used.
        image: address of contiguous images.
        shape: number of images, channels, height and width, and the results' height and width.
        out: address of the results: bytes, or floats with the flag FLOATS.
        flags: `BILINEAR` and so on.
        fill: a value for each channel; None for black.
        theta: address of six floats: torchvision's matrix ``(3, 2)`` after the division by the image's size.
        grid: address of a point for each pixel; given instead of ``theta``.
    """
    colors = None if fill is None else (ctypes.c_float * len(fill))(*fill)
    sizes = (ctypes.c_int32 * 6)(*shape)
    return done(native().fpc_grid_sample_planes(context.address, image, sizes, theta, grid, colors, flags, out))


class FloatRounding(enum.IntFlag):
    """FPC_RESIZE_…: which products of a sum are rounded before they are added."""

    APART = 0
    FUSED = 1
    FUSED_REST = 2


class FloatResize(enum.IntFlag):
    """FPC_RESIZE_…: the values that are resized, those that are written, and where to."""

    FLOATS = 0
    INTERLEAVED = 4
    FROM_BYTES = 8
    TO_BYTES = 16
    HFLIP = 32
    VFLIP = 64
    MULTIPLY = 128
    CUBIC = 256
    FUSED_WEIGHTS = 512


def resize_floats(
    context: Context,
    image: int,
    strides: Sequence[int],
    shape: Sequence[int],
    out: int,
    rounding: FloatRounding,
    values: FloatResize = FloatResize.FLOATS,
) -> bool:
    """Runs torch's antialiased ``interpolate`` on float32 images, or on bytes made floats: bilinear or bicubic.

    Args:
        context: the context whose scratch memory is used.
        image: address of the image.
        strides: those of channels, rows and columns, in values: the values of a row follow each other, or a pixel's
            channels and a row's pixels.
        shape: channels, height and width, and the result's height and width.
        out: address of the result, which doesn't overlap.
        rounding: as this torch rounds.
        values: INTERLEAVED if a pixel's channels follow each other in the result; FROM_BYTES for an image of bytes;
            TO_BYTES for a result of bytes, rounded to nearest even; CUBIC for a bicubic filter, whose result is of
            floats, with FUSED_WEIGHTS if this torch computes its weights so.
    """
    steps, sizes = (ctypes.c_int64 * 3)(*strides), (ctypes.c_int32 * 5)(*shape)
    return done(native().fpc_resize_floats(context.address, image, steps, sizes, int(rounding) | int(values), out))


def blur_floats(
    context: Context, image: int, shape: Sequence[int], weights: bytes, kernel: Sequence[int], out: int
) -> bool:
    """Runs torchvision's ``gaussian_blur`` on planes of float32.

    Args:
        context: the context whose scratch memory is used.
        image: address of planes without gaps.
        shape: number of planes, height and width.
        weights: float32, those along rows, then those down columns.
        kernel: number of weights along rows and down columns.
        out: address of the results, which don't overlap.
    """
    sizes, counts = (ctypes.c_int32 * 3)(*shape), (ctypes.c_int32 * 2)(*kernel)
    if len(weights) != sum(kernel) * ctypes.sizeof(ctypes.c_float):
        return False
    return done(native().fpc_blur_floats(context.address, image, sizes, weights, counts, out))


class Hue(enum.IntFlag):
    """FPC_HUE_…: the values whose hue is adjusted, in which order, and how torchvision rounds."""

    BYTES = 0
    FLOATS = 1
    V1 = 2
    FROM_PIXELS = 4
    TO_PIXELS = 8


def adjust_hue(context: Context, image: int, shape: Sequence[int], out: int, by: float, values: Hue) -> bool:
    """Runs torchvision's ``adjust_hue`` on images of three channels.

    Args:
        context: a context.
        image: address of images without gaps.
        shape: number of images, height and width.
        out: address of the results, which don't overlap; undefined if the result is False.
        by: -0.5 to 0.5 turns.
        values: FLOATS for floats from 0 to 1; V1 as torchvision.transforms, not v2, computes; FROM_PIXELS and TO_PIXELS
            if a pixel's channels follow each other in the images and in the results.
    """
    return done(native().fpc_adjust_hue(context.address, image, (ctypes.c_int32 * 3)(*shape), int(values), by, out))


def mix_planes(context: Context, images: Sequence[int], weights: Sequence[float], count: int, out: int) -> bool:
    """Adds up images of ``count`` bytes times their weights, in float32 and in order, and truncates."""
    addresses, factors = (ctypes.c_void_p * len(images))(*images), (ctypes.c_float * len(images))(*weights)
    return done(native().fpc_mix_planes(context.address, addresses, factors, len(images), count, out))


def look_up_planes(context: Context, image: int, count: int, table: int, out: int) -> None:
    """Maps ``count`` bytes by a table of 256 bytes."""
    native().fpc_look_up(context.address, image, count, table, out)
