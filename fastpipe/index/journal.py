"""Keeps results on disk until a run is done, so that an interrupted run of hours can be continued."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import threading
import time
from typing import Any

import filelock

from fastpipe.index.format import kept_at

_KEPT_S = 24 * 3600.0
"""The age after which a result is dropped."""


class Journal:
    """Results by key, kept in the cache folder until the run that needs them is done; usable from any thread.

    A kill loses only the latest results. If nothing can be written, or another process does the same work, nothing is
    kept, and an interrupted run starts from the beginning. `about` identifies the work that the results belong to;
    `anew` drops earlier results.
    """

    def __init__(self, kind: str, about: str, anew: bool = False) -> None:
        self._lock = threading.Lock()
        self._rows: sqlite3.Connection | None = None
        self._alone = contextlib.ExitStack()
        with contextlib.suppress(OSError, NotImplementedError, sqlite3.Error):
            self._folder = kept_at(kind, about)
            self._folder.mkdir(parents=True, exist_ok=True)
            self._alone.enter_context(filelock.FileLock(self._folder / "lock", timeout=0))
            try:
                self._rows = self._opened(anew)
            except sqlite3.DatabaseError:  # damaged: go on without, as a journal only saves time
                for file in self._folder.glob("results.sqlite*"):
                    file.unlink()
                self._rows = self._opened(anew)

    def _opened(self, anew: bool) -> sqlite3.Connection:
        rows = sqlite3.connect(self._folder / "results.sqlite", isolation_level=None, check_same_thread=False)
        rows.execute("PRAGMA locking_mode=EXCLUSIVE")  # without shared memory, which network disks lack
        rows.execute("PRAGMA journal_mode=WAL")
        rows.execute("PRAGMA synchronous=OFF")
        rows.execute("CREATE TABLE IF NOT EXISTS done (key BLOB PRIMARY KEY, result TEXT, at REAL) WITHOUT ROWID")
        rows.execute("DELETE FROM done WHERE ? OR at < ?", (anew, time.time() - _KEPT_S))
        return rows

    def get(self, key: bytes) -> Any:
        """The result for a key, as read from JSON; None if there is none."""
        if self._rows is None:
            return None
        with self._lock, contextlib.suppress(sqlite3.Error, ValueError, TypeError):  # damaged: the work is done again
            row = self._rows.execute("SELECT result FROM done WHERE key = ?", (key,)).fetchone()
            return None if row is None else json.loads(row[0])
        return None

    def put(self, key: bytes, result: object) -> None:
        """Keeps a result, which must be representable in JSON."""
        if self._rows is not None:
            row = key, json.dumps(result), time.time()
            with self._lock, contextlib.suppress(sqlite3.Error):  # on a full disk, the run goes on without a journal
                self._rows.execute("INSERT OR REPLACE INTO done VALUES (?, ?, ?)", row)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *problem: object) -> None:
        """Closes the journal; without an error it is removed, as the run is done."""
        with self._alone:
            if self._rows is not None:
                with contextlib.suppress(sqlite3.Error):
                    self._rows.close()
                if problem[0] is None:
                    shutil.rmtree(self._folder, ignore_errors=True)
