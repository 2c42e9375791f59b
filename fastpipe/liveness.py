"""Owners of things in a shared folder: a process is alive as long as it holds the lock on its own file.

The system gives a lock up when its process ends, however it ends. On POSIX it is a record lock, which a forked child
doesn't share: a worker that outlives its parent doesn't keep the parent's things.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

if sys.platform == "win32":  # which has no fork either
    import filelock
else:
    import fcntl


_mine: set[tuple[int, str]] = set()
"""Owners that are this process itself, with its number: a forked child inherits the set."""


class Owner:
    """This process as an owner, alive until it ends.

    Args:
        folder: where owners have their files.

    Attributes:
        name: of its file.
        process: its number.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.name = secrets.token_hex(8)
        self.process = os.getpid()
        path = Path(folder, self.name)
        _mine.add((self.process, self.name))
        if sys.platform != "win32":
            # Never closed: closing any descriptor of the file would give the lock up.
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
            self._end: Callable[[], object] = partial(os.close, descriptor)
            with contextlib.suppress(OSError):  # a file system without locks: then nobody is ever taken for dead
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            lock = filelock.FileLock(path)
            lock.acquire()
            self._end = lock.release

    def end(self) -> None:
        """Gives the lock up, as the end of the process does: the file can be removed, on Windows as well."""
        self._end()


def is_alive(folder: str | os.PathLike[str], name: str) -> bool:
    """True if the process that is an owner in a folder still lives."""
    if (os.getpid(), name) in _mine:  # closing its file would give the lock up
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
    except OSError:  # held; or locks don't work here, and it may well be
        return True
    finally:
        os.close(descriptor)
    return False
