"""An index on disk: one file with a JSON header and arrays, written beside and renamed, never half visible.

    LOCATION/<generation>.index    16 bytes that say what it is, 8 with the header's length, the header, the arrays
    LOCATION/lock                  held by whoever writes

The last generation, by its name, is the one that holds. A file never changes once it has its name, so that processes
that map one go on while another is written; a worker that is handed a generation's name opens that one and no other.
A file's access time says when somebody opened it last, its modification time when it was last compared with what it
lists. Those that nobody has opened for a day are removed when a new one is written.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import platformdirs

from fastpipe.atomic_write import atomic_write
from fastpipe.config import user_folder
from fastpipe.errors import DatasetError
from fastpipe.index.table import ENCODING, SCHEMA, Array, Table
from fastpipe.paths import local_path

FORMAT = "fastpipe image index"
VERSION = 3

_MAGIC = b"fastpipe index\n\0"
_GENERATION = re.compile(r"([0-9a-f]{16})\.index")
_ENTRY_ARRAYS = ("labels", "values", "sizes", "versions", "containers", "starts")
_ALIGNMENT = 64  # bytes, of arrays in the file
_KEPT_S = 24 * 3600.0
_CRC_BLOCK = 1 << 24
_THREADS = 4  # checksums need no interpreter


class UnusableIndex(Exception):
    """Raised where what is at a location can't be used, with the reason; the index is built anew then."""


def cache_folder() -> Path:
    """The folder where indexes go by default: ``FASTPIPE_CACHE``, else the user's cache folder.

    Raises:
        FileNotFoundError: the user has no home folder, as in many containers.
    """
    override = os.environ.get("FASTPIPE_CACHE")
    if override:
        return Path(local_path(override))
    folder = user_folder(platformdirs.user_cache_path)
    if folder is None:
        raise FileNotFoundError("this user has no home folder")
    return folder


@contextlib.contextmanager
def locked(location: Path) -> Iterator[None]:
    """Locks a location, so that work isn't done twice; some network disks can't lock, and need not: see above."""
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
    """The name of the generation that holds.

    Raises:
        UnusableIndex: there is none.
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
    """Notes that a generation has been compared with what it lists, and holds."""
    with contextlib.suppress(OSError):  # in a read-only folder
        os.utime(_file(location, generation))


def confirmed_ns(location: Path, generation: str) -> int:
    """The time of the last `confirm`, or of the writing; 0 if it can't be told."""
    try:
        return _file(location, generation).stat().st_mtime_ns
    except OSError:
        return 0


def write(
    location: Path, arrays: Iterable[tuple[str, Array]], about: dict[str, Any], schema: Mapping[str, str] = SCHEMA
) -> str:
    """Writes a generation and makes it the one that holds.

    Args:
        location: the index's folder; made where it is missing.
        arrays: by name.
        about: what else the header keeps, as JSON.
        schema: the NumPy type of each array.

    Returns:
        The generation's name.

    Raises:
        OSError: the disk is full, or read-only.
    """
    location.mkdir(parents=True, exist_ok=True)
    generation = f"{max(time.time_ns(), *(int(name, 16) + 1 for name in _generations(location)), 0):016x}"
    contents = {name: np.ascontiguousarray(array, f"<{schema[name]}") for name, array in arrays}
    described: dict[str, Any] = {}
    end = 0
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="fastpipe-index") as pool:
        for (name, array), crc in zip(contents.items(), pool.map(_crc, contents.values()), strict=True):
            described[name] = {"start": end, "shape": list(array.shape), "crc32": crc}
            end += array.nbytes + -array.nbytes % _ALIGNMENT
    header = {
        **about,
        "format": FORMAT,
        "version": VERSION,
        "generation": generation,
        "path_encoding": ENCODING,
        "bytes": end,
        "arrays": described,
    }
    header["checksum"] = _checksum(header)
    with atomic_write(_file(location, generation)) as stream:
        stream.write(packed_header(header))
        for array in contents.values():
            stream.write(bytes_of(array))
            stream.write(bytes(-array.nbytes % _ALIGNMENT))
    _remove_unused(location, generation)
    return generation


def packed_header(header: dict[str, Any]) -> bytes:
    """The beginning of a file, up to its arrays."""
    text = json.dumps(header).encode("ascii")
    text += b" " * (-(len(_MAGIC) + 8 + len(text)) % _ALIGNMENT)
    return _MAGIC + len(text).to_bytes(8, "little") + text


def read_table(location: Path, generation: str) -> tuple[dict[str, Any], Table]:
    """The header and the table of a generation; as `read`."""
    header, arrays = read(location, generation)
    try:
        table = Table(**arrays)
    except TypeError as error:  # the class's, which has an argument for each array
        raise UnusableIndex(f"arrays are missing: {error}") from error
    _check_shapes(table)
    return header, table


def read(
    location: Path, generation: str, schema: Mapping[str, str] = SCHEMA
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Maps a generation, after checking that it is what was written.

    The header has a checksum. Of the arrays the length is checked, and of the parts' arrays and the ends of the paths
    the content, too; `damaged_arrays` reads everything.

    Raises:
        UnusableIndex: it is missing, damaged, or another version's.
    """
    header, data = _mapped(location, generation)
    if header["generation"] != generation:
        raise UnusableIndex(f"its header is that of generation {header['generation']}")
    arrays: dict[str, Array] = {}
    for name, expected in header["arrays"].items():
        if name not in schema:  # one that an earlier version kept
            continue
        kind = np.dtype(f"<{schema[name]}")
        length = math.prod(expected["shape"]) * kind.itemsize
        array = data[expected["start"] : expected["start"] + length].view(kind).reshape(expected["shape"])
        array = np.asarray(array)  # a plain one over the map: indexing a memmap costs several times as much
        if name.startswith("part_") and _crc(array) != expected["crc32"]:
            raise UnusableIndex(f"the content of {name} has changed")
        arrays[name] = array
    with contextlib.suppress(OSError):  # tells `_remove_unused` that somebody uses it; not in a read-only folder
        file = _file(location, generation)
        os.utime(file, ns=(time.time_ns(), file.stat().st_mtime_ns))
    return header, arrays


def _check_shapes(table: Table) -> None:
    count = len(table)
    if table.offsets.shape != (count + 1,) or table.offsets[0] != 0 or table.offsets[-1] != table.paths.size:
        raise UnusableIndex("the offsets don't fit the paths")
    if any(len(array) != count for name, array in table.arrays() if name in _ENTRY_ARRAYS):
        raise UnusableIndex("the arrays don't have the same length")
    starts, states = table.part_starts, table.part_states
    if starts is not None and (states is None or len(starts) > len(states) + 1 or starts[-1] != count):
        raise UnusableIndex("the parts don't fit the files")
    held = (table.starts, table.sizes, table.part_paths, table.part_states)
    if table.containers is not None and any(array is None for array in held):
        raise UnusableIndex("the containers don't fit the files")


def damaged_arrays(location: Path, generation: str, table: Table) -> tuple[str, ...]:
    """The names of the arrays whose content isn't what was written; reads all of them."""
    expected = _mapped(location, generation)[0]["arrays"]
    return tuple(name for name, array in table.arrays() if _crc(array) != expected[name]["crc32"])


def _mapped(location: Path, generation: str) -> tuple[dict[str, Any], Array]:
    """The header of a generation, and what follows it: uint8, mapped."""
    try:
        data: Array = np.memmap(_file(location, generation), np.uint8, "r")
    except FileNotFoundError:
        raise UnusableIndex("its file is gone") from None
    except (OSError, ValueError) as error:
        raise UnusableIndex(f"its file can't be read: {error}") from error
    start = len(_MAGIC) + 8
    if data[: len(_MAGIC)].tobytes() != _MAGIC:
        raise UnusableIndex("it is no index of images")
    end = start + int.from_bytes(data[len(_MAGIC) : start].tobytes(), "little")
    try:
        header = json.loads(data[start:end].tobytes())
    except (ValueError, RecursionError) as error:
        raise UnusableIndex(f"its header can't be read: {error}") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise UnusableIndex("it is no index of images")
    if header.get("version") != VERSION:
        raise UnusableIndex(f"it is of version {header.get('version')}, and this fastpipe writes version {VERSION}")
    if header.pop("checksum", None) != _checksum(header):
        raise UnusableIndex("its header is damaged")
    if header["path_encoding"] != ENCODING:
        raise UnusableIndex(f"its paths are encoded as {header['path_encoding']}, this system's as {ENCODING}")
    if len(data) - end != header["bytes"]:
        raise UnusableIndex(f"it has {len(data) - end} bytes of arrays, not {header['bytes']}")
    return header, data[end:]


def _checksum(header: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode("ascii")).hexdigest()


def bytes_of(array: Array) -> memoryview:
    """The bytes of an array, in the order of its indices."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _crc(array: Array) -> int:
    data, crc = bytes_of(array), 0
    for start in range(0, len(data), _CRC_BLOCK):
        crc = zlib.crc32(data[start : start + _CRC_BLOCK], crc)
    return crc


def _remove_unused(location: Path, keep: str) -> None:
    """Removes what writers that died left, and generations that nobody has opened for a day."""
    oldest = time.time() - _KEPT_S
    for file in location.iterdir():
        if _GENERATION.match(file.name) and file != _file(location, keep):
            with contextlib.suppress(OSError):  # Windows keeps what is still mapped
                if file.stat().st_atime < oldest:
                    file.unlink()


def refuse_foreign_folder(location: Path) -> None:
    """Raises DatasetError where a location holds something that is no index: nothing is mixed into a user's folder."""
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
