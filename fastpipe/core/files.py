"""Headers of JPEGs, PNGs and packed images, and the files of a batch, read with their headers in one call.

The random draws need the size in each header. So first the files of a batch are read, then Python draws, then jobs
decode. The bytes stay in the library's memory: `Files.outcomes` gives their addresses. Of a packed image only the head
is read; its job later reads from the file the rows that its box needs.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct

from fastpipe.core.addresses import address_of_bytes
from fastpipe.core.library import native, quick
from fastpipe.core.native_object import NativeObject, PerThread, forget_in_children
from fastpipe.core.pool import Pool
from fastpipe.core.structs import RawFile, RawHeader, Status
from fastpipe.types import ArchiveMember, Header, new_namedtuple

_HEADER = Struct("@2i56sq")  # height, width, other fields, position of the pixel data
_REST = Struct("@14i")

MAYBE_MPO = "JPEG or MPO"
"""The format of a JPEG with a multi-picture index, as in `fastpipe.readers`: only Pillow can tell JPEG from MPO."""

PACKED_FORMAT = "FPJ"
"""The format of packed images in `fastpipe.types.Header`; see `fastpipe.core.packed`."""

_FORMATS = ("JPEG", "PNG", PACKED_FORMAT)  # by number of fpc_format
_COLORS = ("", "L", "YCbCr", "RGB", "CMYK", "YCCK", "P", "LA", "RGBA")
_SUBSAMPLING = {
    (3, 0x11, 0x11, 0x11, 0): "4:4:4",
    (3, 0x21, 0x11, 0x11, 0): "4:2:2",
    (3, 0x22, 0x11, 0x11, 0): "4:2:0",
    (3, 0x12, 0x11, 0x11, 0): "4:4:0",
    (3, 0x41, 0x11, 0x11, 0): "4:1:1",
    (4, 0x11, 0x11, 0x11, 0x11): "4:4:4",
}

_free_headers = PerThread(list[tuple[RawHeader, int, Callable[[bytes, int, int], int]]])
"""A thread's free header structs, their addresses, and the C function that fills one. One in use is taken out, so that
a signal handler gets another."""


def read_header(data: bytes) -> Header | Status:
    """Reads the header of a JPEG, PNG or packed image from its first bytes.

    Returns:
        The same as `fastpipe.readers.read_header`, with the format "JPEG or MPO" for a multi-picture index; or a status
        that says why not: `Status.TRUNCATED` if more bytes are needed.

    Raises:
        ReaderUnavailableError: the core isn't available; see `why_not`.
    """
    free = _free_headers.value
    try:
        place = free.pop()
    except IndexError:
        raw = RawHeader()
        place = raw, ctypes.addressof(raw), native().fpc_read_header
    status = place[2](data, len(data), place[1])
    fields = _HEADER.unpack_from(place[0])
    free.append(place)
    return Status(status) if status else header_of(*fields)


def jpeg_end(data: bytes) -> int:
    """The position after a JPEG's end marker, if every decoder is sure to read the file to its end without an error.

    Invalid bits in the scans needn't be looked for: every libjpeg replaces them in the same way. Nothing is decoded.

    Returns:
        The position; 0 for a file without a plain header, with tables, scans or an end marker missing, or with segments
        of another kind after its first scan.

    Raises:
        ReaderUnavailableError: the core isn't available; see `why_not`.
    """
    end: int = quick().fpc_jpeg_end(data, len(data))
    return end


def header_of(height: int, width: int, rest: bytes, data_offset: int) -> Header:
    """Makes a `Header` from the fields of an fpc_header."""
    format, traits, plain = _kind(rest)
    header: Header = new_namedtuple(Header, (format, height, width, *traits, data_offset, plain))
    return header


@lru_cache(maxsize=256)
def _kind(rest: bytes) -> tuple[str, tuple[object, ...], bool]:
    """Fields of a header other than size and offset. Cached, because most files of a folder share them."""
    components, bits, color, s0, s1, s2, s3, progressive, orientation, pictures, plain, kind, transparency, animated = (
        _REST.unpack(rest)
    )
    subsampling = _SUBSAMPLING.get((components, s0, s1, s2, s3), "unknown")
    format = _FORMATS[kind]
    traits = (
        components,
        bits,
        _COLORS[color],
        None if format == "PNG" or components == 1 else subsampling,
        progressive == 1,
        orientation,
        animated == 1,
        transparency == 1,
    )
    return MAYBE_MPO if pictures else format, traits, plain == 1


# -- the files of a batch

_GIVEN = Struct("@6q4i")
_FILE = Struct("@6q4i2i56sq")  # an fpc_file; the last four are the header's fields, as `header_of` takes them
_SIZE = _FILE.size
_PLACE = Struct("@24x2q")
_OUTCOMES = tuple(Status)
_ENCODING, _ERRORS = ("utf-8", "strict") if os.name == "nt" else (sys.getfilesystemencoding(), "surrogateescape")


ByteRange = tuple[int, ...]
"""Address and length of bytes in memory; or the address of a path, with offset and length (0: all) in that file."""


class _FileList:
    """Structs for the files of one batch, with their address and a view of their bytes, replaced as one object."""

    __slots__ = ("address", "bytes", "raws")

    def __init__(self, count: int) -> None:
        self.raws = (RawFile * count)()
        self.address = ctypes.addressof(self.raws)
        self.bytes = memoryview(self.raws).cast("B")


class Files:
    """Memory for the files of a batch, reused for the next one: `load` drops the files before.

    One thread loads at once.

    Args:
        count: files expected in a batch; the memory grows for more.

    Raises:
        ReaderUnavailableError: the core isn't available.
    """

    def __init__(self, count: int = 64) -> None:
        self._functions = native()
        self._lock = threading.Lock()
        self._busy = False
        self._memory: NativeObject | None = None
        self._keep: list[bytes] = []
        self._count = 0
        self._list = _FileList(max(count, 1))
        forget_in_children(self)

    def load(
        self, sources: Sequence[str | bytes], max_bytes: int = 0, pool: Pool | None = None, *, whole: bool = False
    ) -> None:
        """Reads whole files and their headers; see `outcomes`.

        Args:
            sources: paths or `ArchiveMember`s; or ``bytes``, a file's content, which is used without a copy. A path
                with a NUL byte in it counts as not found.
            max_bytes: longer files aren't read; 0 for no limit.
            pool: the pool whose threads read; None for the calling thread.
            whole: read packed images whole, too, because their files may be gone when jobs run.
        """
        with self._lock:
            try:
                self._busy = True
                self._load(sources, max_bytes, pool, whole)
            finally:
                self._busy = False

    def _load(self, sources: Sequence[str | bytes], max_bytes: int, pool: Pool | None, whole: bool) -> None:
        self._count = 0  # nobody may look at the old files if a signal handler raises before the new ones are read
        if self._memory is None:
            self._memory = NativeObject(self._functions.fpc_files_new(), self._functions.fpc_files_free, "files")
        count = len(sources)
        if count > len(self._list.raws):
            self._list = _FileList(count)
        listed = self._list
        raws, pack = listed.raws, _GIVEN.pack_into
        kept: list[bytes] = []  # names and bytes whose addresses C gets
        for start, source in zip(range(0, count * _SIZE, _SIZE), sources, strict=True):
            given: tuple[int, ...]
            if isinstance(source, bytes):
                data, given = source, (0, 0, 0, address_of_bytes(source), len(source))
            elif isinstance(source, ArchiveMember):
                data = c_string(source.container)
                # To C a length of 0 means the whole file: an empty member is given as memory of length 0.
                name, length = address_of_bytes(data), source.length
                given = (name, source.offset, length, 0, 0) if length else (0, 0, 0, name, 0)
            else:
                data = c_string(source)
                given = (address_of_bytes(data), 0, 0, 0, 0)
            kept.append(data)
            pack(raws, start, *given, max_bytes, 0, 0, 0, not whole)
        self._keep = kept
        if pool is None:
            self._functions.fpc_read_files(self._memory.address, listed.address, count)
        else:
            pool.read(self._memory.address, listed.address, count)
        self._count = count

    def outcomes(self) -> list[tuple[Header | Status, ByteRange]]:
        """Returns each file's header, or why there is none, with the position of its bytes.

        A header is as `read_header` gives it, a position as `Job.read_place` takes it. ``IO_ERROR``, ``TOO_LARGE`` and
        ``NO_MEMORY`` mean that the file couldn't be read, ``TRUNCATED`` that the container ends before its member does;
        any other status is the reason for which the core leaves the header to other readers.
        """
        used = self._list.bytes[: self._count * _SIZE]
        return [
            (
                _OUTCOMES[fields[8]] if fields[8] else header_of(*fields[10:]),
                fields[:3] if fields[9] else fields[3:5],
            )
            for fields in _FILE.iter_unpack(used)
        ]

    def __len__(self) -> int:
        """Number of files in the last `load`."""
        return self._count

    def place(self, index: int) -> tuple[int, int]:
        """Address and length of a file's bytes, valid until the next `load` or `clear`; ``(0, 0)`` for none."""
        address, length = _PLACE.unpack_from(self._list.bytes, self._at(index))
        return address, length

    def bytes(self, index: int) -> bytes:
        """Copies a file's bytes, for readers that need an object; empty if there are none.

        Raises:
            OSError: a packed image, whose file is read once more here, is gone.
        """
        self._at(index)
        raw: RawFile = self._list.raws[index]
        if raw.is_head:
            name = ctypes.string_at(raw.path).decode(_ENCODING, _ERRORS)
            with open(name, "rb", buffering=0) as file:
                file.seek(raw.offset)
                return file.read(raw.length or -1) or b""
        address, length = self.place(index)
        return ctypes.string_at(address, length) if address else b""

    def clear(self) -> None:
        """Drops the files, and frees the memory of an unusually large batch."""
        with self._lock:
            self._count = 0
            if self._memory is not None:
                self._functions.fpc_files_clear(self._memory.address)

    def _at(self, index: int) -> int:
        if not 0 <= index < self._count:
            raise IndexError(f"file {index} of {self._count}")
        return index * _SIZE

    def _forget(self) -> None:
        """Abandons the memory in a forked child if a thread of the parent was reading into it."""
        self._lock = threading.Lock()
        if self._busy:
            self._memory, self._busy, self._count = None, False, 0


def c_string(name: str) -> bytes:
    """Encodes a file's name for C; a name that no file can have becomes ``b""``, which isn't found."""
    try:
        return b"" if "\0" in name else name.encode(_ENCODING, _ERRORS)
    except UnicodeEncodeError:
        return b""
