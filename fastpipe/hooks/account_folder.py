"""The folder for the ledgers of child processes, with a lock that tells if its process was killed."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress

from fastpipe.liveness import Owner, is_alive

_PREFIX = "fastpipe-accounts-"

_MOST_ANCESTORS = 32

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
    folder = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent)
    return folder, Owner(folder)


def remove_folder(folder: str, owner: Owner) -> None:
    """Removes the folder if this process has made it; a forked process doesn't."""
    if owner.process == os.getpid():
        owner.end()
        shutil.rmtree(folder, ignore_errors=True)


def folder_of_ancestor() -> str | None:
    """The folder of the nearest process that has one, of those that started this process."""
    with suppress(OSError), os.scandir(_temporary_folder()) as entries:
        folders = [entry for entry in entries if entry.name.startswith(_PREFIX) and _is_ours(entry)]
        for process in _ancestors() if folders else ():
            for entry in folders:
                if entry.name.startswith(f"{_PREFIX}{process}-") and _has_owner(entry.path):
                    return entry.path
    return None


def _ancestors() -> Iterator[int]:
    """Ids of the processes that have started this one, the nearest first; without ``/proc`` only the nearest."""
    process = os.getppid()
    for _ in range(_MOST_ANCESTORS):
        yield process
        try:
            with open(f"/proc/{process}/stat", "rb") as file:
                process = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            return


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
        if not _is_ours(entry) or time.time() - entry.stat(follow_symlinks=False).st_mtime < _STARTING_S:
            return False
        return not _has_owner(entry.path)
    except OSError:  # another process is removing it
        return False


def _is_ours(entry: os.DirEntry[str]) -> bool:
    """True for a folder that belongs to this user."""
    status = entry.stat(follow_symlinks=False)
    return entry.is_dir(follow_symlinks=False) and (not hasattr(os, "getuid") or status.st_uid == os.getuid())


def _has_owner(folder: str) -> bool:
    """True if the process that made a folder still runs."""
    return any(is_alive(folder, name) for name in os.listdir(folder) if not name.endswith(".json"))
