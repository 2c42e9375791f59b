"""PNGs of 16 bits a sample, decoded to uint16: depth maps, X-rays, satellite images."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from fastpipe.core.addresses import address_of
from fastpipe.core.library import native
from fastpipe.core.pool import Context, thread_context
from fastpipe.core.structs import RawBox

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def decode_uint16(
    data: bytes, top: int, left: int, out: NDArray[np.uint16], max_bytes: int = 0, context: Context | None = None
) -> int:
    """Decodes a box of a PNG of 16 bits a sample; rows below it aren't inflated.

    Args:
        data: the file. Any other kind of file is refused: 8 bits, alpha, interlaced, animated, damaged.
        top, left: the box's first row and column; its size is that of ``out``.
        out: a contiguous array ``(H, W)`` for a gray file, ``(H, W, 3)`` for an RGB one, in the machine's byte order.
        max_bytes: the most bytes of scratch memory; 0 for no limit.
        context: the scratch memory; None for this thread's.

    Returns:
        A `Status` as a plain int. If it isn't OK, the content of ``out`` is undefined.

    Raises:
        ReaderUnavailableError: the core isn't available; see `why_not`.
    """
    if out.dtype.char != "H" or not out.dtype.isnative or not out.flags.c_contiguous or not out.flags.writeable:
        raise TypeError(f"samples go to contiguous writeable arrays of uint16, not {out.dtype} {out.shape}")
    height, width, *channels = out.shape
    box = RawBox(top, left, height, width)
    status: int = native().fpc_decode_uint16(
        (context or thread_context()).address,
        data,
        len(data),
        ctypes.addressof(box),
        channels[0] if channels else 1,
        max_bytes,
        address_of(out),
        out.strides[0],
    )
    return status
