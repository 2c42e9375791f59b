"""An index on disk: plain ``.npy`` arrays and a JSON header, written beside and renamed, never half visible.

    LOCATION/current               the name of the generation that holds
    LOCATION/lock                  held by whoever writes
    LOCATION/<generation>/header.json
    LOCATION/<generation>/<array>.npy

A generation never changes once it has its name, so that processes that map one go on while another is written; a
worker that is handed a generation's name opens that one and no other. Generations that nobody has opened for a day
are removed when a new one is written.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import re
import secrets
import shutil
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
VERSION = 1

_GENERATION = re.compile(r"[0-9a-f]{16}")
_ENTRY_ARRAYS = (
    *(
        "labels",
        "values",
        "sizes",
        "versions",
        "heights",
        "widths",
        "formats",
        "orientations",
        "flags",
        "containers",
        "starts",
    ),
)
_KEPT_S = 24 * 3600.0
_CRC_BLOCK = 1 << 24
_WRITERS = 4  # they wait for the disk, and nothing that they do needs the interpreter


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


def current_generation(location: Path) -> str:
    """The name of the generation that holds.

    Raises:
        UnusableIndex: there is none.
    """
    try:
        name = (location / "current").read_text(encoding="ascii").strip()
    except FileNotFoundError:
        raise UnusableIndex("there is none yet") from None
    except (OSError, ValueError) as error:
        raise UnusableIndex(f"its file 'current' can't be read: {error}") from error
    if not _GENERATION.fullmatch(name):
        raise UnusableIndex("its file 'current' names no generation")
    return name


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
    generation = secrets.token_hex(8)
    beside = location / f"{generation}.part"
    beside.mkdir(parents=True)
    try:
        with ThreadPoolExecutor(_WRITERS, thread_name_prefix="fastpipe-index") as pool:
            names, contents = zip(*arrays, strict=True)
            kinds = [schema[name] for name in names]
            written = pool.map(_write_array, itertools.repeat(beside), names, contents, kinds)
            described = dict(zip(names, written, strict=True))
        header = {
            **about,
            "format": FORMAT,
            "version": VERSION,
            "generation": generation,
            "path_encoding": ENCODING,
            "arrays": described,
        }
        header["checksum"] = _checksum(header)
        with atomic_write(beside / "header.json") as stream:
            stream.write(json.dumps(header, indent=1).encode("ascii"))
        os.rename(beside, location / generation)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    with atomic_write(location / "current", beside=location / f"{generation}.current") as pointer:
        pointer.write(f"{generation}\n".encode("ascii"))
    _remove_unused(location, generation)
    return generation


def _write_array(folder: Path, name: str, array: Array, kind: str) -> dict[str, Any]:
    """Writes one, and gives what the header says of it."""
    array = np.ascontiguousarray(array, dtype=f"<{kind}")
    with open(folder / f"{name}.npy", "wb") as file:
        np.save(file, array, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())  # else a power cut can leave a header whose arrays are holes
        return {"bytes": file.tell(), "crc32": _crc(array), "shape": list(array.shape)}


def read_table(location: Path, generation: str) -> tuple[dict[str, Any], Table]:
    """The header and the table of a generation; as `read`."""
    header, arrays = read(location, generation)
    try:
        table = Table(**arrays)
    except TypeError as error:
        raise UnusableIndex(f"arrays are missing: {error}") from error
    _check_shapes(table)
    return header, table


def read(
    location: Path, generation: str, schema: Mapping[str, str] = SCHEMA
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Maps a generation, after checking that its files are what was written.

    The header has a checksum. Of each array the size, type and shape are checked, and of the folders' arrays and the
    ends of the paths the content, too; `damaged_arrays` reads everything.

    Raises:
        UnusableIndex: it is missing, damaged, or another version's.
    """
    folder = location / generation
    header = _read_header(folder)
    if header["generation"] != generation:
        raise UnusableIndex(f"its header is that of generation {header['generation']}")
    arrays: dict[str, Array] = {}
    for name, expected in header["arrays"].items():
        if name not in schema:  # one that an earlier version kept
            continue
        file = folder / f"{name}.npy"
        try:
            if file.stat().st_size != expected["bytes"]:
                raise UnusableIndex(f"{file.name} has {file.stat().st_size} bytes, not {expected['bytes']}")
            # a plain array over the map: indexing a memmap costs several times as much
            array = np.asarray(np.load(file, mmap_mode="r", allow_pickle=False))
        except (OSError, ValueError) as error:
            raise UnusableIndex(f"{file.name} can't be read: {error}") from error
        if array.dtype != np.dtype(f"<{schema[name]}") or list(array.shape) != expected["shape"]:
            raise UnusableIndex(f"{file.name} holds {array.dtype} {array.shape}")
        if name.startswith("folder_") and _crc(array) != expected["crc32"]:
            raise UnusableIndex(f"the content of {file.name} has changed")
        arrays[name] = array
    with contextlib.suppress(OSError):  # tells `_remove_unused` that somebody uses it; not in a read-only folder
        os.utime(folder / "header.json")
    return header, arrays


def identity_header(identity: dict[str, Any]) -> dict[str, Any]:
    """The part of the header that keeps an identity, for `identity_of`."""
    own = {name: identity[name] for name in ("root", "extensions")}
    return {**own, "source": {name: value for name, value in identity.items() if name not in own}}


def identity_of(location: Path, generation: str) -> dict[str, Any]:
    """The identity of the source that a generation was made of; raises UnusableIndex."""
    header = _read_header(location / generation)
    return {"root": header.get("root"), "extensions": header.get("extensions", []), **header.get("source", {})}


def _check_shapes(table: Table) -> None:
    count = len(table)
    if table.offsets.shape != (count + 1,) or table.offsets[0] != 0 or table.offsets[-1] != table.paths.size:
        raise UnusableIndex("the offsets don't fit the paths")
    if any(len(array) != count for name, array in table.arrays() if name in _ENTRY_ARRAYS):
        raise UnusableIndex("the arrays don't have the same length")
    starts, states = table.folder_starts, table.folder_states
    if starts is not None and (states is None or len(starts) != len(states) + 1 or starts[-1] != count):
        raise UnusableIndex("the folders don't fit the files")
    if table.containers is not None:
        parts = (table.starts, table.sizes, table.container_paths, table.container_states)
        if any(part is None for part in parts):
            raise UnusableIndex("the containers don't fit the files")


def damaged_arrays(location: Path, generation: str, table: Table) -> tuple[str, ...]:
    """The names of the arrays whose content isn't what was written; reads all of them."""
    expected = _read_header(location / generation)["arrays"]
    return tuple(name for name, array in table.arrays() if _crc(array) != expected[name]["crc32"])


def _read_header(folder: Path) -> dict[str, Any]:
    try:
        header = json.loads((folder / "header.json").read_bytes())
    except FileNotFoundError:
        raise UnusableIndex("its header is gone") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UnusableIndex(f"its header can't be read: {error}") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise UnusableIndex("it is no index of images")
    if header.get("version") != VERSION:
        raise UnusableIndex(f"it is of version {header.get('version')}, and this fastpipe writes version {VERSION}")
    if header.pop("checksum", None) != _checksum(header):
        raise UnusableIndex("its header is damaged")
    if header["path_encoding"] != ENCODING:
        raise UnusableIndex(f"its paths are encoded as {header['path_encoding']}, this system's as {ENCODING}")
    return header


def _checksum(header: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode("ascii")).hexdigest()


def _crc(array: Array) -> int:
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    crc = 0
    for start in range(0, len(data), _CRC_BLOCK):
        crc = zlib.crc32(data[start : start + _CRC_BLOCK], crc)
    return crc


def _remove_unused(location: Path, keep: str) -> None:
    """Removes what writers that died left, and generations that nobody has opened for a day."""
    oldest = time.time() - _KEPT_S
    for entry in location.iterdir():
        name = entry.name.partition(".")[0]
        if name == keep or not _GENERATION.fullmatch(name):
            continue
        used = entry / "header.json" if entry.is_dir() and not entry.suffix else entry
        try:
            unused = used.stat().st_mtime < oldest
        except OSError:
            unused = True
        if unused and entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)  # Windows keeps what is still mapped
        elif unused:
            with contextlib.suppress(OSError):
                entry.unlink()


def refuse_foreign_folder(location: Path) -> None:
    """Raises DatasetError where a location holds something that is no index: nothing is mixed into a user's folder."""
    try:
        names = [name for name in os.listdir(location) if name != "lock"]
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise DatasetError(f"the index can't be kept at {location}: that is a file. Give a folder.") from None
    if names and not any(name == "current" or _GENERATION.match(name) for name in names):
        raise DatasetError(
            f"the index can't be kept at {location}: that folder holds other things. Give an empty or a new one."
        )
