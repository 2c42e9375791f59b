"""PNGs of 16 bits a sample, decoded to uint16: depth maps, X-rays, satellite images."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from fastpipe.core.addresses import address_of
from fastpipe.core.library import native, status_text
from fastpipe.core.pool import Context, thread_context
from fastpipe.core.structs import RawBox

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fastpipe.types import Header

_CHANNELS = {"L": 1, "RGB": 3}


def read_uint16(data: bytes, header: Header, channels: int, max_bytes: int = 0) -> NDArray[np.uint16] | str:
    """Decodes a whole PNG of 16 bits a sample.

    Args:
        data: the file.
        header: its header.
        channels: 1, or 3 for RGB, whose channels are equal for a gray file.
        max_bytes: as of `decode_uint16`.

    Returns:
        A contiguous array ``(H, W)``, or ``(H, W, 3)``; or the reason why another decoder has to decode the file.
    """
    import numpy as np

    of_file = _CHANNELS.get(header.color_space, 0)
    if of_file not in (1, channels):
        return f"a PNG of 16 bits in {header.color_space}"
    samples = np.empty((*header.size, 3) if of_file == 3 else header.size, np.uint16)
    status = decode_uint16(data, 0, 0, samples, max_bytes)
    if status:
        return status_text(status)
    return samples if of_file == channels else np.repeat(samples[..., np.newaxis], channels, axis=2)


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
