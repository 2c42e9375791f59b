"""Atomic writes: a file is written under another name and renamed, so that readers see the old file or the new one."""

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
"""The error numbers of a full disk and of a used-up quota."""


@contextlib.contextmanager
def atomic_write(
    path: str | os.PathLike[str],
    *,
    beside: str | os.PathLike[str] | None = None,
    synced: bool = True,
    keeps_mode: bool = False,
) -> Iterator[BinaryIO]:
    """Opens a temporary file for writing, which replaces ``path`` when the block ends and is removed if it raises.

    Args:
        path: the file to write or replace.
        beside: the temporary file's path, on the same disk; None for a random name in the same folder.
        synced: flush the file and its folder to the disk, so that after a power cut ``path`` is the whole new file and,
            where the system can flush folders, never the old one.
        keeps_mode: copy the permissions of the file that is replaced.

    Raises:
        OSError: the file can't be written; an existing ``path`` is unchanged.
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
    except BaseException:  # also Ctrl-C: the part isn't left behind
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def _sync_folder(folder: Path) -> None:
    """Flushes a folder, so that a rename in it survives a power cut; does nothing where the system can't."""
    with contextlib.suppress(OSError):  # Windows can't, nor can some network disks
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def rename(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Calls ``os.replace``; on Windows, tries again while another process has the target open."""
    for pause_s in (0.01, 0.05, 0.2, 1.0):
        try:
            os.replace(source, target)
            return
        except PermissionError:
            if os.name != "nt":
                raise
            time.sleep(pause_s)
    os.replace(source, target)
