"""The orientation that Pillow's `ImageOps.exif_transpose` would apply, from EXIF and XMP data."""

from __future__ import annotations

import re
from struct import Struct
from typing import Any

from PIL import Image

_ORIENTATION, _X_RESOLUTION = 0x0112, 0x011A
_SHORT = 3
_BYTES = frozenset({1, 2, 7})  # bytes, text, undefined
_TYPE_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8}  # in bytes
_XMP_ORIENTATION = re.compile(rb'tiff:Orientation(?:="|>)([0-9])')

_layouts = {
    byte_order: (Struct(mark + "I").unpack_from, Struct(mark + "H").unpack_from, Struct(mark + "HHII").unpack_from)
    for byte_order, mark in ((b"II*\0", "<"), (b"MM\0*", ">"))
}


def valid_orientation(value: Any) -> int:
    """The value if it equals one of the eight orientations, else 1; as Pillow has it, a float or fraction may."""
    return next((orientation for orientation in range(1, 9) if orientation == value), 1)


def orientation_of(exif: bytes | None, xmp: bytes | None) -> int:
    """The EXIF orientation, 1 to 8; XMP's where EXIF has none, 1 where neither gives one.

    Args:
        exif: the data of a JPEG's Exif segment (``Exif\\0\\0`` and on) or a bare TIFF structure.
        xmp: an XMP packet.
    """
    value: Any = None
    if exif is not None:
        value = _from_exif(exif)
    if value is None and xmp is not None and (found := _XMP_ORIENTATION.search(xmp)):
        value = int(found[1])
    return valid_orientation(value)


def pillow_may_refuse(exif: bytes) -> bool:
    """Whether a JPEG's EXIF data may end its opening in Pillow with an IndexError, so that Pillow doesn't identify it.

    To its ``_read_dpi_from_exif`` a resolution of bytes or of text is a pair of numbers; here there is at most one, or
    a text of two that may end in a zero.
    """
    while exif.startswith(b"Exif\0\0"):
        exif = exif[6:]
    if len(exif) < 8 or exif[:2] not in (b"II", b"MM"):
        return False
    u32, u16, entry = _layouts[b"II*\0" if exif[:2] == b"II" else b"MM\0*"]
    offset = u32(exif, 4)[0]
    if offset + 2 > len(exif):
        return False
    last = min(offset + 2 + 12 * u16(exif, offset)[0], len(exif) - 11)
    return any(
        tag == _X_RESOLUTION and kind in _BYTES and values <= 2
        for tag, kind, values, _ in (entry(exif, position) for position in range(offset + 2, last, 12))
    )


def _from_exif(exif: bytes) -> Any:
    """The tag's value, None where it isn't there. A plain IFD is read here, anything else by Pillow."""
    base = 6 if exif.startswith(b"Exif\0\0") else 0
    layout = _layouts.get(exif[base : base + 4])
    if layout is not None:
        u32, u16, entry = layout
        offset = base + u32(exif, base + 4)[0] if len(exif) >= base + 8 else len(exif)
        if offset + 2 <= len(exif):
            count = u16(exif, offset)[0]
            if offset + 2 + 12 * count <= len(exif):
                value = None
                for position in range(offset + 2, offset + 2 + 12 * count, 12):
                    tag, kind, values, where = entry(exif, position)
                    size = values * _TYPE_SIZES.get(kind, 0)
                    if size > 4 and base + where + size > len(exif):
                        return _from_pillow(exif)  # it stops at such an entry
                    if tag == _ORIENTATION:
                        if kind != _SHORT or values != 1 or value is not None:  # which of two, its version decides
                            return _from_pillow(exif)
                        value = u16(exif, position + 8)[0]
                return value
    return _from_pillow(exif)


def _from_pillow(exif: bytes) -> Any:
    reader = Image.Exif()
    try:
        reader.load(exif)
        return reader.get(_ORIENTATION)
    except Exception:  # damaged EXIF data raises nearly anything; Pillow then doesn't look for XMP either
        return 1
