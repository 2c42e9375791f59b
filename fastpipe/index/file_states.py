"""States of files and folders: sizes and times that tell whether something changed since it was listed."""

from __future__ import annotations

import os
import time

from fastpipe.types import RemoteFile

State = tuple[int, int, int]
"""Three integers that differ once a file or folder has changed."""

NEVER_EQUAL = -1
"""A modification time that makes a state differ from whatever the system says."""

SETTLED_NS = 3_000_000_000
"""Age from which on another change moves the times: they tick in steps of up to 2 s (FAT)."""


def is_settled(mtime: int, ctime: int, now: int) -> bool:
    """Whether the times, in ns, would move if there were another change; times of 0 are of systems that keep none."""
    return mtime > 0 and max(mtime, ctime) <= now - SETTLED_NS


def state_of(path: str) -> State:
    """Bytes, modification time and change time in ns; of a file in a store its bytes, version and 0."""
    if isinstance(path, RemoteFile):
        return path.length, path.version, 0
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def settled_state(path: str) -> State:
    """The state to keep of a file that is about to be read: one that changed just now may change again unseen."""
    if isinstance(path, RemoteFile):
        return state_of(path)
    now = time.time_ns()
    size, mtime, ctime = state_of(path)
    return size, mtime if is_settled(mtime, ctime, now) else NEVER_EQUAL, ctime
