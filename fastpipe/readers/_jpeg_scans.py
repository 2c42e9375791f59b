"""Whether a JPEG's scans are whole, and have the tables that they need. No pixel is decoded here.

Where all is in order every copy of libjpeg-turbo gives the same pixels. Everything else is Pillow's.
"""

from __future__ import annotations

import itertools
import operator
import re

import numpy as np

from fastpipe.readers._jpeg import DHT, DQT, DRI, EOI, SOS, segments
from fastpipe.types import Header

MAX_SCANS = 500
"""More scans than this are refused: each goes over all of the image, and takes a few bytes of the file only."""

_SOF_BASELINE, _SOF_PROGRESSIVE, _COM = 0xC0, 0xC2, 0xFE
_NO_FRAME = {DHT, DQT, _COM, *range(0xE1, 0xEE), 0xEF}  # the colours depend on APP0 and APP14
_BLOCK_BYTES = 1 << 16
_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
_MANY_PIXELS = 1 << 25
# A block of 8×8 samples takes a bit at least, and with the oddest sampling there is one block for 128 pixels.
_PIXELS_A_BYTE = 1024


def empty_jpeg(data: bytes, header: Header) -> bool:
    """Whether a JPEG claims many pixels, and its bytes can't hold them.

    Pillow takes memory for all, gigabytes for a few hundred bytes, and gives them gray.
    """
    pixels = header.height * header.width
    if pixels <= _MANY_PIXELS or pixels <= _PIXELS_A_BYTE * len(data):
        return False
    markers = itertools.takewhile(lambda marker: marker != SOS, (marker for marker, _, _ in segments(data)))
    # In Huffman coding; arithmetic coding needs less than a bit.
    return any(_SOF_BASELINE <= marker <= _SOF_PROGRESSIVE for marker in markers)


def endless_jpeg(data: bytes, header: Header) -> bool:
    """Whether a JPEG has more than `MAX_SCANS` scans. Where there can only be one, none is looked for."""
    if (header.plain and not header.progressive) or data.count(b"\xff\xda") <= MAX_SCANS:
        return False
    position, scans = 2, 0
    while position >= 0 and scans <= MAX_SCANS:
        found = _MARKER.search(data, position)
        if found is None or found.start() + 4 > len(data) or data[found.start() + 1] == EOI:
            return False
        marker, position = data[found.start() + 1], found.start() + 2
        if marker >= 0xC0 and not 0xD0 <= marker <= EOI:
            position += int.from_bytes(data[position : position + 2], "big")
        scans += marker == SOS
    return scans > MAX_SCANS


def _scan_end(data: bytes, position: int) -> int:
    """The position of the first marker behind a scan's data, -1 if there is none.

    In a scan's data 0xFF is followed by 0 or a restart marker. numpy looks for anything else, as it is several times
    as fast as a regular expression; in blocks, as a progressive file has many scans.
    """
    for start in range(position, len(data) - 1, _BLOCK_BYTES):
        block = np.frombuffer(data, np.uint8, min(_BLOCK_BYTES + 1, len(data) - start), start)
        marked = block[:-1] == 0xFF
        marked &= block[1:] != 0
        first = int(marked.argmax())
        if marked[first]:
            found = _MARKER.search(data, start + first)  # at once, unless this is a restart marker or a fill byte
            return -1 if found is None else found.start()
    return -1


# The tables that a file defines are kept as bits: a Huffman table's number is 0 to 3, and 16 to 19 for those of the
# coefficients behind the first. A decoder that is used again still has the tables of the image before: a scan without
# its own would be decoded with these, and with libjpeg's defaults by another decoder.

_CODE_SHARES = [1 << length for length in range(15, -1, -1)]  # of all codes of 16 bits, those that begin with a code
_ALL_CODES, _MOST_SYMBOLS, _LARGEST_DC = (1 << 16) - 1, 256, 15


def _quantization_tables(data: bytes, start: int, end: int) -> int:
    """The tables of a DQT segment; -1 where it isn't in order."""
    tables = 0
    while start < end:
        kind = data[start]
        if kind & 15 > 3 or kind > 0x13:
            return -1
        tables |= 1 << (kind & 15)
        start += 129 if kind >> 4 else 65
    return tables if start == end else -1


def _huffman_tables(data: bytes, start: int, end: int) -> int:
    """The tables of a DHT segment; -1 where it isn't in order."""
    tables = 0
    while start < end:
        kind = data[start]
        counts = data[start + 1 : start + 17]
        # A code of ones alone is none, and libjpeg refuses such a table.
        if kind & 0xEF > 3 or sum(map(operator.mul, counts, _CODE_SHARES)) > _ALL_CODES:
            return -1
        symbols = start + 17
        start = symbols + sum(counts)
        if start - symbols > _MOST_SYMBOLS or (kind < 4 and max(data[symbols:start], default=0) > _LARGEST_DC):
            return -1
        tables |= 1 << kind
    return tables if start == end else -1


def intact_jpeg(data: bytes, header: Header) -> bool:
    """Whether the scans are complete, with their tables, and an end-of-image marker follows them.

    Pillow refuses a file that ends early, and a region decode wouldn't notice. In a progressive file every
    coefficient must have arrived in full and once, or libjpeg smooths what is missing and a region may differ.
    """
    quantization = huffman = position = 0
    frame = b""
    for marker, start, end in segments(data):  # the header has been parsed: its segments are in order
        if marker == SOS:
            position = start - 4
            break
        if marker == DHT:
            huffman |= _huffman_tables(data, start, end)
        elif marker == DQT:
            quantization |= _quantization_tables(data, start, end)
        elif _SOF_BASELINE <= marker <= _SOF_PROGRESSIVE:
            frame = data[start + 6 : end]
    components = frame[0::3]
    if quantization < 0 or huffman < 0 or len(set(components)) != header.channels:
        return False
    for table in frame[2::3]:
        if not quantization >> table & 1:
            return False
    if header.progressive:
        return _intact_progression(data, position, components, huffman)
    end = header.data_offset
    if end != position + 8 + 2 * len(components) or data[position + 5 : end - 3 : 2] != components:
        return False
    for pair in data[position + 6 : end - 3 : 2]:
        if not huffman >> (pair >> 4) & huffman >> (16 | (pair & 15)) & 1:
            return False
    position = _scan_end(data, end)
    return position >= 0 and data[position + 1] == EOI


def frame_of(data: bytes) -> bytes:
    """All of a JPEG's head that a decoder of its first scan goes by, but tables' content and the image's size."""
    parts: list[bytes] = []
    for marker, start, end in segments(data):
        if marker not in _NO_FRAME:
            size = 4 if _SOF_BASELINE <= marker <= _SOF_PROGRESSIVE else 0
            parts += data[start - 3 : start + 1], data[start + 1 + size : end]
        if marker == SOS:
            break
    return b"".join(parts)


def _intact_progression(data: bytes, position: int, components: bytes, huffman: int) -> bool:
    """Whether the scans from the first on bring every bit of every coefficient once, in order."""
    # Lowest bit not yet sent, by component and coefficient; -1 before anything came.
    missing = {component: [-1] * 64 for component in components}
    length = len(data)
    while 0 <= position < length - 4:
        marker = data[position + 1]
        start, end = position + 4, position + 2 + int.from_bytes(data[position + 2 : position + 4], "big")
        if end > length:
            return False
        if marker == SOS:
            if not _next_scan(data[start:end], missing, huffman):
                return False
            position = _scan_end(data, end)
        elif marker == DHT:
            huffman |= _huffman_tables(data, start, end)
            if huffman < 0:
                return False
            position = end
        elif marker in (DRI, _COM) or 0xE0 <= marker <= 0xEF:
            position = end
        else:
            return False
        if position < 0 or not _MARKER.match(data, position):
            return False
        if data[position + 1] == EOI:
            return not any(any(bits) for bits in missing.values())
    return False


def _next_scan(scan: bytes, missing: dict[int, list[int]], huffman: int) -> bool:
    """Note what a scan brings; False where it isn't what comes next, or a table isn't there."""
    if not scan or len(scan) != 4 + 2 * scan[0] or not 1 <= scan[0] <= 4:
        return False
    first, last, high, low = scan[-3], scan[-2], scan[-1] >> 4, scan[-1] & 15
    if first > last or last > 63:
        return False
    for component, pair in zip(scan[1:-3:2], scan[2:-3:2], strict=True):
        bits = missing.get(component)
        # The bits behind the highest of a first coefficient are sent without a table.
        table = 16 | (pair & 15) if first else pair >> 4
        if bits is None or not (huffman >> table & 1 or (high and not first)):
            return False
        expected = high or -1
        for coefficient in range(first, last + 1):
            if bits[coefficient] != expected:
                return False
            bits[coefficient] = low
    return True
