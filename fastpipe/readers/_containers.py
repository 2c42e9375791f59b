"""Headers of PNG and WebP files, and whether a PNG or WebP is whole. No pixel is decoded here."""

from __future__ import annotations

import zlib
from struct import Struct

from fastpipe.readers._exif import orientation_of
from fastpipe.types import Header

_chunk = Struct(">I4s").unpack_from
_u32 = Struct(">I").unpack_from
_WEBP_PROFILE = 0x20  # the flag of an ICC profile

_ihdr = Struct(">IIBBBBB").unpack_from

_PNG_COLORS = {0: (1, "L"), 2: (3, "RGB"), 3: (1, "P"), 4: (2, "LA"), 6: (4, "RGBA")}
_PNG_DEPTHS = frozenset(
    (depth, color) for color in _PNG_COLORS for depth in ((8, 16) if color in (2, 4, 6) else (1, 2, 4, 8, 16))
) - {(16, 3)}
# Chunks that change no pixel, neither in Pillow nor in libpng as OpenCV uses it; with the length that Pillow expects.
_PNG_HARMLESS = {b"gAMA": 4, b"cHRM": 32, b"sRGB": 1, b"pHYs": 9, b"tIME": 7, b"eXIf": 0, b"tEXt": 0, b"iTXt": 0}
# Pillow keeps texts beside what it knows of the image, under the same keys.
_PNG_SPECIAL_TEXTS = frozenset(
    {b"transparency", b"exif", b"xmp", b"icc_profile", b"Raw profile type exif", b"interlace", b"bbox"}
)
_XMP_KEY = b"XML:com.adobe.xmp"
_TEXTS = frozenset({b"tEXt", b"zTXt", b"iTXt"})
_MAX_ANCILLARY_BYTES = 1 << 20  # as PngImagePlugin.MAX_TEXT_CHUNK, beyond which Pillow may refuse


def parse_png(data: bytes) -> Header | None:
    """The header of a PNG, up to its pixels; None where it is cut off or Pillow had better say."""
    length = len(data)
    if length < 33 or _chunk(data, 8) != (13, b"IHDR"):
        return None
    width, height, depth, color, compression, filters, interlace = _ihdr(data, 16)
    if (depth, color) not in _PNG_DEPTHS or not width or not height or compression or filters or interlace > 1:
        return None
    channels, mode = _PNG_COLORS[color]
    plain = depth == 8 or (depth in (1, 2, 4) and color in (0, 3))
    animated = transparent = palette = False
    exif: bytes | None = None
    xmp: bytes | None = None
    position = 33
    while True:
        if position + 8 > length:
            return None
        size, name = _chunk(data, position)
        if name == b"IDAT":
            break
        start, end = position + 8, position + 8 + size
        if end + 4 > length:
            return None
        if name == b"IHDR" or name == b"IEND":
            return None  # Pillow takes the last IHDR, and nothing behind an IEND
        if name == b"tRNS":
            transparent = True
        elif name == b"acTL":
            animated = size >= 4 and _u32(data, start)[0] > 1
        elif name == b"eXIf":
            exif = data[start:end]
        elif name in _TEXTS:
            key = data[start : data.find(b"\0", start, end)]
            if key in _PNG_SPECIAL_TEXTS or (key == _XMP_KEY and xmp is not None):
                return None
            if key == _XMP_KEY:
                parts = data[start + len(key) + 3 : end].split(b"\0", 2)  # language, translated key, text
                if name != b"iTXt" or _compressed_text(data[start:end]) or len(parts) < 3:
                    return None
                xmp = parts[2]
        if name == b"PLTE" and color == 3:
            # Only a full palette has a colour for every index; where one is missing, decoders differ.
            palette = size == 3 << depth
        elif plain and not _harmless(name, data, start, end):
            plain = False
        position = end + 4
    return Header(
        "PNG",
        height,
        width,
        channels,
        depth,
        mode,
        None,
        interlace == 1,
        1 if exif is None and xmp is None else orientation_of(exif, xmp),
        animated,
        transparent,
        position,
        plain and palette == (color == 3),
    )


def _compressed_text(text: bytes) -> bool:
    """Whether the text of an iTXt chunk is compressed, or the chunk too short to say."""
    flag = text.find(b"\0") + 1
    return not 0 < flag < len(text) or text[flag] != 0


def _harmless(name: bytes, data: bytes, start: int, end: int) -> bool:
    """Whether a chunk changes no pixel and Pillow doesn't refuse it; of a profile, see `_small_profile`, too."""
    if name == b"iCCP":
        method = data.find(b"\0", start, end) + 1
        return start < method < end and not data[method]
    size = _PNG_HARMLESS.get(name, -1)
    if name == b"iTXt" and _compressed_text(data[start:end]):
        return False
    return size == 0 or size == end - start


def _small_profile(data: bytes, start: int, end: int) -> bool:
    """Whether a profile can be inflated, and isn't so long that Pillow refuses it."""
    inflate = zlib.decompressobj()
    try:
        inflate.decompress(data[data.find(b"\0", start, end) + 2 : end], _MAX_ANCILLARY_BYTES)
    except zlib.error:
        return False
    return not inflate.unconsumed_tail


def intact_png(data: bytes, header: Header) -> bool:
    """Whether every chunk up to IEND is there with the right checksum, and harmless where it isn't pixels."""
    position, length, ancillary = 8, len(data), 0
    view = memoryview(data)
    started = finished = False
    while position + 12 <= length:
        size, name = _chunk(data, position)
        end = position + 12 + size
        if end > length or zlib.crc32(view[position + 4 : end - 4]) != _u32(data, end - 4)[0]:
            return False
        if name == b"iCCP" and not _small_profile(data, position + 8, end - 4):
            return False
        if name == b"IEND":
            return started and ancillary <= _MAX_ANCILLARY_BYTES
        if name == b"IDAT":
            if finished:
                return False
            started = True
        else:
            ancillary += size
            if started:
                finished = True
                key = data[position + 8 : data.find(b"\0", position + 8, end - 4)] if name in _TEXTS else b""
                if key in _PNG_SPECIAL_TEXTS or not _harmless(name, data, position + 8, end - 4):
                    return False
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
    if kind == b"VP8X" and size == 10:
        return _parse_extended_webp(data)
    return None


def _parse_extended_webp(data: bytes) -> Header | None:
    """A WebP with a colour profile; Pillow describes those with frames, transparency or EXIF data."""
    if data[20] & ~_WEBP_PROFILE:
        return None
    position = 30
    while position + 30 <= len(data):
        kind, size = data[position : position + 4], int.from_bytes(data[position + 4 : position + 8], "little")
        if kind in (b"VP8 ", b"VP8L"):
            # As if the file began here: the same RIFF length, without what came before.
            length = max(_webp_length(data) - position + 4, 0).to_bytes(5, "little")[:4]
            inner = parse_webp(b"RIFF" + length + b"WEBP" + data[position : position + 18])
            canvas = (int.from_bytes(data[27:30], "little") + 1, int.from_bytes(data[24:27], "little") + 1)
            if inner is None or inner.size != canvas:
                return None
            return inner._replace(data_offset=position + 8)
        if kind != b"ICCP":
            return None
        position += 8 + size + (size & 1)
    return None


def _webp_length(data: bytes) -> int:
    return int.from_bytes(data[4:8], "little") + 8


def intact_webp(data: bytes, header: Header) -> bool:
    """Whether the file is as long as its RIFF header says."""
    return len(data) == _webp_length(data)
