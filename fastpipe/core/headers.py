"""Headers of JPEGs, PNGs and packed images, as the library reads them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from struct import Struct

from fastpipe.core.library import native, quick
from fastpipe.core.native_object import PerThread
from fastpipe.core.structs import RawHeader, Status
from fastpipe.types import Header, new_namedtuple

_HEADER = Struct("@2i56sq")  # height, width, other fields, position of the pixel data
_REST = Struct("@14i")

MAYBE_MPO = "JPEG or MPO"
"""The format of a JPEG with a multi-picture index, as in `fastpipe.readers`: only Pillow can tell JPEG from MPO."""

PACKED_FORMAT = "FPJ"
"""The format of packed images in `fastpipe.types.Header`; see `fastpipe.core.packed`."""

_FORMATS = ("JPEG", "PNG", PACKED_FORMAT)  # by number of fpc_format
_COLORS = ("", "L", "YCbCr", "RGB", "CMYK", "YCCK", "P", "LA", "RGBA")
_SUBSAMPLING = {
    (3, 0x11, 0x11, 0x11, 0): "4:4:4",
    (3, 0x21, 0x11, 0x11, 0): "4:2:2",
    (3, 0x22, 0x11, 0x11, 0): "4:2:0",
    (3, 0x12, 0x11, 0x11, 0): "4:4:0",
    (3, 0x41, 0x11, 0x11, 0): "4:1:1",
    (4, 0x11, 0x11, 0x11, 0x11): "4:4:4",
}


_free = PerThread(list[tuple[RawHeader, int, Callable[[bytes, int, int], int]]])
"""A thread's free header structs, their addresses, and the C function that fills one. One in use is taken out, so that
a signal handler gets another."""


def read_header(data: bytes) -> Header | Status:
    """Reads the header of a JPEG, PNG or packed image from its first bytes.

    Returns:
        The same as `fastpipe.readers.read_header`, with the format "JPEG or MPO" for a multi-picture index; or a status
        that says why not: `Status.TRUNCATED` if more bytes are needed.

    Raises:
        ReaderUnavailableError: the core isn't available; see `why_not`.
    """
    free = _free.value
    try:
        place = free.pop()
    except IndexError:
        raw = RawHeader()
        place = raw, ctypes.addressof(raw), native().fpc_read_header
    status = place[2](data, len(data), place[1])
    fields = _HEADER.unpack_from(place[0])
    free.append(place)
    return Status(status) if status else header_of(*fields)


def jpeg_end(data: bytes) -> int:
    """The position after a JPEG's end marker, if every decoder is sure to read the file to its end without an error.

    Invalid bits in the scans needn't be looked for: every libjpeg replaces them in the same way. Nothing is decoded.

    Returns:
        The position; 0 for a file without a plain header, with tables, scans or an end marker missing, or with segments
        of another kind after its first scan.

    Raises:
        ReaderUnavailableError: the core isn't available; see `why_not`.
    """
    end: int = quick().fpc_jpeg_end(data, len(data))
    return end


def header_of(height: int, width: int, rest: bytes, data_offset: int) -> Header:
    """Makes a `Header` from the fields of an fpc_header."""
    format, traits, plain = _kind(rest)
    header: Header = new_namedtuple(Header, (format, height, width, *traits, data_offset, plain))
    return header


@lru_cache(maxsize=256)
def _kind(rest: bytes) -> tuple[str, tuple[object, ...], bool]:
    """Fields of a header other than size and offset. Cached, because most files of a folder share them."""
    components, bits, color, s0, s1, s2, s3, progressive, orientation, pictures, plain, kind, transparency, animated = (
        _REST.unpack(rest)
    )
    subsampling = _SUBSAMPLING.get((components, s0, s1, s2, s3), "unknown")
    format = _FORMATS[kind]
    traits = (
        components,
        bits,
        _COLORS[color],
        None if format == "PNG" or components == 1 else subsampling,
        progressive == 1,
        orientation,
        animated == 1,
        transparency == 1,
    )
    return MAYBE_MPO if pictures else format, traits, plain == 1
