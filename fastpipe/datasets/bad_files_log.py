"""``bad_files.csv``: one line for each bad file, shared by all workers, ranks and runs that write to it."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

from fastpipe.counts import pluralize
from fastpipe.datasets.bad_files import BadFile, BadFileRecord
from fastpipe.errors import DatasetError
from fastpipe.paths import absolute_path

if sys.platform == "win32":
    import filelock
else:
    import fcntl

_COLUMNS = ("path", "index", "reason", "time")
_PATIENCE_S = 10.0


def log_path(given: str | os.PathLike[str]) -> str:
    """The path of a log as an absolute one, so that workers, ranks and a later chdir refer to the same file.

    Raises:
        DatasetError: it is no path of a file.
    """
    if not (given and isinstance(given, (str, os.PathLike))):
        raise DatasetError(f"bad_files_log={given!r:.80}: give the path of a file, or None for no log.")
    return absolute_path(given)


def append_once(log: str, bad: BadFile, record: BadFileRecord, path_of: Callable[[int], str]) -> None:
    """Adds a line for a bad file, unless the record or the log already has one.

    Lines that other writers have added since the last call are read first; each is read by only one of the processes
    that share the record. A line is appended in one write, so that it stays whole even where the file can't be locked.

    Args:
        log: the CSV file. If it doesn't exist, it is made, with its folder and a line of column names.
        bad: the bad file to add.
        record: remembers which samples the log has.
        path_of: gives the path of a sample by its index.

    Raises:
        OSError: the log can't be written.
    """
    if record.listed[bad.index]:
        return
    Path(log).parent.mkdir(parents=True, exist_ok=True)
    with open(log, "a+b", buffering=0) as file, _locked(log, file.fileno()):
        end = file.seek(0, os.SEEK_END)
        known_to = int(record.shared["log_known_to"])
        if known_to > end:
            known_to = 0
        file.seek(known_to)
        for path, index in _entries(file.read(end - known_to)):
            if index < record.count and path_of(index) == path:
                record.listed[index] = True
        if not record.listed[bad.index]:
            now = datetime.now(timezone.utc).isoformat(timespec="seconds")
            row = _line(bad.path, bad.index, bad.reason, now)
            file.seek(max(end - 1, 0))
            cut = bool(end) and file.read(1) != b"\n"  # the last line was cut by a full disk or a crash
            data = (b"" if end else _line(*_COLUMNS)) + b"\n" * cut + row
            if (written := file.write(data)) < len(data):
                file.truncate(end)  # half a line is worse than none
                raise OSError(f"only {written} of {pluralize(len(data), 'byte')} could be written")
            record.listed[bad.index] = True
        record.shared["log_known_to"] = file.seek(0, os.SEEK_END)


@contextlib.contextmanager
def _locked(log: str, descriptor: int) -> Iterator[None]:
    """Locks the log if the file system supports locks; goes on without a lock after ``_PATIENCE_S`` seconds.

    On Windows, a locked file can't be read by others: there a separate lock file beside the log is locked, and stays.
    """
    if sys.platform == "win32":
        place = Path(log)
        lock = filelock.FileLock(place.with_name(f".{place.name}.lock"), timeout=_PATIENCE_S)
        with contextlib.suppress(OSError, NotImplementedError):  # a Timeout is an OSError
            lock.acquire()
        try:
            yield
        finally:
            lock.release()
        return
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # released when the descriptor is closed
            break
        except BlockingIOError:
            time.sleep(0.01)
        except OSError:
            break
    yield


def _line(*fields: object) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(fields)
    return text.getvalue().encode("utf-8", "surrogateescape")  # file names needn't be valid UTF-8


def _entries(data: bytes) -> Iterator[tuple[str, int]]:
    """Yields path and index of each line that has both; ignores other lines."""
    rows = csv.reader(io.StringIO(data.decode("utf-8", "surrogateescape"), newline=""))
    with contextlib.suppress(csv.Error):
        for row in rows:
            if len(row) >= 2 and row[1].isascii() and row[1].isdigit():
                yield row[0], int(row[1])
