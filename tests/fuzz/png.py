"""The rows of a PNG above damage: a box above it is decoded, where all checksums are right."""

from __future__ import annotations

import struct
import zlib

import corpus

from fastpipe.readers import Header

_LONGEST_MATCH = 258


def rows_above(data: bytes, header: Header, bottom: int) -> bytes | None:
    """A PNG of the same chunks that ends above a row; none where a checksum is wrong, or a row isn't there.

    None where it is too short for zlib to tell.
    """
    position, before, stream, after = 33, b"", b"", b""
    while position + 12 <= len(data):
        size = int.from_bytes(data[position : position + 4], "big")
        chunk = data[position : position + 12 + size]
        if zlib.crc32(chunk[4:-4]) != int.from_bytes(chunk[-4:], "big"):
            return b""
        if chunk[4:8] == b"IDAT":
            stream += chunk[8:-4]
        elif stream:
            after += chunk
        else:
            before += chunk
        position += 12 + size
    length = 1 + (header.width * header.channels * header.bit_depth + 7) // 8
    inflate, rows = zlib.decompressobj(-15), bytearray()
    try:
        for number in range(2, len(stream)):
            rows += inflate.decompress(stream[number : number + 1])
            if len(rows) >= length * bottom:
                break
    except zlib.error:
        # The code behind the last row may be the wrong one: what came before it in the same byte is lost with it.
        if len(rows) + _LONGEST_MATCH < length * bottom:
            return b""
    bottom = min(bottom, len(rows) // length)
    if not bottom:
        return None
    head = data[16:20] + struct.pack(">I", bottom) + data[24:29]
    return (
        data[:8]
        + corpus.chunk(b"IHDR", head)
        + before
        + corpus.chunk(b"IDAT", zlib.compress(rows[: length * bottom], 1))
        + after
    )
