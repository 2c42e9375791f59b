"""Owners of files in a shared folder: an owner is alive as long as its process holds the lock on the owner's own file.

The system releases the lock when the process ends, however it ends. On POSIX it is a record lock, which a forked child
doesn't share: a worker that outlives its parent doesn't keep the parent's files.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

if sys.platform == "win32":  # Windows has no fork either
    import filelock
else:
    import fcntl


_mine: set[tuple[int, str]] = set()
"""Names of the owners of this process, each with the process's id, because a forked child inherits the set."""


class Owner:
    """This process as an owner; alive until the process ends.

    Args:
        folder: the folder of the owners' lock files.

    Attributes:
        name: the name of the lock file.
        process: the process's id.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.name = secrets.token_hex(8)
        self.process = os.getpid()
        path = Path(folder, self.name)
        _mine.add((self.process, self.name))
        if sys.platform != "win32":
            # Never closed: closing any descriptor of the file would release the lock.
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
            self._end: Callable[[], object] = partial(os.close, descriptor)
            with contextlib.suppress(OSError):  # a file system without locks: all owners count as alive
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            lock = filelock.FileLock(path)
            lock.acquire()
            self._end = lock.release

    def end(self) -> None:
        """Releases the lock, as the end of the process does; on Windows the file can be removed only then."""
        self._end()


def is_alive(folder: str | os.PathLike[str], name: str, *, unknown: bool = True) -> bool:
    """True if the process of an owner still runs; `unknown` on a file system without locks."""
    if (os.getpid(), name) in _mine:  # closing its file would release the lock
        return True
    path = Path(folder, name)
    if sys.platform == "win32":
        lock = filelock.FileLock(path)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            return True
        lock.release()
        return False
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # the lock is held
        return True
    except OSError:  # locks don't work here, and the owner may be alive
        return unknown
    finally:
        os.close(descriptor)
    return False
