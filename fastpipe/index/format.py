"""Arrays on disk in one file with a JSON header, which is written under another name and then renamed.

    LOCATION/<generation>.index    magic bytes, length and checksum of the header (24 bytes), the header, the arrays
    LOCATION/lock                  locked by the process that writes

The generation whose name sorts last is valid. A file never changes once it has its name, so processes that have one
mapped can continue while another is written. A worker that is given a generation's name opens exactly that one.
A file's access time is the time it was last opened, its modification time the time it was last found to be up to date.
Generations that weren't opened for a day are removed when a new one is written; those that were pickled, after a month:

    LOCATION/<generation>.pickled  empty; its modification time is that of the last pickle
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import struct
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import filelock
import numpy as np

from fastpipe.atomic_write import atomic_write
from fastpipe.counts import pluralize
from fastpipe.errors import DatasetError
from fastpipe.index.table import ENCODING, Array
from fastpipe.paths import absolute_path, user_folder

FORMAT = f"fastpipe image index 4, paths in {ENCODING}"

_MAGIC = b"fastpipe index\n\0"
_START = struct.Struct(f"<{len(_MAGIC)}sII")  # magic bytes, the header's length and checksum
_GENERATION = re.compile(r"([0-9a-f]{16})\.index")
_ALIGNMENT = 64  # bytes, of arrays in the file
_KEPT_S = 24 * 3600.0
_KEPT_PICKLED_S = 30 * _KEPT_S

JsonObject: TypeAlias = dict[str, Any]
"""The content of a JSON object."""


class UnusableIndex(Exception):
    """Raised with the reason if the files at a location can't be used; the index is then built again."""


def cache_folder() -> Path:
    """The default folder for indexes: ``FASTPIPE_CACHE``, else the user's cache folder.

    Raises:
        FileNotFoundError: the user has no home folder, as in many containers.
    """
    override = os.environ.get("FASTPIPE_CACHE")
    if override:
        return Path(absolute_path(override))
    folder = user_folder("cache")
    if folder is None:
        raise FileNotFoundError("this user has no home folder")
    return folder


def kept_at(kind: str, about: str) -> Path:
    """The place in the cache folder of what a text identifies; raises FileNotFoundError as `cache_folder` does."""
    return cache_folder() / kind / hashlib.sha256(about.encode("utf-8", "surrogatepass")).hexdigest()[:32]


@contextlib.contextmanager
def locked(location: Path) -> Iterator[None]:
    """Locks a location, so that work isn't done twice; it works without a lock on network disks that have none."""
    location.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(location / "lock")
    try:
        lock.acquire()
    except (OSError, NotImplementedError):
        if not os.access(location, os.W_OK):
            raise
    try:
        yield
    finally:
        lock.release()


def last_generation(location: Path) -> str:
    """The name of the valid generation.

    Raises:
        UnusableIndex: there is no generation.
    """
    try:
        return max(_generations(location))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise UnusableIndex("there is none yet") from None
    except OSError as error:
        raise UnusableIndex(f"its folder can't be listed: {error}") from error


def _generations(location: Path) -> list[str]:
    return [found[1] for name in os.listdir(location) if (found := _GENERATION.fullmatch(name))]


def _file(location: Path, generation: str) -> Path:
    return location / f"{generation}.index"


def confirm(location: Path, generation: str) -> None:
    """Records in a generation's modification time that it was found to be up to date."""
    with contextlib.suppress(OSError):  # in a read-only folder
        os.utime(_file(location, generation))


def confirmed_ns(location: Path, generation: str) -> int:
    """The time of the last `confirm`, or else of the writing, in ns."""
    return _file(location, generation).stat().st_mtime_ns


def keep_for_pickle(location: Path, generation: str) -> bool:
    """Keeps a generation for a month, as a pickle names it; returns False if it is gone, or can't be marked."""
    try:
        mark = _file(location, generation).with_suffix(".pickled")
        mark.touch()
    except OSError:  # a read-only folder, where nobody removes it either
        return _file(location, generation).exists()
    if _file(location, generation).exists():
        return True
    mark.unlink(missing_ok=True)
    return False


def write(location: Path, arrays: Iterable[tuple[str, Array]], about: dict[str, object]) -> str:
    """Writes a new valid generation: arrays by name, and more entries for the header; returns its name.

    Raises:
        OSError: the disk is full, or read-only.
    """
    location.mkdir(parents=True, exist_ok=True)
    generation = f"{max(time.time_ns(), *(int(name, 16) + 1 for name in _generations(location)), 0):016x}"
    contents = dict(arrays)
    described: dict[str, object] = {}
    end = 0
    for name, array in contents.items():
        crc = zlib.crc32(bytes_of(array)) if _is_checked(name) else 0
        described[name] = {"type": array.dtype.str, "shape": array.shape, "start": end, "crc32": crc}
        end += array.nbytes + -array.nbytes % _ALIGNMENT
    with atomic_write(_file(location, generation)) as stream:
        stream.write(packed_header({**about, "format": FORMAT, "bytes": end, "arrays": described}))
        for array in contents.values():
            stream.write(bytes_of(array))
            stream.write(bytes(-array.nbytes % _ALIGNMENT))
    _remove_unused(location, generation)
    return generation


def packed_header(header: dict[str, object]) -> bytes:
    """The beginning of a file, up to its arrays."""
    text = json.dumps(header).encode("ascii")
    text += b" " * (-(_START.size + len(text)) % _ALIGNMENT)
    return _START.pack(_MAGIC, len(text), zlib.crc32(text)) + text


def read(location: Path, generation: str) -> tuple[JsonObject, dict[str, Array]]:
    """Checks and maps a generation; returns the header, and the arrays by name.

    The header's and the parts' content is checked by checksums; of the other arrays only the length.

    Raises:
        UnusableIndex: the file is missing, damaged, or of another version.
    """
    file = _file(location, generation)
    try:
        data: Array = np.memmap(file, np.uint8, "r")
    except FileNotFoundError:
        raise UnusableIndex("its file is gone") from None
    except (OSError, ValueError) as error:
        raise UnusableIndex(f"its file can't be read: {error}") from error
    if len(data) < _START.size or data[: len(_MAGIC)].tobytes() != _MAGIC:
        raise UnusableIndex("it is no index of images")
    _, length, crc = _START.unpack(data[: _START.size].tobytes())
    text, data = data[_START.size : _START.size + length].tobytes(), data[_START.size + length :]
    if zlib.crc32(text) != crc:
        raise UnusableIndex("its header is damaged, or another version's")
    header = json.loads(text)
    if header["format"] != FORMAT:
        raise UnusableIndex(f"it is a {header['format']}, and this fastpipe writes a {FORMAT}")
    if len(data) != header["bytes"]:
        raise UnusableIndex(f"it has {pluralize(len(data), 'byte')} of arrays, not {header['bytes']}")
    arrays: dict[str, Array] = {}
    for name, about in header["arrays"].items():
        kind = np.dtype(about["type"])
        end = about["start"] + int(np.prod(about["shape"], dtype=np.int64)) * kind.itemsize
        # A plain array over the map: indexing a memmap costs several times as much.
        arrays[name] = np.asarray(data[about["start"] : end].view(kind).reshape(about["shape"]))
        if _is_checked(name) and zlib.crc32(bytes_of(arrays[name])) != about["crc32"]:
            raise UnusableIndex(f"the content of {name} has changed")
    with contextlib.suppress(OSError):  # for `_remove_unused`; fails in a read-only folder
        os.utime(file, ns=(time.time_ns(), file.stat().st_mtime_ns))
    return header, arrays


def _is_checked(name: str) -> bool:
    """True if an array's content is checked at each opening: for the parts, on which taking over depends."""
    return name.startswith("part_")


def bytes_of(array: Array) -> memoryview:
    """The bytes of an array in C order."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _remove_unused(location: Path, keep: str) -> None:
    """Removes generations that weren't opened for a day, nor pickled for a month, and what dead writers left."""
    oldest, oldest_pickled = time.time() - _KEPT_S, time.time() - _KEPT_PICKLED_S
    for file in location.iterdir():
        if _GENERATION.match(file.name) and file != _file(location, keep):
            with contextlib.suppress(OSError):  # Windows can't remove a mapped file
                mark = file.with_suffix(".pickled")
                if file.stat().st_atime < oldest and not (mark.exists() and mark.stat().st_mtime > oldest_pickled):
                    file.unlink()
                    mark.unlink(missing_ok=True)


def refuse_foreign_folder(location: Path) -> None:
    """Raises DatasetError if a location is a file, or a folder with files that aren't an index's."""
    try:
        names = [name for name in os.listdir(location) if name != "lock"]
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise DatasetError(f"the index can't be kept at {location}: that is a file. Give a folder.") from None
    if names and not any(map(_GENERATION.match, names)):
        raise DatasetError(
            f"the index can't be kept at {location}: that folder holds other things. Give an empty or a new one."
        )
