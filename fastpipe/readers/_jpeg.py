"""The segments of a JPEG, and checks for JPEGs made to keep a decoder busy. No pixel is decoded here.

Markers and segments are defined in ITU-T T.81.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from struct import Struct

from fastpipe.errors import DecodeError
from fastpipe.types import Header

_u16 = Struct(">H").unpack_from

EOI, SOS, FILL = 0xD9, 0xDA, 0xFF
_SOF_BASELINE, _SOF_PROGRESSIVE, _APP1 = 0xC0, 0xC2, 0xE1
_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")

# Pillow takes a while for each segment, and rejoins all Exif segments at each: a file could keep it busy for hours.
_MAX_SEGMENTS = 10_000
_MAX_EXIF_BYTES = 1 << 20
MAX_SCANS = 500
"""The most scans: each goes over the whole image, and takes only a few bytes of the file."""
_MANY_PIXELS = 1 << 25
# A block of 8×8 samples takes a bit at least, and the oddest sampling has one block for 128 pixels.
_PIXELS_A_BYTE = 1024


def segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yields for each segment its marker, the start of its content, and the start of the next one.

    The last start may be past the end. A fill byte counts as a segment. Stops where no marker follows, as after the
    first scan's header.
    """
    position = 2
    while position + 4 <= len(data) and data[position] == 0xFF:
        marker = data[position + 1]
        end = position + (1 if marker == FILL else 2 + _u16(data, position + 2)[0])
        yield marker, position + 4, end
        position = end


def refuse_absurd_head(data: bytes, source: str) -> bool:
    """Refuses a JPEG whose head takes Pillow hours; returns True if the head goes on after the given data.

    Args:
        data: the file, or its beginning.
        source: the file's name in errors.

    Raises:
        DecodeError: the head is absurd; the error names Pillow as the reader.
    """
    exif_bytes = end = 0
    for number, (marker, start, end) in enumerate(segments(data)):
        if number == _MAX_SEGMENTS:
            raise _refusal(source, "JPEG", f"it has more than {_MAX_SEGMENTS} segments before its pixels")
        if marker == _APP1 and data.startswith(b"Exif\0\0", start):
            exif_bytes += end - start
            if exif_bytes > _MAX_EXIF_BYTES:
                raise _refusal(source, "JPEG", f"it has more than {_MAX_EXIF_BYTES} bytes of EXIF data")
        if marker == SOS:
            return end > len(data)
    return end + 4 > len(data)


def refuse_bombs(data: bytes, header: Header, source: str) -> None:
    """Refuses a JPEG of a few bytes that takes Pillow gigabytes of memory, or minutes.

    Raises:
        DecodeError: it is such a file; the error names Pillow as the reader.
    """
    if _is_endless(data, header):
        reason = f"it has more than {MAX_SCANS} scans, each of which goes over all of the image"
        raise _refusal(source, header.format, reason)
    if _is_empty(data, header):
        reason = f"its {len(data)} bytes can't hold the {header.height}×{header.width} pixels that it claims"
        raise _refusal(source, header.format, reason)


def _is_empty(data: bytes, header: Header) -> bool:
    """True if a JPEG claims more pixels than its bytes can hold: Pillow would allocate all, and make them gray."""
    pixels = header.height * header.width
    if pixels <= _MANY_PIXELS or pixels <= _PIXELS_A_BYTE * len(data):
        return False
    markers = itertools.takewhile(lambda marker: marker != SOS, (marker for marker, _, _ in segments(data)))
    # Only for Huffman coding; arithmetic coding may need less than a bit for a block.
    return any(_SOF_BASELINE <= marker <= _SOF_PROGRESSIVE for marker in markers)


def _is_endless(data: bytes, header: Header) -> bool:
    """True if a JPEG has more than `MAX_SCANS` scans; doesn't search where the header allows only one."""
    if (header.plain and not header.progressive) or data.count(b"\xff\xda") <= MAX_SCANS:
        return False
    position, scans = 2, 0
    while position >= 0 and scans <= MAX_SCANS:
        marked = _MARKER.search(data, position)
        if marked is None or marked.start() + 4 > len(data) or data[marked.start() + 1] == EOI:
            return False
        marker, position = data[marked.start() + 1], marked.start() + 2
        if marker >= 0xC0 and not 0xD0 <= marker <= EOI:
            position += int.from_bytes(data[position : position + 2], "big")
        scans += marker == SOS
    return scans > MAX_SCANS


def _refusal(source: str, format: str, reason: str) -> DecodeError:
    return DecodeError(source, format, "pil", reason)
