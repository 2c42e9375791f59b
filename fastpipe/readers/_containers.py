"""Headers of PNG and WebP files, and whether a PNG or WebP is whole. No pixel is decoded here."""

from __future__ import annotations

import zlib
from struct import Struct

from fastpipe.readers._exif import orientation_of
from fastpipe.types import Header

__all__ = ["intact_png", "intact_webp", "parse_png", "parse_webp"]

_chunk = Struct(">I4s").unpack_from
_u32 = Struct(">I").unpack_from
_ihdr = Struct(">IIBBBBB").unpack_from

_PNG_COLORS = {0: (1, "L"), 2: (3, "RGB"), 3: (1, "P"), 4: (2, "LA"), 6: (4, "RGBA")}
# Chunks that change no pixel, neither in Pillow nor in libpng as OpenCV uses it.
_PNG_HARMLESS = frozenset({b"gAMA", b"cHRM", b"sRGB", b"pHYs", b"tEXt", b"tIME", b"eXIf"})


def parse_png(data: bytes) -> Header | None:
    """The header of a PNG, up to its pixels; None where it is cut off or Pillow had better say."""
    length = len(data)
    if length < 33 or _chunk(data, 8) != (13, b"IHDR"):
        return None
    width, height, depth, color, _, _, interlace = _ihdr(data, 16)
    if color not in _PNG_COLORS or not width or not height or interlace > 1:
        return None
    channels, mode = _PNG_COLORS[color]
    plain = depth == 8 and color in (0, 2)
    animated = transparent = False
    exif: bytes | None = None
    position = 33
    while True:
        if position + 8 > length:
            return None
        size, name = _chunk(data, position)
        if name == b"IDAT":
            break
        if position + 12 + size > length:
            return None
        if name == b"tRNS":
            transparent = True
        elif name == b"acTL":
            animated = size >= 4 and _u32(data, position + 8)[0] > 1
        elif name == b"eXIf":
            exif = data[position + 8 : position + 8 + size]
        elif name == b"iTXt":  # may hold XMP with an orientation
            return None
        plain = plain and name in _PNG_HARMLESS
        position += 12 + size
    return Header(
        "PNG",
        height,
        width,
        channels,
        depth,
        mode,
        None,
        interlace == 1,
        1 if exif is None else orientation_of(exif, None),
        animated,
        transparent,
        position,
        plain,
    )


def intact_png(data: bytes, header: Header) -> bool:
    """Whether every chunk up to IEND is there with the right checksum, and only pixels follow the header."""
    position, length = 8, len(data)
    view = memoryview(data)
    ended = False
    while position + 12 <= length:
        size, name = _chunk(data, position)
        end = position + 12 + size
        if end > length or zlib.crc32(view[position + 4 : end - 4]) != _u32(data, end - 4)[0]:
            return False
        if name == b"IEND":
            return ended
        if position >= header.data_offset:
            if name != b"IDAT":
                return False
            ended = True
        position = end
    return False


def parse_webp(data: bytes) -> Header | None:
    """The header of a WebP file; None where Pillow had better say."""
    if len(data) < 30:
        return None
    kind = data[12:16]
    size = int.from_bytes(data[16:20], "little")
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a" and not data[20] & 1:
        width = int.from_bytes(data[26:28], "little") & 0x3FFF
        height = int.from_bytes(data[28:30], "little") & 0x3FFF
        plain = _webp_length(data) == 20 + size + (size & 1)
        return Header("WEBP", height, width, 3, 8, "RGB", "4:2:0", data_offset=20, plain=plain)
    if kind == b"VP8L" and data[20] == 0x2F:
        bits = int.from_bytes(data[21:25], "little")
        alpha = bool(bits >> 28 & 1)
        plain = not alpha and not bits >> 29 and _webp_length(data) == 20 + size + (size & 1)
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        channels, mode = (4, "RGBA") if alpha else (3, "RGB")
        return Header("WEBP", height, width, channels, 8, mode, data_offset=20, plain=plain)
    return None


def _webp_length(data: bytes) -> int:
    return int.from_bytes(data[4:8], "little") + 8


def intact_webp(data: bytes, header: Header) -> bool:
    """Whether the file is as long as its RIFF header says."""
    return len(data) == _webp_length(data)
