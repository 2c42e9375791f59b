"""The manifest of a cache, in SQLite: its files and the sum of their sizes, its pins, and growing sets' state.

A file's row is added before the file, and removed after it. So the sum is never smaller than the size on disk, whenever
a process is killed. Rows of files that are being written name their owner, a process; if it died, they are removed.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

WRITING, THERE = 0, 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS files (
    id BLOB PRIMARY KEY, size INTEGER NOT NULL, checksum INTEGER, used REAL NOT NULL, state INTEGER NOT NULL, owner TEXT
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_use ON files (used);
CREATE INDEX IF NOT EXISTS unfinished ON files (owner) WHERE state = 0;
CREATE TABLE IF NOT EXISTS pins (name TEXT PRIMARY KEY, owner TEXT NOT NULL, ids BLOB NOT NULL);
-- State of growing sets, read and written by `GrowingState`. The epoch of a forgotten row is NULL.
CREATE TABLE IF NOT EXISTS growing_epochs (
    dataset TEXT NOT NULL, epoch INTEGER, first INTEGER NOT NULL, stop INTEGER NOT NULL, missing TEXT NOT NULL,
    new INTEGER NOT NULL, number INTEGER NOT NULL, begun INTEGER NOT NULL DEFAULT 0, UNIQUE (dataset, epoch)
);
CREATE INDEX IF NOT EXISTS by_number ON growing_epochs (dataset, number);
CREATE TABLE IF NOT EXISTS growing_progress (
    dataset TEXT PRIMARY KEY, stop INTEGER NOT NULL, missing TEXT NOT NULL, room INTEGER, files INTEGER NOT NULL,
    bytes INTEGER NOT NULL, seconds REAL NOT NULL, capacity INTEGER NOT NULL, last_arrival REAL NOT NULL,
    written REAL NOT NULL, idle INTEGER NOT NULL, error TEXT NOT NULL, failures INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT OR IGNORE INTO counters VALUES
    ('bytes', 0), ('files', 0), ('hits', 0), ('misses', 0), ('fetched_bytes', 0), ('evicted', 0);
CREATE TRIGGER IF NOT EXISTS added AFTER INSERT ON files BEGIN
    UPDATE counters SET value = value + new.size WHERE name = 'bytes';
    UPDATE counters SET value = value + 1 WHERE name = 'files';
END;
CREATE TRIGGER IF NOT EXISTS removed AFTER DELETE ON files BEGIN
    UPDATE counters SET value = value - old.size WHERE name = 'bytes';
    UPDATE counters SET value = value - 1 WHERE name = 'files';
END;
"""


# One lock for all manifests, held during a fork: a child would inherit SQLite's own locks locked for ever.
LOCK = threading.RLock()
_open: weakref.WeakSet[Manifest] = weakref.WeakSet()
_inherited: list[Manifest] = []
"""The parent's manifests, kept alive in a forked child, where SQLite connections must not be closed."""


def _after_fork() -> None:
    _inherited.extend(_open)
    LOCK.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=_after_fork)


class Manifest:
    """One process's connection to the tables of a cache; usable from any thread.

    Args:
        path: the database's path.

    Raises:
        sqlite3.DatabaseError: it is damaged, or can't be opened.
    """

    def __init__(self, path: Path) -> None:
        # Without a sync at each commit, a power cut may lose the last rows; `CacheFolder._after_restart` checks for
        # that.
        with LOCK:
            self._database = sqlite3.connect(path, timeout=120, isolation_level=None, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")
            self._database.executescript(_SCHEMA)
            _open.add(self)

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Runs the block in an exclusive transaction, or as a part of an outer one; rolled back if it raises."""
        with LOCK:
            if self._database.in_transaction:
                yield
                return
            with self._database:
                self._database.execute("BEGIN IMMEDIATE")
                yield

    def change(self, sql: str, rows: Iterable[Sequence[object] | Mapping[str, object]]) -> None:
        """Runs a statement for each row, in one transaction."""
        with self.changing():
            self._database.executemany(sql, rows)

    def rows(self, sql: str, *values: object) -> list[Any]:
        """All rows that a query returns."""
        with LOCK:
            return self._database.execute(sql, values).fetchall()

    def counters(self) -> dict[str, int]:
        """The counters: ``bytes``, ``files`` and those of `count`."""
        return dict(self.rows("SELECT name, value FROM counters"))

    def count(self, numbers: dict[str, int]) -> None:
        """Adds to the counters."""
        rows = [(number, name) for name, number in numbers.items() if number]
        self.change("UPDATE counters SET value = value + ? WHERE name = ?", rows)

    def reserve(self, one: bytes, size: int, owner: str) -> bool:
        """Adds the row of a file that is about to be written; returns False if it has a row already."""
        sql = "INSERT OR IGNORE INTO files VALUES (?, ?, NULL, ?, ?, ?)"
        return self._database.execute(sql, (one, size, time.time(), WRITING, owner)).rowcount > 0

    def finish(self, written: Iterable[tuple[bytes, int | None]]) -> None:
        """Marks files as written, with their checksums."""
        rows = [(checksum, one) for one, checksum in written]
        self.change(f"UPDATE files SET state = {THERE}, owner = NULL, checksum = ? WHERE id = ?", rows)

    def remove(self, ids: Iterable[bytes]) -> None:
        """Removes the rows of files that are gone."""
        self.change("DELETE FROM files WHERE id = ?", [(one,) for one in ids])

    def touch(self, uses: dict[bytes, float]) -> None:
        """Records the times of the files' last uses."""
        rows = [(when, one) for one, when in uses.items()]
        self.change("UPDATE files SET used = max(used, ?) WHERE id = ?", rows)

    def oldest(
        self, start: float, are_free: Callable[[list[bytes]], Sequence[bool]]
    ) -> Iterator[tuple[bytes, int, float]]:
        """Yields id, size and last use of files that may be evicted, least recently used first, from a time on."""
        rows = self._database.execute(
            f"SELECT id, size, used FROM files WHERE used >= ? AND state = {THERE} ORDER BY used", (start,)
        )
        while some := rows.fetchmany(512):
            yield from itertools.compress(some, are_free([one for one, *_ in some]))

    def known(self, ids: Iterable[bytes]) -> dict[bytes, tuple[int, int]]:
        """Size and state of those of the files that have a row, by id."""
        found = ((one, self.rows("SELECT size, state FROM files WHERE id = ?", one)) for one in ids)
        return {one: rows[0] for one, rows in found if rows}

    def all(self) -> list[tuple[bytes, int | None, float]]:
        """Id, checksum and last use of every complete file."""
        return self.rows(f"SELECT id, checksum, used FROM files WHERE state = {THERE}")

    def unfinished(self) -> list[tuple[str, bytes]]:
        """Owner and id of the files that are being written."""
        return self.rows(f"SELECT owner, id FROM files WHERE state = {WRITING}")
