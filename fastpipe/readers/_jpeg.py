"""The header of a JPEG file. No pixel is decoded here.

Markers and segments are those of ITU-T T.81. What is out of the ordinary gets ``None`` or False, and Pillow decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError

from fastpipe.errors import DecodeError
from fastpipe.readers._exif import orientation_of, pillow_may_refuse
from fastpipe.types import Header

MAYBE_MPO = "JPEG or MPO"
"""The format of a JPEG with a multi-picture index, until Pillow has said what it takes the index for."""

_u16 = Struct(">H").unpack_from
_frame = Struct(">BHHB").unpack_from

_MIN_SEGMENT = 2
# Pillow refuses a file whose JFIF or Adobe segment ends before its version, or an ICC segment before its number.
_MIN_VERSION, _MIN_PROFILE = 9, 16
DHT, EOI, SOS, DQT, DRI, FILL = 0xC4, 0xD9, 0xDA, 0xDB, 0xDD, 0xFF
_RESERVED, _COM = 0xF0, 0xFE
_NO_FRAME = (0xC8, 0xCC)  # reserved, and arithmetic conditioning

# (horizontal, vertical) factors of the three components → the common name. With these, and all of libjpeg-turbo's
# decoders alike, a region decode has been shown equal to a full one.
_SUBSAMPLING = {
    bytes((0x11, 0x11, 0x11)): "4:4:4",
    bytes((0x21, 0x11, 0x11)): "4:2:2",
    bytes((0x22, 0x11, 0x11)): "4:2:0",
    bytes((0x12, 0x11, 0x11)): "4:4:0",
    bytes((0x41, 0x11, 0x11)): "4:1:1",
}

# Pillow takes a while for each, and joins Exif segments again with every one: a file could keep it for hours.
_MAX_SEGMENTS = 10_000
_MAX_EXIF_BYTES = 1 << 20


def segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """The marker of each segment, where its content starts and where the next one is, which may lie behind the data.

    A fill byte is one of its own. Ends where no marker follows, as behind the first scan's header.
    """
    position = 2
    while position + 4 <= len(data) and data[position] == 0xFF:
        marker = data[position + 1]
        end = position + (1 if marker == FILL else 2 + _u16(data, position + 2)[0])
        yield marker, position + 4, end
        position = end


def parse_jpeg(data: bytes, source: str = "<bytes>") -> Header | None:
    """The header of a JPEG; None where it is cut off, or so odd that Pillow had better say.

    Its format is `MAYBE_MPO` where there is a multi-picture index.

    Args:
        data: the file, or its beginning.
        source: what an error calls it.

    Raises:
        DecodeError: a header that can only be meant to keep its reader busy.
    """
    length = len(data)
    adobe = -1
    jfif = multi_picture = quantized = False
    exif: bytes | None = None
    xmp: bytes | None = None
    frame: tuple[int, int, int, int] | None = None
    components = b""
    sof = 0
    ordinary = True
    try:
        for number, (marker, start, end) in enumerate(segments(data)):
            if number == _MAX_SEGMENTS:
                raise _refusal(source, f"it has more than {_MAX_SEGMENTS} segments before its pixels")
            if marker == FILL:
                continue
            size = end - start + 2
            if marker < 0xC0 or 0xD0 <= marker <= EOI or size < _MIN_SEGMENT or end > length:
                return None
            if marker == SOS:
                break
            if marker >= 0xE0:
                if _RESERVED <= marker < _COM:
                    ordinary = False  # Pillow looks for markers in its data
                elif marker == 0xE1:
                    if data.startswith(b"Exif\0\0", start):
                        # Pillow joins several Exif segments; the fast way is for one.
                        exif = data[start:end] if exif is None else exif + data[start + 6 : end]
                        if len(exif) > _MAX_EXIF_BYTES:
                            raise _refusal(source, f"it has more than {_MAX_EXIF_BYTES} bytes of EXIF data")
                    elif data.startswith(b"http://ns.adobe.com/xap/1.0/\0", start):
                        xmp = data[start:end]
                elif marker == 0xE2:
                    multi_picture = multi_picture or data.startswith(b"MPF\0", start)
                    if size < _MIN_PROFILE and data.startswith(b"ICC_PROFILE\0", start):
                        return None
                elif marker == 0xE0:
                    if data.startswith(b"JFIF", start):
                        if size < _MIN_VERSION:
                            return None
                        jfif = jfif or (size >= 16 and data[start + 4] == 0)
                elif marker == 0xEE:
                    if data.startswith(b"Adobe", start):
                        if size < _MIN_VERSION:
                            return None
                        if size >= 14:
                            adobe = data[start + 11]
                elif marker == 0xED and data.startswith(b"8BIM", end - 6):  # ends where Pillow wants a name's length
                    return None
            elif marker == DQT:
                quantized = True
                if not _whole_tables(data[start:end]):
                    return None
            elif 0xC0 <= marker <= 0xCF:
                if marker != DHT:
                    if frame is not None or marker in _NO_FRAME:
                        return None
                    sof = marker
                    frame = _frame(data, start)
                    components = data[start + 6 : end]
            elif marker != DRI:
                ordinary = False
        else:
            return None
    except (IndexError, StructError):  # the data ends here
        return None
    if frame is None or not ordinary or (exif is not None and pillow_may_refuse(exif)):
        return None
    bits, height, width, channels = frame
    if len(components) != 3 * channels or not height or not width:
        return None
    factors, identifiers = components[1::3], components[0::3]
    subsampling: str | None
    if channels == 1:
        color, subsampling = "L", None
        known = factors == b"\x11"
    elif channels == 3:
        subsampling = _SUBSAMPLING.get(factors)
        known = subsampling is not None
        color = _color_space(jfif, adobe, identifiers)
        subsampling = subsampling or "unknown"
        # RGB with subsampled components has no name in TurboJPEG, and Adobe's unknown transforms warn.
        known = known and (adobe in (-1, 0, 1) or jfif) and (color == "YCbCr" or subsampling == "4:4:4")
    elif channels == 4:
        color, subsampling, known = "YCCK" if adobe == 2 else "CMYK", "unknown", False
        if factors == b"\x11\x11\x11\x11":
            subsampling = "4:4:4"
    else:
        return None
    first = data[start:end]
    # All components in the first scan, or a progressive file: what libjpeg decodes without holes.
    whole = len(first) > 0 and (sof == 0xC2 or first[0] == channels)
    return Header(
        MAYBE_MPO if multi_picture else "JPEG",
        height,
        width,
        channels,
        bits,
        color,
        subsampling,
        sof in (0xC2, 0xC6, 0xCA, 0xCE),
        1 if exif is None and xmp is None else orientation_of(exif, xmp),
        False,
        False,
        end,
        known and quantized and whole and bits == 8 and 0xC0 <= sof <= 0xC2,
    )


def _whole_tables(segment: bytes) -> bool:
    """Whether a segment of quantization tables ends with one: else Pillow refuses the file."""
    position = 0
    while position < len(segment):
        position += 1 + (128 if segment[position] >> 4 else 64)
    return position == len(segment)


def _refusal(source: str, reason: str) -> DecodeError:
    return DecodeError(source, "JPEG", "pil", reason)


def _color_space(jfif: bool, adobe: int, identifiers: bytes) -> str:
    """libjpeg's rule (jdapimin.c, default_decompress_parms) for three components."""
    if jfif:
        return "YCbCr"
    if adobe >= 0:
        return "RGB" if adobe == 0 else "YCbCr"
    return "RGB" if identifiers == b"RGB" else "YCbCr"
