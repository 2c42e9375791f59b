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
    """What is in a file: coefficients of each component as ``(rows of blocks, blocks, 64)``, in natural order."""

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
    head_size, rows_size, segments_size, trailer_size, rest_sum, more_zero = struct.unpack_from("<IQQQII", data, 36)
    assert zero == more_zero == 0
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
    assert len(rest) == segments_size + trailer_size
    assert zlib.crc32(rest) == rest_sum
    return PackedImage(
        (height, width),
        color,
        orientation,
        factors,
        [tables[number] for _, _, _, number in planes],
        coefficients,
        rest[:segments_size],
        rest[segments_size:],
    )
