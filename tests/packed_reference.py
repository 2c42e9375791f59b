"""A reader of packed images in plain Python, from ``fastpipe/core/packed_format.md`` alone: slow and obvious."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import numpy as np

ZIGZAG = [
    *(0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21),
    *(28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61),
    *(54, 47, 55, 62, 63),
]


@dataclass
class PackedImage:
    """The content of a file: coefficients of each component as ``(rows of blocks, blocks, 64)``, in natural order."""

    size: tuple[int, int]
    color: int
    orientation: int
    factors: list[tuple[int, int]]
    tables: list[np.ndarray]
    coefficients: list[np.ndarray]
    segments: bytes
    trailer: bytes


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


class Bits:
    """Bits or nibbles of a stream, the lowest of each byte first."""

    def __init__(self, data: bytes, width: int) -> None:
        mask = (1 << width) - 1
        self.items = [byte >> shift & mask for byte in data for shift in range(0, 8, width)]


def read_row(data: bytes, blocks: int) -> list[np.ndarray]:
    """The blocks of a row of MCUs, with the differences of their DCs."""
    position = 0

    def take(size: int) -> bytes:
        nonlocal position
        part = data[position : position + size]
        assert len(part) == size
        position += size
        return part

    lengths = Bits(take(ceil_div(blocks, 2)), 4).items[:blocks]
    dcs = take(blocks)
    masks = [int.from_bytes(take(length), "little") for length in lengths]
    count = sum(mask.bit_count() for mask in masks)
    kinds = Bits(take(ceil_div(count, 8)), 1).items[:count]
    signs = Bits(take(ceil_div(count, 8)), 1).items[:count]
    pairs = list(zip(kinds, signs, strict=True))
    smalls = iter(Bits(take(ceil_div(pairs.count((1, 0)), 2)), 4).items)
    larges = take(pairs.count((1, 1)))
    wides = iter(struct.unpack(f"<{larges.count(0x80)}h", take(2 * larges.count(0x80))))
    wide_dcs = iter(struct.unpack(f"<{dcs.count(0x80)}h", take(2 * dcs.count(0x80))))
    assert position == len(data)
    large = iter(larges)

    def value(kind: int, sign: int) -> int:
        if not kind:
            return -1 if sign else 1
        if not sign:
            nibble = next(smalls)
            return -(nibble & 7) - 2 if nibble & 8 else (nibble & 7) + 2
        byte = next(large)
        return next(wides) if byte == 0x80 else byte - 256 if byte > 127 else byte

    found, pair = [], iter(pairs)
    for mask, dc in zip(masks, dcs, strict=True):
        block = np.zeros(64, np.int16)
        block[0] = next(wide_dcs) if dc == 0x80 else dc - 256 if dc > 127 else dc
        for bit in range(63):
            if mask >> bit & 1:
                block[ZIGZAG[bit + 1]] = value(*next(pair))
        found.append(block)
    return found


def mended(packed: bytes) -> bytes:
    """The file with its checksums made right, as far as the sizes in its head are those of parts that are there."""
    data = bytearray(packed)
    size = struct.unpack_from("<I", data, 36)[0] if len(data) >= 72 else 0
    if not 72 + 128 * (data[22] if size else 0) + 4 <= size <= len(data):
        return packed
    at = size
    for entry in range(72 + 128 * data[22], size - 4, 8):
        (length,) = struct.unpack_from("<I", data, entry)
        struct.pack_into("<I", data, entry + 4, zlib.crc32(data[at : at + length]))
        at += length
    struct.pack_into("<I", data, 64, zlib.crc32(data[at:]))
    struct.pack_into("<I", data, size - 4, zlib.crc32(data[: size - 4]))
    return bytes(data)


def read(data: bytes) -> PackedImage:
    """All of a file; every checksum is checked."""
    assert data[:8] == b"\x89FPJ\r\n\x1a\n"
    version, components, color, height, width, orientation, _, table_count, zero = struct.unpack_from(
        "<HBBIIBBBB", data, 8
    )
    assert version == 1
    planes = [struct.unpack_from("<4B", data, 24 + 4 * i) for i in range(components)]
    head_size, rows_size, segments_size, trailer_size, rest_sum, original_size = struct.unpack_from("<IQQQII", data, 36)
    assert zero == 0
    tables = [np.frombuffer(data, "<u2", 64, 72 + 128 * k) for k in range(table_count)]
    factors = [(horizontal, vertical) for _, horizontal, vertical, _ in planes]
    largest_horizontal, largest_vertical = (max(one) for one in zip(*factors, strict=True))
    rows = ceil_div(height, 8 * largest_vertical)
    index = 72 + 128 * table_count
    assert head_size == index + 8 * rows + 4
    assert zlib.crc32(data[: head_size - 4]) == struct.unpack_from("<I", data, head_size - 4)[0]
    shapes = [
        (
            ceil_div(ceil_div(height * vertical, largest_vertical), 8),
            ceil_div(ceil_div(width * horizontal, largest_horizontal), 8),
        )
        for horizontal, vertical in factors
    ]
    coefficients = [np.zeros((*shape, 64), np.int16) for shape in shapes]
    at = head_size
    for row in range(rows):
        size, checksum = struct.unpack_from("<II", data, index + 8 * row)
        body = data[at : at + size]
        at += size
        assert zlib.crc32(body) == checksum
        parts = [
            range(row * vertical, min((row + 1) * vertical, high))
            for (_, vertical), (high, _) in zip(factors, shapes, strict=True)
        ]
        blocks = iter(read_row(body, sum(len(part) * wide for part, (_, wide) in zip(parts, shapes, strict=True))))
        for component, part in enumerate(parts):
            above = 0
            for y in part:
                left = above
                for x in range(shapes[component][1]):
                    block = next(blocks)
                    left = (left + int(block[0]) + 0x8000) % 0x10000 - 0x8000
                    block[0] = left
                    coefficients[component][y, x] = block
                    above = left if x == 0 else above
    assert at == head_size + rows_size
    rest = data[at:]
    assert len(rest) == segments_size + trailer_size + original_size
    assert zlib.crc32(rest) == rest_sum
    return PackedImage(
        (height, width),
        color,
        orientation,
        factors,
        [tables[number] for _, _, _, number in planes],
        coefficients,
        rest[:segments_size],
        rest[segments_size : segments_size + trailer_size],
    )


# ---- the JPEG's own bytes ----

# T.81's codes (annex K.3): how many of each length, and the symbols.
_DC_CODES = ["00010501010101010100000000000000", "00030101010101010101010000000000"]
_DC_SYMBOLS = bytes(range(12)).hex()
_AC_CODES = [
    (
        "0002010303020403050504040000017d",
        "01020300041105122131410613516107227114328191a1082342b1c11552d1f02433627282090a161718191a25262728292a3435363738"
        "393a434445464748494a535455565758595a636465666768696a737475767778797a838485868788898a92939495969798999aa2a3a4a5"
        "a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9fa",
    ),
    (
        "00020102040403040705040400010277",
        "0001020311040521310612415107617113223281081442"
        "91a1b1c109233352f0156272d10a162434e125f11718191a262728292a35363738393a434445464748494a535455565758595a63646566"
        "6768696a737475767778797a82838485868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8"
        "c9cad2d3d4d5d6d7d8d9dae2e3e4e5e6e7e8e9eaf2f3f4f5f6f7f8f9fa",
    ),
]


@dataclass
class OriginalSection:
    """The parts of a JPEG that are kept beside coefficients, segments and trailer."""

    about: bytes
    length: int
    outline: bytes
    padding: int
    ends: bytes
    dummies: bytes


def read_original(data: bytes) -> OriginalSection | None:
    """The section of a JPEG's own bytes; None where there is none."""
    (size,) = struct.unpack_from("<I", data, 68)
    section, at = data[len(data) - size :], 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = section[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def take(count: int) -> bytes:
        nonlocal at
        at += count
        assert at <= len(section)
        return section[at - count : at]

    if not size:
        return None
    about, length, outline_size = take(number()), number(), number()
    text = bytearray(_usual_text(data))
    start, end = len(text), number()
    end += at
    while at < end:
        token = number()
        if token & 1:
            place = number()
            assert place + (token >> 1) <= len(text)
            text += text[place : place + (token >> 1)]
        else:
            text += take(token >> 1)
    assert at == end
    assert len(text) == start + outline_size
    padding, ends = number(), take(number())
    return OriginalSection(about, length, bytes(text[start:]), padding, ends, section[at:])


def with_original(packed: bytes, section: bytes) -> bytes:
    """The file with another section of the JPEG's own bytes, and right checksums; ``b""`` leaves it out."""
    data = bytearray(packed)
    (size,) = struct.unpack_from("<I", data, 68)
    del data[len(data) - size :]
    struct.pack_into("<I", data, 68, len(section))
    return mended(bytes(data + section))


def _usual_text(data: bytes) -> bytes:
    """The text that outlines are copied from."""
    count, height, width = data[10], *struct.unpack_from("<II", data, 12)
    text = b"\xff\xd8\xff\xe0"
    for number in range(data[22]):
        table = struct.unpack_from("<64H", data, 72 + 128 * number)
        wide = max(table) > 255
        text += b"\xff\xdb" + struct.pack(">HB", 131 if wide else 67, wide << 4 | number)
        text += struct.pack(">64H" if wide else ">64B", *(table[place] for place in ZIGZAG))
    planes = [data[24 + 4 * i : 28 + 4 * i] for i in range(count)]
    text += struct.pack(">BBHBHHB", 0xFF, data[21], 8 + 3 * count, 8, height, width, count)
    text += b"".join(bytes([name, across << 4 | down, table]) for name, across, down, table in planes)
    for number in range(2):
        codes = [(number, _DC_CODES[number], _DC_SYMBOLS), (0x10 | number, *_AC_CODES[number])]
        for kind, lengths, symbols in codes:
            body = bytes([kind]) + bytes.fromhex(lengths + symbols)
            text += b"\xff\xc4" + struct.pack(">H", 2 + len(body)) + body
    text += b"\xff\xda" + struct.pack(">HB", 6 + 2 * count, count)
    text += b"".join(bytes([plane[0], 0x11 if i else 0]) for i, plane in enumerate(planes))
    return text + b"\x00\x3f\x00\xff\xd9"
