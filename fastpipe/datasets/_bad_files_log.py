"""``bad_files.csv``: a line for each bad file, written by any number of workers, ranks and runs."""

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

from fastpipe.datasets.bad_files import BadFile, BadFileRecord

if sys.platform == "win32":
    import filelock
else:
    import fcntl

_COLUMNS = ("path", "index", "reason", "time")
_PATIENCE_S = 10.0


def append_once(log: str, bad: BadFile, record: BadFileRecord, path_of: Callable[[int], str]) -> None:
    """Adds a line for a bad file, unless this record or the log has it.

    Lines that others have added since the last time are looked through first, each once for all processes that share
    the record. A line is one write at the end of the file, so that it stays whole even where no lock can be had.

    Args:
        log: the CSV file; made, with its folder and a line of column names, where it doesn't exist.
        bad: what to add.
        record: remembers what is in the log.
        path_of: the path of a sample.

    Raises:
        OSError: the log can't be written.
    """
    if record.listed[bad.index]:
        return
    os.makedirs(os.path.dirname(log), exist_ok=True)
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
            cut = bool(end) and file.read(1) != b"\n"  # a full disk, or a killed machine
            data = (b"" if end else _line(*_COLUMNS)) + b"\n" * cut + row
            if (written := file.write(data)) < len(data):
                file.truncate(end)  # half a line is worse than none
                raise OSError(f"only {written} of {len(data)} bytes could be written")
            record.listed[bad.index] = True
        record.shared["log_known_to"] = file.seek(0, os.SEEK_END)


@contextlib.contextmanager
def _locked(log: str, descriptor: int) -> Iterator[None]:
    """Locks the log where the disk can; a lock that isn't let go of holds up nobody for long.

    The log itself is locked. Windows lets nobody read what is locked: there a file beside it is, and stays.
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
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # goes when the descriptor is closed
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
    """Path and index of each line that has them; what else stands in the file is nobody's concern."""
    rows = csv.reader(io.StringIO(data.decode("utf-8", "surrogateescape"), newline=""))
    with contextlib.suppress(csv.Error):
        for row in rows:
            if len(row) >= 2 and row[1].isascii() and row[1].isdigit():
                yield row[0], int(row[1])
