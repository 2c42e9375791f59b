"""The chunks of a PNG, see its specification, part 5."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

_head = Struct(">I4s").unpack_from


def chunks_of(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """The name of each chunk of a PNG, with start and end of its content; without a last chunk that is cut off."""
    position = 8
    while position + 12 <= len(data):
        length, name = _head(data, position)
        yield name, position + 8, position + 8 + length
        position += 12 + length
