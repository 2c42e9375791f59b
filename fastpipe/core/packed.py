"""Packed images: a JPEG's coefficients in an arrangement that vectors read several times as fast, and back.

    packed = pack(jpeg)            # bytes of a .fpj file
    assert unpack(packed) == jpeg  # the same file

    packed = pack(jpeg, discard_original_bytes=True)
    assert same_coefficients(unpack(packed), packed)  # another file, with the same pixels in every decoder

``packed_format.md`` beside this file has the format. What reads images (`read_header`, jobs, the datasets) takes packed
ones as it takes JPEGs and PNGs.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import struct
import threading
from collections.abc import Callable
from struct import unpack_from
from typing import NamedTuple

from fastpipe.core.addresses import address_of_bytes
from fastpipe.core.headers import PACKED_FORMAT, read_header
from fastpipe.core.library import done, loaded, native, status_text
from fastpipe.core.structs import Status
from fastpipe.errors import DecodeError, NotPackableError
from fastpipe.types import Box, Header

__all__ = [
    "LONGEST_HEAD",
    "PACKED_EXTENSION",
    "PACKED_FORMAT",
    "PACKED_SIGNATURE",
    "Original",
    "is_packed",
    "original_of",
    "pack",
    "rows_of",
    "same_coefficients",
    "segments_of",
    "unpack",
]

PACKED_EXTENSION = ".fpj"
"""The ending of packed images' names."""

PACKED_SIGNATURE = b"\x89FPJ\r\n\x1a\n"
"""The bytes that every packed image begins with."""

_FIXED, _TABLE, _ENTRY, _SUM = 72, 128, 8, 4  # bytes of a head's parts

LONGEST_HEAD = _FIXED + 3 * _TABLE + _ENTRY * -(-65_500 // 8) + _SUM
"""Bytes of the longest head that there can be: of 65,500 rows of pixels in rows of MCUs of 8."""

_ENDING = re.compile(r"\.[^./\\:*?\"<>|\s\x00-\x1f]{1,15}")  # what may stand at the end of a file's name anywhere
_ABOUT = struct.Struct("<32sq")  # SHA-256, and ns since 1970; what follows is the ending
_UNKNOWN_TIME = -(1 << 63)

_REASONS = {
    Status.UNKNOWN_FORMAT: "it isn't a JPEG",
    Status.UNUSUAL_HEADER: "its header is one that Pillow may read otherwise, or it holds more than one picture",
}


class _Packer:
    """An fpc_packer, of one thread."""

    def __init__(self) -> None:
        functions = native()
        self._free = functions.fpc_packer_free
        self._owner = os.getpid()
        self.address: int | None = functions.fpc_packer_new(loaded().isa)
        if not self.address:
            raise MemoryError("no memory for packing images")

    def __del__(self) -> None:
        # In a child of fork, what another thread was at may be in any state: it stays.
        if getattr(self, "address", None) and os.getpid() == self._owner:
            self._free(self.address)


class _Local(threading.local):
    """A thread's own packer, made when it is first asked for."""

    def __init__(self) -> None:
        self.packer = _Packer()


_local: _Local | None = None


def _packer() -> int | None:
    global _local
    local = _local
    if local is None:
        local = _local = _Local()
    return local.packer.address


class Original(NamedTuple):
    """The file that a packed image was made of, as far as it isn't pixels.

    Attributes:
        sha256: of all its bytes.
        modified_ns: when it was last modified, in ns since 1970; None where that isn't known.
        ending: of its name, with the dot; ``""`` where that isn't known.
    """

    sha256: bytes
    modified_ns: int | None = None
    ending: str = ""


def pack(
    jpeg: bytes,
    max_bytes: int = 0,
    *,
    discard_original_bytes: bool = False,
    modified_ns: int | None = None,
    ending: str = "",
) -> bytes:
    """Packs a JPEG: the same coefficients and metadata, in about 1.2 times the bytes.

    With what it takes to make the JPEG's own bytes again, some hundred bytes: that is proved, by making them from the
    packed image and comparing.

    Args:
        jpeg: the whole file.
        max_bytes: the most scratch memory that it may take; 0 for no limit.
        discard_original_bytes: leave that out; `unpack` then makes another JPEG with the same coefficients.
        modified_ns, ending: of the file, for `original_of`. An ending that other systems don't have in names is left
            out.

    Raises:
        NotPackableError: the core doesn't decode it as Pillow does, or packing would lose something.
        ReaderUnavailableError: there is no core here.
        MemoryError: there is no memory.
    """
    about = None
    if not discard_original_bytes:
        time = _UNKNOWN_TIME if modified_ns is None else modified_ns
        about = _ABOUT.pack(hashlib.sha256(jpeg).digest(), time) + (ending.encode() if _is_ending(ending) else b"")
    status, made = _convert(native().fpc_pack, jpeg, max_bytes, about, len(about or b""))
    if status != Status.OK:
        raise NotPackableError(_REASONS.get(Status(status), status_text(status)))
    return made


def unpack(packed: bytes, max_bytes: int = 0) -> bytes:
    """Makes the JPEG of a packed image again, byte for byte: its SHA-256 is compared, and its coefficients.

    Where its own bytes were discarded, it is another JPEG with the same coefficients and metadata, so the same pixels
    in every decoder: sequential, with optimised Huffman codes.

    Args:
        packed: the whole file.
        max_bytes: the most scratch memory that it may take; 0 for no limit.

    Raises:
        DecodeError: it isn't a packed image, or it is damaged.
        ReaderUnavailableError: there is no core here.
        MemoryError: there is no memory.
    """
    status, made = _convert(native().fpc_unpack, packed, max_bytes)
    reason = "" if status == Status.OK else status_text(status)
    if not reason and (original := original_of(packed)) is not None:
        reason = _why_another(made, packed, original, max_bytes)
    if reason:
        raise DecodeError("<bytes>", PACKED_FORMAT if is_packed(packed) else None, "core", reason)
    return made


def original_of(packed: bytes) -> Original | None:
    """The file that a packed image was made of; None where its own bytes were discarded.

    Args:
        packed: the whole file, which is sound: as `unpack` takes it.
    """
    (size,) = unpack_from("<I", packed, 68)
    if not size:
        return None
    section = packed[len(packed) - size :]
    length = section[0]
    digest, time = _ABOUT.unpack_from(section, 1)
    ending = section[1 + _ABOUT.size : 1 + length].decode("utf-8", "replace")
    return Original(digest, None if time == _UNKNOWN_TIME else time, ending if _is_ending(ending) else "")


def _is_ending(text: str) -> bool:
    """Whether every system takes a text at the end of a file's name."""
    return text.isprintable() and _ENDING.fullmatch(text) is not None


def same_coefficients(jpeg: bytes, packed: bytes, max_bytes: int = 0) -> bool:
    """Whether a packed image is a JPEG's: the same size, colours, sampling, quantization and coefficients, all of them.

    Both are decoded and compared. False where one of them can't be read.

    Raises:
        ReaderUnavailableError: there is no core here.
        MemoryError: there is no memory.
    """
    return _compare(jpeg, packed, max_bytes)[1]


def is_packed(data: bytes) -> bool:
    """Whether a file's first bytes are a packed image's."""
    return data.startswith(PACKED_SIGNATURE)


def rows_of(head: bytes, box: Box) -> tuple[int, int]:
    """The bytes of a packed image between which the rows of MCUs lie that a box needs: where they begin and end.

    With chroma at a fraction of the rows, what upsampling takes from the samples above and below is among them.

    Args:
        head: the file, or its beginning with all of the head, which has been found to be right.
        box: inside the image.
    """
    height, _ = unpack_from("<2I", head, 12)
    factor = max(head[26 : 24 + 4 * head[10] : 4])
    offset, index = unpack_from("<I", head, 36)[0], _FIXED + _TABLE * head[22]
    margin = factor if factor > 1 else 0
    first = max(box.top - margin, 0) // (8 * factor)
    last = min(box.bottom - 1 + margin, height - 1) // (8 * factor)
    sizes = unpack_from("<" + "I4x" * (last + 1), head, index)
    start = offset + sum(sizes[:first])
    return start, start + sum(sizes[first:])


def segments_of(head: bytes) -> tuple[int, int]:
    """The bytes of a packed image that are the JPEG's segments, which the core reads with any box: begin and end.

    Args:
        head: as `rows_of` takes it.
    """
    start = unpack_from("<I", head, 36)[0] + unpack_from("<Q", head, 40)[0]
    return start, start + unpack_from("<Q", head, 48)[0]


def _why_another(jpeg: bytes, packed: bytes, original: Original, max_bytes: int) -> str:
    """Why the JPEG that a packed image kept isn't the packed one; empty if it is."""
    if hashlib.sha256(jpeg).digest() != original.sha256:
        return "its JPEG has another SHA-256"
    # Whoever makes a file up gives it the SHA-256 of anything.
    status, same = _compare(jpeg, packed, max_bytes)
    if status != Status.OK:
        return status_text(status)
    one, other = read_header(jpeg), read_header(packed)  # EXIF after a progressive file's first scan isn't read
    if same and isinstance(one, Header) and isinstance(other, Header) and one.orientation == other.orientation:
        return ""
    return "the JPEG that it keeps is another image"


def _compare(jpeg: bytes, packed: bytes, max_bytes: int) -> tuple[int, bool]:
    """The status of decoding a JPEG and a packed image, and whether they have the same coefficients."""
    same = ctypes.c_int(0)
    one, other = (address_of_bytes(jpeg), len(jpeg)), (address_of_bytes(packed), len(packed))
    status = native().fpc_same_coefficients(_packer(), *one, *other, max_bytes, ctypes.byref(same))
    return status, done(status) and bool(same.value)


def _convert(function: Callable[..., int], data: bytes, max_bytes: int, *more: int | bytes | None) -> tuple[int, bytes]:
    address, size = ctypes.c_void_p(), ctypes.c_size_t()
    # The packer is this thread's, and its memory stays until the thread's next call.
    status = function(
        _packer(), address_of_bytes(data), len(data), max_bytes, *more, ctypes.byref(address), ctypes.byref(size)
    )
    return status, ctypes.string_at(address, size.value) if done(status) else b""
