"""Where the parts of each format begin and end: segments, chunks, directory entries, fields of headers."""

from __future__ import annotations

from collections.abc import Callable


def jpeg_units(data: bytes | bytearray) -> list[tuple[int, int]]:
    """Where segments begin and end; a scan's data belongs to its segment."""
    units, position, length = [], 2, len(data)
    while position + 4 <= length and data[position] == 0xFF:
        end = position + 2 + int.from_bytes(data[position + 2 : position + 4], "big")
        if data[position + 1] == 0xDA:
            while end < length - 1 and not (data[end] == 0xFF and data[end + 1] not in (0, *range(0xD0, 0xD8))):
                end += 1
        end = min(max(end, position + 2), length)
        units.append((position, end))
        position = end
    return units


def png_units(data: bytes | bytearray) -> list[tuple[int, int]]:
    units, position, length = [], 8, len(data)
    while position + 12 <= length:
        end = min(position + 12 + int.from_bytes(data[position : position + 4], "big"), length)
        units.append((position, end))
        position = end
    return units


def webp_units(data: bytes | bytearray) -> list[tuple[int, int]]:
    units, position, length = [], 12, len(data)
    while position + 8 <= length:
        size = int.from_bytes(data[position + 4 : position + 8], "little")
        end = min(position + 8 + size + (size & 1), length)
        units.append((position, end))
        position = end
    return units


def tiff_units(data: bytes | bytearray) -> list[tuple[int, int]]:
    """The entries of the first directory of a classic TIFF."""
    order = "little" if data[:2] == b"II" else "big"
    start = int.from_bytes(data[4:8], order)
    count = min(int.from_bytes(data[start : start + 2], order), 40)
    return [(p, p + 12) for p in range(start + 2, start + 2 + 12 * count, 12) if p + 12 <= len(data)]


def gif_units(data: bytes | bytearray) -> list[tuple[int, int]]:
    """The screen's descriptor, and ten bytes from each image's and extension's mark."""
    found = [(6, 13)] + [(p, p + 10) for p in range(13, len(data) - 10) if data[p] in b"\x2c\x21"]
    return [unit for unit in found if unit[1] <= len(data)]


def bmp_units(data: bytes | bytearray) -> list[tuple[int, int]]:
    return [(p, p + 4) for p in range(2, min(54, len(data) - 4), 4)]


UNITS: dict[str, Callable[[bytes | bytearray], list[tuple[int, int]]]] = {
    "jpeg": jpeg_units,
    "png": png_units,
    "webp": webp_units,
    "tiff": tiff_units,
    "gif": gif_units,
    "bmp": bmp_units,
}
