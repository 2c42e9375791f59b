"""Damage that knows the format: what a header, an EXIF block, a scan or a directory could say, and shouldn't."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence

from fuzz.units import jpeg_units, png_units, tiff_units, webp_units

__all__ = ["INTERESTING", "OPERATIONS", "WIDE", "Operation"]

Operation = Callable[[random.Random, bytearray, Sequence[bytes]], bytearray]

INTERESTING = (0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 254, 255)
WIDE = (0, 1, 2, 255, 256, 1000, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)
_SIZES = (0, 1, 2, 7, 8, 9, 15, 16, 17, 26, 27, 28, 40, 41, 42, 64, 255, 4000, 65500, 65535)
_TAGS = (0x0100, 0x0101, 0x010E, 0x0112, 0x0112, 0x0112, 0x011A, 0x0132, 0x0201, 0x0202, 0x8298, 0x8769, 0x8825, 0xA005)
_LAST_FRAME = 0xCF


def _segment(marker: int, body: bytes) -> bytes:
    return bytes((0xFF, marker)) + struct.pack(">H", (len(body) + 2) & 0xFFFF) + body


def _inserted(rng: random.Random, data: bytearray, segment: bytes) -> bytearray:
    """With a segment at the beginning, or between any two."""
    units = jpeg_units(data)
    place = 2 if not units or rng.random() < 0.6 else rng.choice(units)[0]
    return data[:place] + segment + data[place:]


def _exif_block(rng: random.Random) -> bytes:
    """A directory of EXIF tags of any type, count and value, which may point anywhere."""
    order = rng.choice("<>")
    entries = b""
    count = rng.randint(0, 5)
    for _ in range(count):
        tag = rng.choice(_TAGS)
        kind = rng.choice((1, 2, 3, 3, 3, 4, 5, 7, 9, 10, 12, 13, 16, 0, 99))
        values = rng.choice((0, 1, 1, 1, 1, 2, 3, 4, 5, 8, 0xFFFF, 0xFFFFFFFF))
        where = rng.choice((rng.randrange(10), rng.randrange(200), rng.choice(WIDE)))
        if kind == 3 and rng.random() < 0.7:
            where = struct.unpack(order + "I", struct.pack(order + "HH", rng.randrange(10), 0))[0]
        entries += struct.pack(order + "HHII", tag, kind, values, where)
    stated = count if rng.random() < 0.9 else rng.choice((0, count + 1, 0xFFFF))
    start = 8 if rng.random() < 0.9 else rng.choice((0, 7, 9, 0xFFFFFFFF))
    mark = (b"II*\0" if order == "<" else b"MM\0*") if rng.random() < 0.95 else b"II+\0"
    after = struct.pack(order + "I", rng.choice((0, 0, 0, 8, 26, 0xFFFFFFFF)))
    return mark + struct.pack(order + "IH", start, stated) + entries + after + rng.randbytes(rng.choice((0, 0, 9, 60)))


def _xmp(rng: random.Random) -> bytes:
    form = rng.choice((b'tiff:Orientation="%d"', b"<tiff:Orientation>%d</tiff:Orientation>", b"tiff:Orientation='%d'"))
    return b"<rdf " + form % rng.randrange(12) + b"/>"


def _jpeg_exif(rng: random.Random, data: bytearray, files: Sequence[bytes]) -> bytearray:
    if rng.random() < 0.2:
        return _inserted(rng, data, _segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + _xmp(rng)))
    name = b"Exif\0\0" if rng.random() < 0.95 else rng.choice((b"Exif\0", b"Exif\0\1", b"exif\0\0"))
    return _inserted(rng, data, _segment(0xE1, name + _exif_block(rng)))


def _jpeg_colour(rng: random.Random, data: bytearray, files: Sequence[bytes]) -> bytearray:
    """The parts that decide on the colour space: Adobe's segment, JFIF's, the components' numbers."""
    if rng.random() < 0.5:  # without those that are there
        for start, end in reversed(jpeg_units(data)):
            if data[start + 1] in (0xE0, 0xEE):
                data = data[:start] + data[end:]
    choice = rng.random()
    if choice < 0.6:
        body = b"Adobe" + struct.pack(">HHHB", 100, 0, 0, rng.choice((0, 1, 2, 3, 255)))
        if rng.random() < 0.2:
            body = body[: rng.randrange(len(body))] + rng.choice((b"", bytes(9)))
        return _inserted(rng, data, _segment(0xEE, body))
    if choice < 0.75:
        body = b"JFIF\0" + rng.randbytes(9)
        return _inserted(rng, data, _segment(0xE0, body[: rng.choice((5, 9, 13, 14))]))
    names = rng.choice((b"RGB", b"rgb", b"YCC", bytes((0, 1, 2)), bytes((1, 1, 2)), bytes((1, 2, 3)), rng.randbytes(3)))
    for start, end in jpeg_units(data):
        marker = data[start + 1]
        if 0xC0 <= marker <= 0xC2 and end - start == 19:
            data[start + 10 : start + 19 : 3] = names
        elif marker == 0xDA and end - start > 12 and data[start + 4] == 3:
            data[start + 5 : start + 11 : 2] = names
    return data


def _jpeg_frame(rng: random.Random, data: bytearray, files: Sequence[bytes]) -> bytearray:
    """The frame's kind, size, precision, sampling factors and tables."""
    for start, end in jpeg_units(data):
        marker = data[start + 1]
        if not 0xC0 <= marker <= _LAST_FRAME or marker in (0xC4, 0xC8, 0xCC) or end - start < 13:
            continue
        choice = rng.randrange(5)
        if choice == 0:
            data[start + 1] = rng.choice((0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC9, 0xCA))
        elif choice == 1:
            struct.pack_into(">H", data, start + rng.choice((5, 7)), rng.choice(_SIZES))
        elif choice == 2:
            data[start + 4] = rng.choice((0, 1, 7, 8, 8, 9, 12, 16))
        elif choice == 3:
            factors = rng.choice((0x11, 0x12, 0x21, 0x22, 0x41, 0x14, 0x44, 0x13, 0x31, 0x00, 0x10, 0x51))
            data[min(start + 11 + 3 * rng.randrange(3), end - 2)] = factors
        else:
            data[min(start + 12 + 3 * rng.randrange(3), end - 1)] = rng.randrange(6)
    return data


def _jpeg_scan(rng: random.Random, data: bytearray, files: Sequence[bytes]) -> bytearray:
    """A scan's components, tables, band and bits, or damage to its data alone; most files have one scan, some ten."""
    scans = [(start, end) for start, end in jpeg_units(data) if data[start + 1] == 0xDA]
    if not scans:
        return data
    start, end = rng.choice(scans)
    first = min(start + 2 + int.from_bytes(data[start + 2 : start + 4], "big"), end)
    if first - start < 10:
        return data
    choice = rng.randrange(4)
    if choice == 0:
        data[first - rng.randint(1, 3)] = rng.choice((0, 1, 2, 5, 6, 0x10, 0x21, 0x20, 0x12, 62, 63, 64, 0xDD))
    elif choice == 1:
        data[rng.randrange(start + 4, first)] = rng.choice((0, 1, 2, 3, 4, 0x10, 0x11, 0x01, 0x22))
    elif choice == 2 and end > first:
        for _ in range(rng.choice((1, 1, 3))):  # no marker made, none lost
            place = rng.randrange(first, end)
            if data[place] != 0xFF and data[place - 1] != 0xFF:
                data[place] = rng.randrange(255)
    elif end > first:
        cut = rng.randrange(first, end)
        return data[:cut] + data[end:] if rng.random() < 0.5 else data[:cut] + rng.randbytes(5) + data[cut:]
    return data


def _jpeg_restart(rng: random.Random, data: bytearray, files: Sequence[bytes]) -> bytearray:
    """Another interval, or restart markers that are out of turn, doubled, missing, or where none belongs."""
    if rng.random() < 0.4:
        return _inserted(rng, data, _segment(0xDD, struct.pack(">H", rng.choice((0, 1, 2, 3, 4, 6, 100, 65535)))))
    marks = [at for at in range(2, len(data) - 1) if data[at] == 0xFF and 0xD0 <= data[at + 1] <= 0xD7]
    if marks and rng.random() < 0.8:
        place = rng.choice(marks)
        choice = rng.randrange(4)
        if choice == 0:
            data[place + 1] = 0xD0 + rng.randrange(8)
            return data
        if choice == 1:
            return data[:place] + data[place + 2 :]
        if choice == 2:
            return data[:place] + data[place : place + 2] + data[place:]
        return data[:place] + b"\xff" * rng.randint(1, 3) + data[place:]
    scans = [unit for unit in jpeg_units(data) if data[unit[0] + 1] == 0xDA]
    if not scans:
        return data
    place = rng.randrange(*rng.choice(scans))
    return data[:place] + bytes((0xFF, 0xD0 + rng.randrange(8))) + data[place:]


def _jpeg_length(rng: random.Random, data: bytearray, files: Sequence[bytes]) -> bytearray:
    """A segment that says a little more or less than it is long, or has more or less than it says."""
    units = jpeg_units(data)
    if not units:
        return data
    start, end = rng.choice(units)
    step = rng.choice((-64, -2, -1, 1, 2, 64))
    if start + 4 <= len(data) and rng.random() < 0.5:
        value = int.from_bytes(data[start + 2 : start + 4], "big") + step
        struct.pack_into(">H", data, start + 2, value & 0xFFFF)
        return data
    return data[: end + step] + data[end:] if step < 0 else data[:end] + bytes(step) + data[end:]


def _png_header(rng: random.Random, data: bytearray, files: Sequence[bytes]) -> bytearray:
    """Size, depth, colour, methods and interlacing."""
    if len(data) < 29:
        return data
    if rng.random() < 0.4:
        struct.pack_into(">I", data, rng.choice((16, 20)), rng.choice(_SIZES))
    else:
        place = rng.randrange(24, 29)
        data[place] = rng.choice(((1, 2, 4, 8, 16, 3), (0, 2, 3, 4, 6, 5), (0, 1), (0, 1, 64), (0, 1, 2))[place - 24])
    return data


def _png_split(rng: random.Random, data: bytearray, files: Sequence[bytes]) -> bytearray:
    """The pixels' data in two chunks, one of them perhaps empty, perhaps with another chunk between."""
    for start, end in png_units(data):
        if data[start + 4 : start + 8] == b"IDAT" and end - start >= 12:
            body = data[start + 8 : end - 4]
            cut = rng.randint(0, len(body))
            between = _png_chunk(rng) if rng.random() < 0.4 else b""
            parts = [struct.pack(">I", len(part)) + b"IDAT" + part + bytes(4) for part in (body[:cut], body[cut:])]
            return data[:start] + parts[0] + between + parts[1] + data[end:]
    return data


def _png_chunk(rng: random.Random) -> bytes:
    """An ancillary chunk; its checksum is made right later."""
    name = rng.choice(
        (b"eXIf", b"tRNS", b"iTXt", b"zTXt", b"tEXt", b"acTL", b"fcTL", b"iCCP", b"PLTE", b"vpAg", b"QQQQ")
    )
    body = {
        b"eXIf": _exif_block(rng),
        b"iTXt": b"XML:com.adobe.xmp\0\0\0\0\0" + _xmp(rng),
        b"tEXt": rng.choice((b"exif", b"xmp", b"transparency", b"Raw profile type exif", b"a"))
        + b"\0"
        + rng.randbytes(9),
        b"acTL": struct.pack(">II", rng.choice((0, 1, 2, 0xFFFFFFFF)), 0),
    }.get(name, rng.randbytes(rng.choice((0, 1, 2, 3, 6, 9, 26))))
    return struct.pack(">I", len(body)) + name + body + bytes(4)


def _png_more(rng: random.Random, data: bytearray, files: Sequence[bytes]) -> bytearray:
    units = png_units(data)
    place = rng.choice(units)[rng.randrange(2)] if units else len(data)
    return data[:place] + _png_chunk(rng) + data[place:]


def _webp_chunk(rng: random.Random, data: bytearray, files: Sequence[bytes]) -> bytearray:
    """A chunk's name, VP8X's flags and canvas, or the frame's size."""
    units = webp_units(data)
    if not units:
        return data
    start, end = rng.choice(units)
    choice = rng.random()
    if choice < 0.3:
        data[start : start + 4] = rng.choice((b"VP8 ", b"VP8L", b"VP8X", b"ANIM", b"ANMF", b"ALPH", b"ICCP", b"EXIF"))
    elif choice < 0.5:
        body = rng.choice((_exif_block(rng), b"Exif\0\0" + _exif_block(rng), rng.randbytes(6)))
        name = rng.choice((b"EXIF", b"XMP ", b"ICCP", b"ABCD"))
        return data[:end] + name + struct.pack("<I", len(body)) + body + bytes(len(body) & 1) + data[end:]
    elif data[start : start + 4] == b"VP8X" and end - start >= 18:
        data[start + rng.choice((8, 8, 12, 15))] = rng.choice((0, 1, 2, 8, 16, 32, 40, 48, 255))
    elif end - start >= 18:
        struct.pack_into("<H", data, start + rng.choice((9, 14, 16)), rng.choice(_SIZES))
    return data


def _tiff_entry(rng: random.Random, data: bytearray, files: Sequence[bytes]) -> bytearray:
    """A directory entry with another tag, type, count or value."""
    units = tiff_units(data)
    if not units:
        return data
    order = "<" if data[:2] == b"II" else ">"
    start, _ = rng.choice(units)
    field = rng.randrange(4)
    if field == 0:
        struct.pack_into(
            order + "H", data, start, rng.choice((254, 256, 257, 258, 259, 262, 273, 274, 277, 278, 279, 322))
        )
    elif field == 1:
        struct.pack_into(order + "H", data, start + 2, rng.choice((0, 1, 2, 3, 4, 5, 7, 9, 12, 13, 16)))
    elif field == 2:
        struct.pack_into(order + "I", data, start + 4, rng.choice((0, 1, 2, 3, 4, 100, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF)))
    else:
        value = rng.choice((*range(10), *_SIZES, 32773, 32946, 34892, 0x7FFFFFFF, 0xFFFFFFFF))
        struct.pack_into(order + ("H" if value < 1 << 16 and rng.random() < 0.7 else "I"), data, start + 8, value)
    return data


def _gif_block(rng: random.Random, data: bytearray, files: Sequence[bytes]) -> bytearray:
    """A frame's place, flags and code size, and the lengths of the blocks of its data."""
    frames = [at for at in range(13, len(data) - 12) if data[at] == 0x2C]
    if not frames:
        return data
    start = rng.choice(frames)
    choice = rng.randrange(4)
    if choice == 0:
        struct.pack_into("<H", data, start + rng.choice((1, 3, 5, 7)), rng.choice(_SIZES))
    elif choice == 1:
        data[start + 9] = rng.choice((0, 0x40, 0x80, 0x87, 0xC0, 0xE7))
    elif choice == 2:
        data[start + 10] = rng.choice((0, 1, 2, 5, 8, 9, 11, 12, 13, 255))
    else:
        data[start + 11] = rng.choice((0, 1, 254, 255))
    return data


def _bmp_header(rng: random.Random, data: bytearray, files: Sequence[bytes]) -> bytearray:
    """Size (from below or above), planes, depth, compression, colours."""
    if len(data) < 54:
        return data
    if rng.random() < 0.4:
        struct.pack_into("<i", data, rng.choice((18, 22)), rng.choice((1, -1)) * rng.choice(_SIZES))
    elif rng.random() < 0.5:
        struct.pack_into("<H", data, 28, rng.choice((0, 1, 2, 4, 8, 16, 24, 32, 64)))
    else:
        struct.pack_into(
            "<I", data, rng.choice((10, 14, 30, 46)), rng.choice((0, 1, 2, 3, 4, 6, 12, 40, 54, 108, 124, 256))
        )
    return data


OPERATIONS: dict[str, tuple[Operation, ...]] = {
    "jpeg": (_jpeg_exif, _jpeg_colour, _jpeg_frame, _jpeg_scan, _jpeg_scan, _jpeg_restart, _jpeg_length),
    "png": (_png_header, _png_split, _png_more),
    "webp": (_webp_chunk, _webp_chunk),
    "tiff": (_tiff_entry, _tiff_entry),
    "gif": (_gif_block, _gif_block),
    "bmp": (_bmp_header, _bmp_header),
}
"""Format → what is done to it beside the damage that serves all."""
