"""The folder for the ledgers of child processes, with a lock that tells if its process was killed."""

from __future__ import annotations

import os
import shutil
import tempfile
import time

from fastpipe.liveness import Owner, is_alive

_PREFIX = "fastpipe-accounts-"

_STARTING_S = 60.0
"""The age below which a folder may belong to a process that hasn't taken its lock yet."""


def make_folder() -> tuple[str, Owner]:
    """Makes a folder owned by this process, with a lock, and removes folders whose process was killed.

    Returns:
        The folder and its owner, for `remove_folder`.
    """
    parent = _temporary_folder()
    with os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and _is_left(entry):
                shutil.rmtree(entry.path, ignore_errors=True)
    folder = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
    return folder, Owner(folder)


def remove_folder(folder: str, owner: Owner) -> None:
    """Removes the folder if this process has made it; a forked process doesn't."""
    if owner.process == os.getpid():
        owner.end()
        shutil.rmtree(folder, ignore_errors=True)


def _temporary_folder() -> str:
    """``tempfile.gettempdir()``, which is as if it hadn't been asked yet: a script may set ``TMPDIR`` later."""
    before = tempfile.tempdir
    try:
        return tempfile.gettempdir()
    finally:
        tempfile.tempdir = before


def _is_left(entry: os.DirEntry[str]) -> bool:
    """True for a folder of this user's whose owner process has ended."""
    try:
        status = entry.stat(follow_symlinks=False)
        if hasattr(os, "getuid") and status.st_uid != os.getuid():
            return False
        if not entry.is_dir(follow_symlinks=False) or time.time() - status.st_mtime < _STARTING_S:
            return False
        return not any(is_alive(entry.path, name) for name in os.listdir(entry.path) if not name.endswith(".json"))
    except OSError:  # another process is removing it
        return False
