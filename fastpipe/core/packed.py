"""Packed images: a JPEG's coefficients in a layout that vector instructions decode several times as fast, and back.

    packed = pack(jpeg)            # bytes of a .fpj file
    assert unpack(packed) == jpeg  # the same file

    packed = pack(jpeg, discard_original_bytes=True)
    assert same_coefficients(unpack(packed), packed)  # another file, with the same pixels in every decoder

``packed_format.md`` beside this file describes the format. All that reads images (`read_header`, jobs, the datasets)
takes packed images as it takes JPEGs and PNGs.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import struct
from collections.abc import Callable
from struct import unpack_from
from typing import NamedTuple

from fastpipe.core.addresses import address_of_bytes
from fastpipe.core.files import PACKED_FORMAT, read_header
from fastpipe.core.library import done, loaded, native, quick, status_text
from fastpipe.core.native_object import NativeObject, PerThread
from fastpipe.core.structs import Status
from fastpipe.errors import DecodeError, NotPackableError
from fastpipe.types import PACKED_SIGNATURE, Box, Header, is_packed

__all__ = [
    "LONGEST_HEAD",
    "PACKED_EXTENSION",
    "PACKED_FORMAT",
    "PACKED_SIGNATURE",
    "Original",
    "is_packed",
    "is_whole",
    "original_of",
    "pack",
    "restore",
    "rows_of",
    "same_coefficients",
    "segments_of",
    "unpack",
    "unpack_head",
]

PACKED_EXTENSION = ".fpj"
"""The file extension of packed images."""

_FIXED, _TABLE, _ENTRY, _SUM = 72, 128, 8, 4  # bytes of the parts of a head

LONGEST_HEAD = _FIXED + 3 * _TABLE + _ENTRY * -(-65_500 // 8) + _SUM
"""Bytes of the longest possible head: an image of 65,500 rows of pixels, in rows of MCUs of 8."""

_ENDING = re.compile(r"\.[^./\\:*?\"<>|\s\x00-\x1f]{1,15}")  # a file extension that every system accepts
_ABOUT = struct.Struct("<32sq")  # SHA-256, and ns since 1970; the extension follows
_UNKNOWN_TIME = -(1 << 63)
_MADE_SMALLER = b"\0"  # after the extension

_REASONS = {
    Status.UNKNOWN_FORMAT: "it isn't a JPEG",
    Status.UNUSUAL_HEADER: "its header is one that Pillow may read otherwise, or it holds more than one picture",
}


def _new_packer() -> NativeObject:
    functions = native()
    return NativeObject(functions.fpc_packer_new(loaded().isa), functions.fpc_packer_free, "packing images")


_packers = PerThread(_new_packer)


class Original(NamedTuple):
    """The file that a packed image was made from, apart from its pixels.

    Attributes:
        sha256: the SHA-256 of the file.
        modified_ns: when the file was last modified, in ns since 1970; None if unknown.
        ending: the extension of its name, with the dot; ``""`` if unknown.
        made_smaller: the JPEG is a smaller copy of the user's file, which can't be restored.
    """

    sha256: bytes
    modified_ns: int | None = None
    ending: str = ""
    made_smaller: bool = False


def pack(
    jpeg: bytes,
    max_bytes: int = 0,
    *,
    discard_original_bytes: bool = False,
    modified_ns: int | None = None,
    ending: str = "",
    made_smaller: bool = False,
) -> bytes:
    """Packs a JPEG: the same coefficients and metadata, in about 1.2 times the bytes.

    Some hundred bytes more allow `unpack` to restore the JPEG byte for byte; this function proves it by restoring the
    JPEG from the packed image and comparing.

    Args:
        jpeg: the whole file.
        max_bytes: the most scratch memory to use; 0 for no limit.
        discard_original_bytes: leave those bytes out; `unpack` then makes another JPEG with the same coefficients.
        modified_ns, ending: modification time and extension of the file, for `original_of`. An extension that isn't
            valid on every system is left out.
        made_smaller: whether the JPEG is a smaller copy of the user's file, for `original_of`.

    Raises:
        NotPackableError: the core doesn't decode it as Pillow does, or packing would lose something.
        ReaderUnavailableError: the core isn't available.
        MemoryError: out of memory.
    """
    about = None
    if not discard_original_bytes:
        time = _UNKNOWN_TIME if modified_ns is None else modified_ns
        about = _ABOUT.pack(hashlib.sha256(jpeg).digest(), time) + (ending.encode() if _is_ending(ending) else b"")
        about += _MADE_SMALLER if made_smaller else b""
    status, packed = _convert(native().fpc_pack, jpeg, max_bytes, about, len(about or b""))
    if status != Status.OK:
        raise NotPackableError(_REASONS.get(Status(status), status_text(status)))
    return packed


def unpack(packed: bytes, max_bytes: int = 0) -> bytes:
    """Restores the JPEG of a packed image byte for byte; checks its SHA-256 and its coefficients.

    If the original bytes were discarded, the result is another JPEG with the same coefficients and metadata, so the
    same pixels in every decoder: sequential, with optimised Huffman codes.

    Args:
        packed: the whole file.
        max_bytes: the most scratch memory to use; 0 for no limit.

    Raises:
        DecodeError: the file isn't a packed image, or is damaged.
        ReaderUnavailableError: the core isn't available.
        MemoryError: out of memory.
    """
    restored = restore(packed, max_bytes)
    if original_of(packed) is not None and (reason := _why_another(restored, packed, max_bytes)):
        raise _damaged(packed, reason)
    return restored


def restore(packed: bytes, max_bytes: int = 0) -> bytes:
    """Restores the JPEG of a packed image for a decoder: checks its SHA-256, and not its coefficients.

    So it takes two thirds of `unpack`'s time. A damaged file gives no other JPEG of this SHA-256. A forged one may hold
    the SHA-256 of any JPEG, which the decoder then gets.

    Args:
        packed, max_bytes: as in `unpack`.

    Raises:
        DecodeError, ReaderUnavailableError, MemoryError: as `unpack`.
    """
    status, restored = _convert(native().fpc_unpack, packed, max_bytes)
    if status != Status.OK:
        raise _damaged(packed, status_text(status))
    original = original_of(packed)
    if original is not None and hashlib.sha256(restored).digest() != original.sha256:
        raise _damaged(packed, "its JPEG has another SHA-256")
    return restored


def _damaged(packed: bytes, reason: str) -> DecodeError:
    return DecodeError("<bytes>", PACKED_FORMAT if is_packed(packed) else None, "core", reason)


def unpack_head(packed: bytes) -> bytes:
    """The beginning of the JPEG that `unpack` gives: all before its first scan's data. Decodes nothing.

    If the original bytes were discarded, this takes as long as `unpack`.

    Args:
        packed: the whole file.

    Raises:
        DecodeError: the file isn't a packed image, or its head or metadata are damaged.
        ReaderUnavailableError: the core isn't available.
        MemoryError: out of memory.
    """
    status, head = _convert(native().fpc_unpack_head, packed, 0)
    if status != Status.OK:
        raise _damaged(packed, status_text(status))
    return head


def is_whole(packed: bytes) -> bool:
    """True if a packed image is complete, and all of its checksums are right. Decodes nothing.

    Args:
        packed: the whole file.

    Raises:
        ReaderUnavailableError: the core isn't available.
        MemoryError: out of memory.
    """
    return done(quick().fpc_packed_check(_packers.value.address, address_of_bytes(packed), len(packed)))


def original_of(packed: bytes) -> Original | None:
    """The file that a packed image was made from; None if its original bytes were discarded.

    Args:
        packed: the whole file, undamaged: `unpack` takes it.
    """
    (size,) = unpack_from("<I", packed, 68)
    if not size:
        return None
    section = packed[len(packed) - size :]
    length = section[0]
    digest, time = _ABOUT.unpack_from(section, 1)
    rest = section[1 + _ABOUT.size : 1 + length]
    ending = rest.removesuffix(_MADE_SMALLER).decode("utf-8", "replace")
    return Original(
        digest,
        None if time == _UNKNOWN_TIME else time,
        ending if _is_ending(ending) else "",
        rest.endswith(_MADE_SMALLER),
    )


def _is_ending(text: str) -> bool:
    """True if a text is a file extension that is valid on every system."""
    return text.isprintable() and _ENDING.fullmatch(text) is not None


def same_coefficients(jpeg: bytes, packed: bytes, max_bytes: int = 0) -> bool:
    """True if a JPEG and a packed image have the same size, colours, sampling, quantization and coefficients.

    Decodes and compares both. False if one of them can't be read.

    Raises:
        ReaderUnavailableError: the core isn't available.
        MemoryError: out of memory.
    """
    return _compare(jpeg, packed, max_bytes)[1]


def rows_of(head: bytes, box: Box) -> tuple[int, int]:
    """The byte range (begin, end) of the rows of MCUs that a box of a packed image needs.

    For vertically subsampled chroma, the rows above and below that upsampling needs are included.

    Args:
        head: the file, or its beginning with the whole head, already checked.
        box: a box inside the image.
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
    """The byte range (begin, end) of the JPEG's marker segments in a packed image, which the core reads for any box.

    Args:
        head: as for `rows_of`.
    """
    start = unpack_from("<I", head, 36)[0] + unpack_from("<Q", head, 40)[0]
    return start, start + unpack_from("<Q", head, 48)[0]


def _why_another(jpeg: bytes, packed: bytes, max_bytes: int) -> str:
    """Why a restored JPEG isn't the packed image's original; empty if it is."""
    # A forged file can have a matching SHA-256 of any other JPEG.
    status, same = _compare(jpeg, packed, max_bytes)
    if status != Status.OK:
        return status_text(status)
    one, other = read_header(jpeg), read_header(packed)  # EXIF after a progressive file's first scan isn't read
    if same and isinstance(one, Header) and isinstance(other, Header) and one.orientation == other.orientation:
        return ""
    return "the JPEG that it keeps is another image"


def _compare(jpeg: bytes, packed: bytes, max_bytes: int) -> tuple[int, bool]:
    """The status of decoding a JPEG and a packed image, and whether both have the same coefficients."""
    same = ctypes.c_int(0)
    one, other = (address_of_bytes(jpeg), len(jpeg)), (address_of_bytes(packed), len(packed))
    status = native().fpc_same_coefficients(_packers.value.address, *one, *other, max_bytes, ctypes.byref(same))
    return status, done(status) and bool(same.value)


def _convert(function: Callable[..., int], data: bytes, max_bytes: int, *more: int | bytes | None) -> tuple[int, bytes]:
    address, size = ctypes.c_void_p(), ctypes.c_size_t()
    # The packer is this thread's own; the result's memory is valid until the thread's next call.
    status = function(
        _packers.value.address,
        address_of_bytes(data),
        len(data),
        max_bytes,
        *more,
        ctypes.byref(address),
        ctypes.byref(size),
    )
    return status, ctypes.string_at(address, size.value) if done(status) else b""
