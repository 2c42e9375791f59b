"""Room for the images that were unpacked from compressed tables: copies that nobody uses go, the oldest first.

A process that uses a copy has a lock on a byte of one file beside them, as long as it lives.

    CACHE/unpacked/….images    the copies
    CACHE/unpacked.lock        its bytes are locked, one for each copy, at an offset that its name gives
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
from pathlib import Path

from fastpipe.errors import ConfigError, DatasetError
from fastpipe.sources.cache import parse_size

if sys.platform != "win32":
    import fcntl

_VARIABLE, _DEFAULT = "FASTPIPE_UNPACKED", "500 GB"

_UNUSED_S = 7 * 24 * 3600.0
"""Where locks don't work, a copy that wasn't read for so long counts as unused."""

_held: dict[str, int] = {}  # the process that locked a copy, by the copy's path
_files: dict[Path, tuple[int, int]] = {}
"""The process's descriptor of each lock file. Never closed: that would release all its locks on the file."""


def hold(path: str) -> None:
    """Says that this process uses a copy until it ends."""
    with contextlib.suppress(OSError):
        if sys.platform != "win32" and _held.get(path) != os.getpid():
            fcntl.lockf(_lock_file(Path(path)), fcntl.LOCK_SH | fcntl.LOCK_NB, 1, _offset(path))
            _held[path] = os.getpid()


def make_room(path: str) -> None:
    """Removes copies beside a new one that nobody uses, until all together have at most the capacity.

    Raises:
        ConfigError: the environment variable FASTPIPE_UNPACKED is no number of bytes.
    """
    given = os.environ.get(_VARIABLE, _DEFAULT)
    try:
        capacity = parse_size(given)
    except DatasetError as error:
        raise ConfigError(f"{_VARIABLE}={given!r}: {error}") from None
    copies = []
    for file in Path(path).parent.glob("*.images"):
        with contextlib.suppress(OSError):
            status = file.stat()
            copies.append((max(status.st_atime, status.st_mtime), status.st_size, str(file)))
    total = sum(size for _, size, _ in copies)
    for used, size, file_name in sorted(copies):
        if total <= capacity:
            return
        if file_name != path and _remove(file_name, used):
            total -= size


def _remove(path: str, used: float) -> bool:
    """Removes a copy, unless a process uses it; returns whether it is gone."""
    with contextlib.suppress(OSError):
        if _held.get(path) == os.getpid():
            return False
        if sys.platform == "win32":
            if used > time.time() - _UNUSED_S:
                return False
            os.unlink(path)
            return True
        descriptor = _lock_file(Path(path))
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _offset(path))
        except (BlockingIOError, PermissionError):
            return False
        except OSError:  # a file system without locks
            if used > time.time() - _UNUSED_S:
                return False
        try:
            os.unlink(path)
        finally:
            with contextlib.suppress(OSError):
                fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, _offset(path))
        return True
    return False


def _lock_file(path: Path) -> int:
    folder = path.parent
    process, descriptor = _files.get(folder, (0, -1))
    if process != os.getpid():
        descriptor = os.open(folder.with_name(f"{folder.name}.lock"), os.O_RDWR | os.O_CREAT, 0o666)
        _files[folder] = os.getpid(), descriptor
    return descriptor


def _offset(path: str) -> int:
    return int.from_bytes(hashlib.blake2b(Path(path).stem.encode(), digest_size=7).digest(), "little")
