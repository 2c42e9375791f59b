"""Files that are written beside and renamed: whoever reads one sees what was there before, or all of what is new."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["NO_ROOM", "atomic_write", "rename"]

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""The numbers of the errors that say that a disk, or what a user may have of it, is full."""


@contextlib.contextmanager
def atomic_write(
    path: str | os.PathLike[str],
    *,
    beside: str | os.PathLike[str] | None = None,
    synced: bool = True,
    keeps_mode: bool = False,
) -> Iterator[BinaryIO]:
    """A file open for writing, which takes its place when the block ends, and leaves nothing behind if that raises.

    Args:
        path: the place; a file that is there is replaced.
        beside: where it is written before, on the same disk; None for a name of its own in the same folder.
        synced: wait for the disk, so that a power cut leaves neither a file with holes under that name nor, where the
            system can tell the disk so, the file that was there before.
        keeps_mode: give it the permissions of the file that is there.

    Raises:
        OSError: it can't be written; what was there before is untouched.
    """
    file = Path(path)
    part = file.with_name(f"{file.name}.{secrets.token_hex(4)}.part") if beside is None else Path(beside)
    try:
        with open(part, "wb") as stream:
            yield stream
            if synced:
                stream.flush()
                os.fsync(stream.fileno())
        if keeps_mode and file.exists():
            shutil.copymode(file, part)
        rename(part, file)
        if synced:
            _sync_folder(file.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def _sync_folder(folder: Path) -> None:
    """Makes a rename last through a loss of power, where the system can."""
    with contextlib.suppress(OSError):  # Windows can't, and some network disks can't
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def rename(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """``os.replace``, again for a while where Windows refuses because somebody is reading the target."""
    for pause_s in (0.01, 0.05, 0.2, 1.0):
        try:
            os.replace(source, target)
            return
        except PermissionError:
            if os.name != "nt":
                raise
            time.sleep(pause_s)
    os.replace(source, target)
