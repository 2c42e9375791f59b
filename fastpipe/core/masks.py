"""Masks that lie column after column, as COCO has them: drawn from run lengths, and turned to rows.

Every function says whether it did it: the memory of the result is undefined where it didn't. Addresses are those of
arrays and tensors without gaps.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from fastpipe.core.library import done, native
from fastpipe.core.pool import Context

_Shape = ctypes.c_int32 * 3


def draw_runs(text: bytes, out: int, size: int) -> bool:
    """Draws COCO's text of run lengths, of zeros and ones in turn.

    Args:
        text: has to be of as many bytes as there are, no more and no less.
        out: where they go.
        size: bytes there.
    """
    return done(native().fpc_draw_runs(text, len(text), out, size))


def turn_planes(context: Context, image: int, shape: Sequence[int], out: int, *, any_plane: bool) -> bool:
    """Copies planes of bytes, which lie column after column, row after row.

    Args:
        context: scratch memory.
        image: the planes.
        shape: number of planes, height, width.
        out: other memory.
        any_plane: it is one plane: 1 where any of them has another value than 0, 0 elsewhere.
    """
    return done(native().fpc_turn_planes(context.address, image, _Shape(*shape), any_plane, out))
