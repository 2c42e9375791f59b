"""The manifest of a cache, in SQLite: a row for each file, and their sum; one for each pin; and of growing sets.

A row is there before its file, and stays until the file is gone: so the sum is never below what is on the disk,
wherever a process is killed. Rows of files that are being written name their owner; what a dead owner left is cleared
away.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

WRITING, THERE = 0, 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS files (
    id BLOB PRIMARY KEY, size INTEGER NOT NULL, checksum INTEGER, used REAL NOT NULL, state INTEGER NOT NULL, owner TEXT
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_use ON files (used);
CREATE INDEX IF NOT EXISTS unfinished ON files (owner) WHERE state = 0;
CREATE TABLE IF NOT EXISTS pins (name TEXT PRIMARY KEY, owner TEXT NOT NULL, ids BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS growing_epochs (
    dataset TEXT NOT NULL, epoch INTEGER, first INTEGER NOT NULL, stop INTEGER NOT NULL, missing TEXT NOT NULL,
    new INTEGER NOT NULL, number INTEGER NOT NULL, begun INTEGER NOT NULL DEFAULT 0, UNIQUE (dataset, epoch)
);
CREATE INDEX IF NOT EXISTS by_number ON growing_epochs (dataset, number);
CREATE TABLE IF NOT EXISTS growing_progress (
    dataset TEXT PRIMARY KEY, stop INTEGER NOT NULL, missing TEXT NOT NULL, room INTEGER, files INTEGER NOT NULL,
    bytes INTEGER NOT NULL, seconds REAL NOT NULL, capacity INTEGER NOT NULL, moved REAL NOT NULL, noted REAL NOT NULL,
    idle INTEGER NOT NULL, error TEXT NOT NULL, failed INTEGER NOT NULL
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


# One for all: a process forks only while no thread is inside SQLite, whose own locks a child would inherit for ever.
_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


class Row(NamedTuple):
    """A file: its id, and the bytes that it takes on the disk."""

    id: bytes
    size: int


class Manifest:
    """The table of one cache, as one process has it; any thread may use it.

    Args:
        path: of the database.

    Raises:
        sqlite3.DatabaseError: it is damaged, or can't be opened.
    """

    def __init__(self, path: Path) -> None:
        # What isn't written to the disk at once costs a power cut the last rows: `Cache` looks for their files then.
        with _lock:
            self._database = sqlite3.connect(path, timeout=120, isolation_level=None, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")
            self._database.executescript(_SCHEMA)

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """A transaction, the only one of all processes; what it did is undone where it raises."""
        with _lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")

    def change(self, sql: str, rows: Iterable[Any]) -> None:
        """Runs a statement for each row, in the current transaction or one of its own."""
        with _lock, contextlib.nullcontext() if self._database.in_transaction else self.changing():
            self._database.executemany(sql, rows)

    def rows(self, sql: str, *values: Any) -> list[Any]:
        """All rows that a statement finds."""
        with _lock:
            return self._database.execute(sql, values).fetchall()

    def counters(self) -> dict[str, int]:
        """``bytes``, ``files`` and what was counted by `count`."""
        return dict(self.rows("SELECT name, value FROM counters"))

    def count(self, numbers: dict[str, int]) -> None:
        """Adds to the counters."""
        rows = [(number, name) for name, number in numbers.items() if number]
        self.change("UPDATE counters SET value = value + ? WHERE name = ?", rows)

    def reserve(self, rows: Iterable[Row], owner: str, now: float) -> list[Row]:
        """Adds rows for files that are about to be written; returns those that weren't there yet."""
        new = []
        for row in rows:
            added = self._database.execute(
                "INSERT OR IGNORE INTO files VALUES (?, ?, NULL, ?, ?, ?)", (row.id, row.size, now, WRITING, owner)
            )
            if added.rowcount:
                new.append(row)
        return new

    def finish(self, written: Iterable[tuple[bytes, int | None]]) -> None:
        """Marks files as written, with their checksums."""
        rows = [(checksum, one) for one, checksum in written]
        self.change(f"UPDATE files SET state = {THERE}, owner = NULL, checksum = ? WHERE id = ?", rows)

    def remove(self, ids: Iterable[bytes]) -> None:
        """Removes the rows of files that are gone."""
        self.change("DELETE FROM files WHERE id = ?", [(one,) for one in ids])

    def touch(self, uses: dict[bytes, float]) -> None:
        """Records when files were used last."""
        rows = [(when, one) for one, when in uses.items()]
        self.change("UPDATE files SET used = max(used, ?) WHERE id = ?", rows)

    def oldest(self, start: float, is_free: Callable[[list[bytes]], Sequence[bool]]) -> Iterator[tuple[Row, float]]:
        """Yields files that may be evicted, least recently used first and from a time on, and when each was used."""
        rows = self._database.execute(
            f"SELECT id, size, used FROM files WHERE used >= ? AND state = {THERE} ORDER BY used", (start,)
        )
        while some := rows.fetchmany(512):
            free = is_free([one for one, _, _ in some])
            yield from ((Row(one, size), used) for (one, size, used), is_so in zip(some, free, strict=True) if is_so)

    def known(self, ids: Iterable[bytes]) -> dict[bytes, tuple[int, int, int | None]]:
        """Size, state and checksum of the files that have a row, by their ids."""
        sql = "SELECT size, state, checksum FROM files WHERE id = ?"
        with _lock:
            return {one: row for one in ids if (row := self._database.execute(sql, (one,)).fetchone()) is not None}

    def all(self) -> list[tuple[bytes, int, int | None, float]]:
        """Id, size, checksum and last use of every file that is whole."""
        return self.rows(f"SELECT id, size, checksum, used FROM files WHERE state = {THERE}")

    def unfinished(self) -> dict[str, list[bytes]]:
        """The files that are being written, by their owners."""
        found: dict[str, list[bytes]] = {}
        for owner, one in self.rows(f"SELECT owner, id FROM files WHERE state = {WRITING}"):
            found.setdefault(owner, []).append(one)
        return found

    def pin(self, name: str, owner: str, ids: bytes) -> None:
        """Adds a pin: its owner, and the ids, one behind the other."""
        self.change("INSERT INTO pins VALUES (?, ?, ?)", [(name, owner, ids)])

    def pins(self) -> dict[str, str]:
        """The pins' owners by their names."""
        return dict(self.rows("SELECT name, owner FROM pins"))

    def pinned(self, name: str) -> bytes:
        """The ids of a pin; empty where it is gone."""
        return b"".join(ids for (ids,) in self.rows("SELECT ids FROM pins WHERE name = ?", name))

    def unpin(self, names: Iterable[str]) -> None:
        """Removes pins."""
        self.change("DELETE FROM pins WHERE name = ?", [(name,) for name in names])
