"""The files of a batch: read, and their headers looked at, in one call, without the GIL.

The draws need the size in each header: so the files of a batch are read first, then Python draws, then jobs decode what
was read. The bytes stay in the library's memory: `Files.place` says where.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Sequence
from itertools import accumulate
from struct import Struct

from fastpipe.core.headers import header_of
from fastpipe.core.library import native
from fastpipe.core.pool import Pool
from fastpipe.core.structs import RawFile, Status
from fastpipe.types import ArchiveMember, Header

_GIVEN = Struct("@6q")
_FILE = Struct("@6q4i16iq")
_SIZE = _FILE.size
_PLACE = Struct("@24x2q")
_PLACES = Struct(f"@24x2q{_SIZE - 40}x")
_OUTCOMES = tuple(Status)


class _FileList:
    """Structs for the files of one batch, their address and their bytes: one object, so that all change at once."""

    __slots__ = ("address", "bytes", "raws")

    def __init__(self, count: int) -> None:
        self.raws = (RawFile * count)()
        self.address = ctypes.addressof(self.raws)
        self.bytes = memoryview(self.raws).cast("B")


class Files:
    """Memory for the files of a batch, used again for the next. One thread at a time reads; `read` drops the last ones.

    Args:
        count: files expected in a batch; it grows for more.

    Raises:
        ReaderUnavailableError: there is no core.
    """

    def __init__(self, count: int = 64) -> None:
        self._functions = native()
        self._lock = threading.Lock()
        self._busy = False
        self._owner = 0
        self._address: int | None = None
        self._keep: object = None
        self._count = 0
        self._list = _FileList(max(count, 1))
        _all.add(self)

    def read(
        self, sources: Sequence[str | bytes], max_bytes: int = 0, pool: Pool | None = None
    ) -> list[Header | Status]:
        """Reads whole files, and their headers: `load` and `headers`."""
        self.load(sources, max_bytes, pool)
        return self.headers()

    def load(self, sources: Sequence[str | bytes], max_bytes: int = 0, pool: Pool | None = None) -> None:
        """Reads whole files; `headers` has the outcome.

        Args:
            sources: the files' paths, or `ArchiveMember`. A path that no file can have, with a NUL byte in it, isn't
                found. ``bytes`` are what is in a file: nothing is read then, nor copied.
            max_bytes: longer files aren't read; 0 for no limit.
            pool: its threads read; None for the calling thread.
        """
        with self._lock:
            try:
                self._busy = True
                self._load(sources, max_bytes, pool)
            finally:
                self._busy = False

    def _load(self, sources: Sequence[str | bytes], max_bytes: int, pool: Pool | None) -> None:
        self._count = 0  # until they are read: a signal handler may raise before, and nobody must look at the old ones
        if not self._address:
            self._owner = os.getpid()
            self._address = self._functions.fpc_files_new()
            if not self._address:
                raise MemoryError("no memory for files")
        count = len(sources)
        if count > len(self._list.raws):
            self._list = _FileList(count)
        listed = self._list
        raws, pack = listed.raws, _GIVEN.pack_into
        names = [one.container if isinstance(one, ArchiveMember) else one for one in sources if isinstance(one, str)]
        kept, addresses = c_strings(names)
        self._keep = kept, [source for source in sources if isinstance(source, bytes)]
        paths = iter(addresses)
        for start, source in zip(range(0, count * _SIZE, _SIZE), sources, strict=True):
            if type(source) is str:
                pack(raws, start, next(paths), 0, 0, 0, 0, max_bytes)
            elif isinstance(source, ArchiveMember):
                address = next(paths)
                # To C a length of 0 is all of the file: an empty member is memory that has nothing in it.
                given = (address, source.offset, source.length, 0, 0) if source.length else (0, 0, 0, address, 0)
                pack(raws, start, *given, max_bytes)
            elif isinstance(source, bytes):
                pack(raws, start, 0, 0, 0, _address(source), len(source), max_bytes)
            else:
                pack(raws, start, next(paths), 0, 0, 0, 0, max_bytes)
        if pool is None:
            self._functions.fpc_read_files(self._address, listed.address, count)
        else:
            pool.read(self._address, listed.address, count)
        self._count = count

    def headers(self) -> list[Header | Status]:
        """Header of each file, as `read_header` gives it, or why there is none.

        ``IO_ERROR`` (see `os_error`), ``TOO_LARGE`` and ``NO_MEMORY`` where it couldn't be read (`was_read` is False),
        ``TRUNCATED`` where a container ends before its member does, else what the header has that the core leaves to
        others.
        """
        return [
            _OUTCOMES[fields[8]] if fields[8] else header_of(fields[10:]) for fields in _FILE.iter_unpack(self._used)
        ]

    def places(self) -> list[tuple[int, int]]:
        """Address and length of the bytes of each file, as `place` gives them."""
        return list(_PLACES.iter_unpack(self._used))

    @property
    def _used(self) -> memoryview:
        return self._list.bytes[: self._count * _SIZE]

    def __len__(self) -> int:
        """Number of files that were read last."""
        return self._count

    def was_read(self, index: int) -> bool:
        """Whether the file's bytes are there, whatever they are."""
        status: int = self._raw(index).status
        return status == Status.OK

    def os_error(self, index: int) -> int:
        """``errno`` of a file that couldn't be read: EISDIR for a folder, EINVAL for a FIFO or a device; else 0."""
        number: int = self._raw(index).os_error
        return number

    def place(self, index: int) -> tuple[int, int]:
        """Address and length of the file's bytes, until the next `read` or `clear`; ``(0, 0)`` where there are none."""
        address, length = _PLACE.unpack_from(self._list.bytes, self._at(index))
        return address, length

    def bytes(self, index: int) -> bytes:
        """A copy of the file's bytes, for readers that want an object; empty where there are none."""
        address, length = self.place(index)
        return ctypes.string_at(address, length) if address else b""

    def clear(self) -> None:
        """Drops what was read, and gives back the memory of an unusually large batch."""
        with self._lock:
            self._count = 0
            if self._address:
                self._functions.fpc_files_clear(self._address)

    @property
    def held(self) -> int:
        """Bytes of memory held."""
        held: int = self._functions.fpc_files_bytes(self._address)
        return held

    def _at(self, index: int) -> int:
        if not 0 <= index < self._count:
            raise IndexError(f"file {index} of {self._count}")
        return index * _SIZE

    def _raw(self, index: int) -> RawFile:
        self._at(index)
        file: RawFile = self._list.raws[index]
        return file

    def __del__(self) -> None:
        # In a child of fork this may come before `_forget`.
        if getattr(self, "_address", None) and not (self._busy and os.getpid() != self._owner):
            self._functions.fpc_files_free(self._address)

    def _forget(self) -> None:
        """Abandons the memory in a forked child, if another thread of the parent was reading into it."""
        self._lock = threading.Lock()
        if self._busy:
            self._address, self._busy, self._count = None, False, 0


def _address(data: bytes) -> int:
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0


def c_strings(names: Sequence[str]) -> tuple[object, list[int]]:
    """Converts names to C strings in one piece of memory: its owner, and the address of each."""
    if not names:
        return None, []
    joined = _encoded("\0".join(names))
    encoded = joined.split(b"\0")
    if len(encoded) != len(names):  # one of them isn't a file's name
        encoded = [b"" if "\0" in name else _encoded(name) for name in names]
        joined = b"\0".join(encoded)
    start = _address(joined)
    return joined, list(accumulate((len(name) + 1 for name in encoded[:-1]), initial=start))


def _encoded(name: str) -> bytes:
    """Encodes a name; one that no file can have becomes empty, which isn't found."""
    try:
        return name.encode() if os.name == "nt" else os.fsencode(name)
    except UnicodeEncodeError:
        return b""


_all: weakref.WeakSet[Files] = weakref.WeakSet()


def _forget_files() -> None:
    for files in list(_all):
        files._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_files)
