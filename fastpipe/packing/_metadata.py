"""Metadata of JPEGs and PNGs, carried over byte for byte to a smaller image, but for the sizes in EXIF data."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from fastpipe.readers._jpeg import SOS, segments
from fastpipe.types import Size

_APP0, _APP1, _APP2, _APP14, _APP15, _COM = 0xE0, 0xE1, 0xE2, 0xEE, 0xEF, 0xFE
_EXIF, _JFIF, _ADOBE, _MULTI_PICTURE = b"Exif\0\0", b"JFIF\0", b"Adobe", b"MPF\0"

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PNG_METADATA = (b"gAMA", b"cHRM", b"sRGB", b"iCCP", b"cICP", b"pHYs", b"tIME", b"tEXt", b"zTXt", b"iTXt", b"eXIf")

_SHORT, _LONG = 3, 4
_EXIF_IFD = 0x8769
_WIDTHS, _HEIGHTS = (0x0100, 0xA002), (0x0101, 0xA003)  # ImageWidth, PixelXDimension; ImageLength, PixelYDimension


def jpeg_with_metadata(encoded: bytes, original: bytes, size: Size) -> bytes:
    """A JPEG with another's segments of applications and comments in place of its own.

    Its own Adobe segment, which says how it is decoded, stays; an index of several pictures has no place in it.

    Args:
        encoded: the JPEG.
        original: has the metadata.
        size: the JPEG's, for EXIF data.
    """
    kept = []
    for marker, body in _jpeg_header(original):
        if not _is_metadata(marker) or (marker == _APP14 and body.startswith(_ADOBE)):
            continue
        if marker == _APP2 and body.startswith(_MULTI_PICTURE):
            continue
        if marker == _APP1 and body.startswith(_EXIF):
            body = _EXIF + exif_of_size(body[len(_EXIF) :], size)
        kept.append((marker, body))
    has_jfif = any(marker == _APP0 and body.startswith(_JFIF) for marker, body in kept)
    own = []
    for marker, body in _jpeg_header(encoded):
        if not _is_metadata(marker) or marker == _APP14:
            own.append((marker, body))
        elif marker == _APP0 and not has_jfif:  # has to be the first
            kept.insert(0, (marker, body))
    made = [struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body for marker, body in kept + own]
    return b"".join((encoded[:2], *made, encoded[_scan_of(encoded) :]))


def _jpeg_header(jpeg: bytes) -> Iterator[tuple[int, bytes]]:
    """Marker and content of each segment before the first scan's."""
    for marker, start, end in segments(jpeg):
        if marker == SOS:
            return
        yield marker, jpeg[start:end]


def _scan_of(jpeg: bytes) -> int:
    """The place at which the first scan's segment begins."""
    return next(start - 4 for marker, start, _ in segments(jpeg) if marker == SOS)


def _is_metadata(marker: int) -> bool:
    return _APP0 <= marker <= _APP15 or marker == _COM


def png_with_metadata(encoded: bytes, original: bytes, size: Size) -> bytes:
    """A PNG with another's chunks of colors, texts, times and EXIF data in place of its own.

    Args:
        encoded: the PNG.
        original: has the metadata.
        size: the PNG's, for EXIF data.
    """
    (head, body), *rest = _chunks(encoded)
    out = [_PNG_SIGNATURE, _chunk(head, body)]
    for name, body in _chunks(original):
        if name in _PNG_METADATA:
            out.append(_chunk(name, exif_of_size(body, size) if name == b"eXIf" else body))
    out += [_chunk(name, body) for name, body in rest if name not in _PNG_METADATA]
    return b"".join(out)


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    position = len(_PNG_SIGNATURE)
    while position + 12 <= len(png):
        length, name = struct.unpack_from(">I4s", png, position)
        yield name, png[position + 8 : position + 8 + length]
        position += 12 + length


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def webp_is_lossless(webp: bytes) -> bool:
    """Whether a WebP's pixels were encoded without loss."""
    position = 12
    while position + 8 <= len(webp):
        name, length = struct.unpack_from("<4sI", webp, position)
        if name in (b"VP8 ", b"VP8L"):
            return bool(name == b"VP8L")
        position += 8 + length + length % 2
    return False


def exif_of_size(exif: bytes, size: Size) -> bytes:
    """EXIF data in which the tags of an image's size say this one; all else, offsets and all, is as it was.

    Args:
        exif: from the byte order's mark on. Returned as it is where it is damaged.
        size: the image's.
    """
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(exif[:4])
    if order is None:
        return exif
    out = bytearray(exif)
    try:
        (main,) = struct.unpack_from(order + "I", exif, 4)
        pointer = _set_sizes(out, order, main, size)
        if pointer:
            _set_sizes(out, order, pointer, size)
    except struct.error:
        return exif
    return bytes(out)


def _set_sizes(exif: bytearray, order: str, directory: int, size: Size) -> int:
    """Sets the sizes in a directory; returns where EXIF's own tags are, 0 where this one doesn't say."""
    pointer = 0
    (entries,) = struct.unpack_from(order + "H", exif, directory)
    for at in range(directory + 2, directory + 2 + 12 * entries, 12):
        tag, kind, count = struct.unpack_from(order + "HHI", exif, at)
        if tag == _EXIF_IFD:
            (pointer,) = struct.unpack_from(order + "I", exif, at + 8)
        elif tag in _WIDTHS + _HEIGHTS and kind in (_SHORT, _LONG) and count == 1:
            number = size.width if tag in _WIDTHS else size.height
            struct.pack_into(order + ("H" if kind == _SHORT else "I"), exif, at + 8, number)
    return pointer
