"""Damage: from a seed number and an input's number to the input, the same on every machine."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable, Sequence

from fuzz import structure
from fuzz.seeds import seeds
from fuzz.structure import INTERESTING, WIDE, Operation
from fuzz.units import UNITS, png_units

_MAX_BYTES = 20_000  # inputs stay small, whatever is inserted and doubled


def mutation(seed: int, number: int, formats: Sequence[str]) -> tuple[str, bytes]:
    """The input of that number: the format that it was made from, and its bytes."""
    rng = random.Random(f"{seed}/{number}")
    format = rng.choice(formats)
    files = seeds()[format]
    data = bytearray(rng.choice(files))
    for _ in range(rng.choice((1, 1, 1, 1, 1, 2, 2, 4))):
        operation = rng.choice(_STRUCTURAL[format]) if rng.random() < 0.5 else rng.choice(_PLAIN)
        data = operation(rng, data, files)[:_MAX_BYTES]
    if rng.random() < 0.8:
        data = _REPAIRS.get(format, _unchanged)(data)
    return format, bytes(data)


def _unchanged(data: bytearray) -> bytearray:
    return data


def _span(rng: random.Random, length: int, longest: int = 64) -> tuple[int, int]:
    start = rng.randrange(length + 1)
    return start, min(length, start + rng.randint(1, longest))


# Plain damage, which knows nothing of the format


def _flip(rng: random.Random, data: bytearray, files: Sequence[bytes]) -> bytearray:
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return data


def _overwrite(rng: random.Random, data: bytearray, files: Sequence[bytes]) -> bytearray:
    for _ in range(rng.choice((1, 1, 2, 4))):
        if data:
            data[rng.randrange(len(data))] = rng.choice(INTERESTING) if rng.random() < 0.5 else rng.randrange(256)
    return data


def _overwrite_wide(rng: random.Random, data: bytearray, files: Sequence[bytes]) -> bytearray:
    layout = rng.choice((">H", "<H", ">I", "<I"))
    size = struct.calcsize(layout)
    if len(data) > size:
        # Most of what counts stands at the beginning.
        last = len(data) - size if rng.random() < 0.5 else min(len(data) - size, 64)
        struct.pack_into(layout, data, rng.randint(0, last), rng.choice(WIDE) & (256**size - 1))
    return data


def _delete(rng: random.Random, data: bytearray, files: Sequence[bytes]) -> bytearray:
    start, stop = _span(rng, len(data))
    return data[:start] + data[stop:]


def _duplicate(rng: random.Random, data: bytearray, files: Sequence[bytes]) -> bytearray:
    start, stop = _span(rng, len(data))
    return data[:stop] + data[start:stop] * rng.choice((1, 1, 2, 50)) + data[stop:]


def _insert(rng: random.Random, data: bytearray, files: Sequence[bytes]) -> bytearray:
    start = rng.randrange(len(data) + 1)
    return data[:start] + rng.randbytes(rng.randint(1, 32)) + data[start:]


def _truncate(rng: random.Random, data: bytearray, files: Sequence[bytes]) -> bytearray:
    return data[: rng.randrange(len(data) + 1)]


def _zero(rng: random.Random, data: bytearray, files: Sequence[bytes]) -> bytearray:
    start, stop = _span(rng, len(data))
    data[start:stop] = bytes((rng.choice((0, 255)),)) * (stop - start)
    return data


def _splice(rng: random.Random, data: bytearray, files: Sequence[bytes]) -> bytearray:
    """The beginning of one file and the end of another, cut at the same share."""
    other = rng.choice(files)
    share = rng.random()
    return data[: int(len(data) * share)] + other[int(len(other) * share) :]


def _append(rng: random.Random, data: bytearray, files: Sequence[bytes]) -> bytearray:
    return data + (rng.choice(files) if rng.random() < 0.5 else rng.randbytes(rng.randint(1, 40)))


_PLAIN: tuple[Operation, ...] = (
    _flip,
    _flip,
    _overwrite,
    _overwrite,
    _overwrite_wide,
    _delete,
    _duplicate,
    _insert,
    _truncate,
    _zero,
    _splice,
    _append,
)


# Damage to units: JPEG segments, PNG and RIFF chunks; and to fields of headers


def _on_units(format: str, do: Callable[..., bytearray]) -> Operation:
    units_of = UNITS[format]

    def operation(rng: random.Random, data: bytearray, files: Sequence[bytes]) -> bytearray:
        units = units_of(data)
        return do(rng, data, files, units, units_of) if units else _flip(rng, data, files)

    return operation


def _unit_deleted(rng: random.Random, data: bytearray, files: Sequence[bytes], units, units_of) -> bytearray:
    start, stop = rng.choice(units)
    return data[:start] + data[stop:]


def _unit_doubled(rng: random.Random, data: bytearray, files: Sequence[bytes], units, units_of) -> bytearray:
    start, stop = rng.choice(units)
    place = rng.choice(units)[0]
    return data[:place] + data[start:stop] * rng.choice((1, 1, 1, 2, 30)) + data[place:]


def _unit_moved(rng: random.Random, data: bytearray, files: Sequence[bytes], units, units_of) -> bytearray:
    start, stop = rng.choice(units)
    unit, rest = data[start:stop], data[:start] + data[stop:]
    place = min(rng.choice(units)[0], len(rest))
    return rest[:place] + unit + rest[place:]


def _unit_from_another(rng: random.Random, data: bytearray, files: Sequence[bytes], units, units_of) -> bytearray:
    other = rng.choice(files)
    start, stop = rng.choice(units_of(other) or [(0, 8)])
    place, end = rng.choice(units)
    return data[:place] + other[start:stop] + data[end if rng.random() < 0.5 else place :]


def _field_edited(rng: random.Random, data: bytearray, files: Sequence[bytes], units, units_of) -> bytearray:
    """A byte or a wider number in one of the headers, or in what stands at a scan's beginning."""
    start, stop = rng.choice(units)
    place = start + rng.randrange(max(min(stop - start, 40), 1))
    if place >= len(data):
        return data
    if rng.random() < 0.6:
        choice = rng.random()
        if choice < 0.4:
            data[place] = rng.choice(INTERESTING)
        elif choice < 0.7:
            data[place] = (data[place] + rng.choice((-1, 1, 8, -8))) & 255
        else:
            data[place] = rng.randrange(256)
        return data
    layout = rng.choice((">H", "<H", ">I", "<I"))
    size = struct.calcsize(layout)
    if place + size <= len(data):
        value = rng.choice(WIDE) if rng.random() < 0.5 else rng.randrange(200)
        struct.pack_into(layout, data, place, value & (256**size - 1))
    return data


_STRUCTURAL: dict[str, tuple[Operation, ...]] = {
    name: tuple(
        _on_units(name, do)
        for do in (_unit_deleted, _unit_doubled, _unit_moved, _unit_from_another, _field_edited, _field_edited)
    )
    for name in UNITS
}


def _png_rows_edited(rng: random.Random, data: bytearray, files: Sequence[bytes]) -> bytearray:
    """Damage behind the compression: filters, samples, too few or too many rows."""
    for start, end in png_units(data):
        if data[start + 4 : start + 8] == b"IDAT":
            try:
                rows = bytearray(zlib.decompress(data[start + 8 : end - 4]))
            except zlib.error:
                return data
            body = b"IDAT" + zlib.compress(rng.choice(_PLAIN)(rng, rows, files), 1)
            return data[:start] + struct.pack(">I", len(body) - 4) + body + bytes(4) + data[end:]
    return data


_STRUCTURAL["png"] += (_png_rows_edited,)
for _name, _more in structure.OPERATIONS.items():
    _STRUCTURAL[_name] += _more


# Checksums and lengths made right again, so that the damage gets past them


def _jpeg_repaired(data: bytearray) -> bytearray:
    return data if data.endswith(b"\xff\xd9") else data + b"\xff\xd9"


def _png_repaired(data: bytearray) -> bytearray:
    for start, end in png_units(data):
        if end - start >= 12:
            struct.pack_into(">I", data, end - 4, zlib.crc32(data[start + 4 : end - 4]))
    return data


def _webp_repaired(data: bytearray) -> bytearray:
    if len(data) >= 8:
        struct.pack_into("<I", data, 4, len(data) - 8)
    return data


_REPAIRS = {"jpeg": _jpeg_repaired, "png": _png_repaired, "webp": _webp_repaired}
