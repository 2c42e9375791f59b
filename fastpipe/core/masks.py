"""Masks in COCO's column-major order: drawn from run lengths, and transposed to rows.

Every function returns True if it did its work; otherwise the memory of the result is undefined. Addresses are those of
contiguous arrays and tensors.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from fastpipe.core.library import done, native
from fastpipe.core.pool import Context

_Shape = ctypes.c_int32 * 3


def draw_runs(text: bytes, out: int, size: int) -> bool:
    """Draws COCO's text of run lengths, which alternate between zeros and ones.

    Args:
        text: the run lengths; their sum has to be ``size``.
        out: address of the mask.
        size: bytes of the mask.
    """
    return done(native().fpc_draw_runs(text, len(text), out, size))


def turn_planes(context: Context, image: int, shape: Sequence[int], out: int, *, any_plane: bool) -> bool:
    """Copies column-major planes of bytes to row-major ones.

    Args:
        context: the context whose scratch memory is used.
        image: address of the planes.
        shape: number of planes, height, width.
        out: address of the result, which doesn't overlap.
        any_plane: make one plane: 1 where any plane isn't 0, 0 elsewhere.
    """
    return done(native().fpc_turn_planes(context.address, image, _Shape(*shape), any_plane, out))
