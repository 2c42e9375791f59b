"""Measures reading the files without the page cache.

"Cold" means: not in this system's page cache. ``posix_fadvise(DONTNEED)`` drops a file's pages without touching the
file; a file counts as cold only if a read without waiting (``RWF_NOWAIT``) then finds nothing. A program can't see the
caches of the disk, a hypervisor or a file server.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from fastpipe import readers
from fastpipe.counts import pluralize
from fastpipe.paths import open_regular
from fastpipe.tools.doctor.measurements import Disk

_READERS = 8
_LEAST = 8  # the fewest cold files for a measurement


def measure_disk(paths: Sequence[str], all_files: int, seconds: float = 2.0) -> Disk:
    """Reads cold files, several at once.

    The files are dropped from the page cache, and read into it again at the end. Files that can't be read are left out.
    """
    deadline = time.perf_counter() + seconds
    known = [answer for path in paths if (answer := is_resident(path)) is not None]
    cold, reason = _dropped(paths, bool(known))
    cold_per_s = _together(cold, deadline)
    if cold_per_s is None:
        reason = reason or f"fewer than {_LEAST} files were read in {seconds:.0f} s"
    for path in paths:  # the next measurements need them in the page cache
        if time.perf_counter() > deadline + seconds:
            break
        _read(path)
    sizes = []
    for path in paths:
        with contextlib.suppress(OSError):
            sizes.append(readers.stat_file(path)[0])
    return Disk(
        files=len(sizes),
        mean_bytes=statistics.fmean(sizes) if sizes else 0.0,
        all_files=all_files,
        resident=sum(known) / len(known) if known else None,
        cold_per_s=cold_per_s,
        readers=_READERS,
        reason=reason,
    )


def _dropped(paths: Sequence[str], is_known: bool) -> tuple[list[str], str]:
    """Drops files from the page cache; returns those that are out of it, or none and the reason if they are too few.

    `is_known` says whether this system tells which files are in the page cache.
    """
    if not hasattr(os, "posix_fadvise"):
        return [], "this system has no posix_fadvise, which takes files out of the page cache"
    if not is_known:
        return [], "this system doesn't say which files are in the page cache"
    cold = [path for path in paths if _drop(path)]
    if len(cold) >= _LEAST:
        return cold, ""
    if len(cold) < len(paths) / 2:
        kept = len(paths) - len(cold)
        return [], f"{kept} of {pluralize(len(paths), 'file')} stayed in the page cache, as newly written files do"
    return [], f"{pluralize(len(cold), 'file')}: too few to measure it on"


def is_resident(path: str) -> bool | None:
    """True if the last byte of a file is in the page cache; None if the system or the file can't tell."""
    if not (hasattr(os, "preadv") and hasattr(os, "RWF_NOWAIT")):
        return None
    try:
        name, offset, size = readers.place_of(path)
        with open_regular(name) as file:
            if size < 0:
                size = os.fstat(file.fileno()).st_size
            # The last page, which read-ahead fills last.
            return os.preadv(file.fileno(), [bytearray(1)], offset + max(0, size - 1), os.RWF_NOWAIT) == min(1, size)
    except BlockingIOError:
        return False
    except OSError:  # no such file, no regular file, or a file system that can't tell
        return None


def _drop(path: str) -> bool:
    """Drops a file from the page cache; returns True if it is out of it."""
    try:
        name, offset, size = readers.place_of(path)
        with open_regular(name) as file:
            os.posix_fadvise(file.fileno(), offset, max(0, size), os.POSIX_FADV_DONTNEED)
    except OSError:
        return False
    return is_resident(path) is False


def _read(path: str) -> bool:
    """Reads a file as a dataset does; returns False if that fails."""
    try:
        readers.read_file(path, None)
    except OSError:
        return False
    return True


def _together(paths: Sequence[str], deadline: float) -> float | None:
    """Files a second with several readers at once; None if not all were read before the deadline."""
    if not paths:
        return None
    start = time.perf_counter()
    with ThreadPoolExecutor(_READERS, thread_name_prefix="fastpipe-doctor") as pool:
        done = sum(pool.map(lambda path: time.perf_counter() <= deadline and _read(path), paths))
    taken = time.perf_counter() - start
    return done / taken if done >= _LEAST else None
