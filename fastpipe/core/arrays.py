"""Raw arrays from files, read straight into the caller's memory by a pool's threads, without the GIL."""

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
        planes, height, width: the product of the leading axes; the last axis but one; the last axis in bytes.
        item: size in bytes of an element whose byte order is swapped: 2, 4 or 8; 1 for no swapping.
    """

    header: bytes
    planes: int
    height: int
    width: int
    item: int = 1


class ArrayPart(NamedTuple):
    """The part of a file to read, and the memory that it is read into.

    Attributes:
        path: a path or an `ArchiveMember`.
        window: first row, first byte of each row, number of rows, and bytes of each row. With 0 rows only the header
            and the file's length are checked.
        out: the address of the memory, as many bytes as the window has in all planes.
    """

    path: str
    window: tuple[int, int, int, int]
    out: int


def read_arrays(form: ArrayForm, parts: Sequence[ArrayPart], pool: Pool) -> list[int]:
    """Reads parts of files that all have one form.

    Returns:
        The `Status` of each part: ``OK``; ``UNUSUAL_HEADER`` if the file begins otherwise, ``TRUNCATED`` if it is too
        short, ``IO_ERROR`` if it can't be opened. The memory of a part that isn't ``OK`` is undefined.
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
        # To C a length of 0 means the whole file, so an empty member gets no file at all.
        name = 0 if container is not part.path and not place[1] else address_of_bytes(names[-1])
        _ARRAY.pack_into(raws, number * _SIZE, name, *place, *rest, *part.window, part.out, form.item, 0, 0, 0)
    pool.read_arrays(ctypes.addressof(raws), len(parts))
    del names  # C reads the names until here
    return [raw.status for raw in raws]
