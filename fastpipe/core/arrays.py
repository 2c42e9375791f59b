"""Raw arrays from files, read straight into memory of the caller's by a pool's threads, without the GIL."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from fastpipe.core.addresses import address_of_bytes
from fastpipe.core.files import c_string
from fastpipe.core.pool import Pool
from fastpipe.core.structs import RawArray
from fastpipe.types import ArchiveMember

_ARRAY = Struct("@13q4i")
_SIZE = _ARRAY.size


class ArrayForm(NamedTuple):
    """Layout of an array in its file: after a header, `planes` of `height` rows of `width` bytes.

    Attributes:
        header: the bytes that the file has to begin with.
        planes, height, width: the array's leading axes as one, its last but one, and its last in bytes.
        item: bytes of an element whose order is swapped: 2, 4 or 8; 1 for none.
    """

    header: bytes
    planes: int
    height: int
    width: int
    item: int = 1


class ArrayPart(NamedTuple):
    """The part of a file to read, and the memory that it goes to.

    Attributes:
        path: the file's, or an `ArchiveMember`.
        window: first row, first byte of each row, rows, and bytes of each row; without rows the header is compared, and
            the length checked, and that is all.
        out: the address of the memory that it goes to, as many bytes as the window has in all planes.
    """

    path: str
    window: tuple[int, int, int, int]
    out: int


def read_arrays(form: ArrayForm, parts: Sequence[ArrayPart], pool: Pool) -> list[int]:
    """Reads parts of files that have one form.

    Returns:
        The `Status` of each: ``OK``; ``UNUSUAL_HEADER`` where the file begins otherwise, ``TRUNCATED`` where it is too
        short, ``IO_ERROR`` where it can't be opened. The memory of one that isn't ``OK`` is undefined.
    """
    raws = (RawArray * len(parts))()
    names: list[bytes] = []
    rest = (address_of_bytes(form.header), len(form.header), form.planes, form.height, form.width)
    for number, part in enumerate(parts):
        if isinstance(part.path, ArchiveMember):
            container, place = part.path.container, (part.path.offset, part.path.length)
        else:
            container, place = part.path, (0, 0)
        names.append(c_string(container))
        # A length of 0 is all of the file to C: an empty member has less than nothing.
        name = 0 if container is not part.path and not place[1] else address_of_bytes(names[-1])
        _ARRAY.pack_into(raws, number * _SIZE, name, *place, *rest, *part.window, part.out, form.item, 0, 0, 0)
    pool.read_arrays(ctypes.addressof(raws), len(parts))
    del names  # until here
    return [raw.status for raw in raws]
