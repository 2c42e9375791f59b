"""A cache's folder as one process has it open: its files, the manifest, pins, the process's place among the owners."""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
import threading
import time
import warnings
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import filelock
import numpy as np
from numpy.typing import NDArray

from fastpipe.atomic_write import atomic_write
from fastpipe.errors import DatasetError, FastpipeWarning
from fastpipe.sources._liveness import Owner, is_alive
from fastpipe.sources._manifest import Manifest

MARK = "fastpipe-cache"
"""The file that says of a folder that it is a cache's."""

_USES = 512
_UNSETTLED_S = 120.0  # a power cut may take what was written in so many seconds before it


class State:
    """A cache as one process has it open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = os.getpid()
        self._lock = threading.Lock()  # of the two that follow
        self._uses: dict[bytes, float] = {}
        self._counts: dict[str, int] = {}
        self._last_flush = time.monotonic()
        self._warned = False
        self._pins: dict[str, NDArray[np.uint64]] = {}
        self._oldest: tuple[frozenset[str], float] = frozenset(), 0.0
        try:
            self._refuse_others()
            folder.mkdir(parents=True, exist_ok=True)
            with filelock.FileLock(folder / "lock"):  # the first that is in a cache's folder: others know it by that
                for name in ("files", "parts", "owners"):
                    (folder / name).mkdir(exist_ok=True)
                self.manifest = self._manifest()
                self.owner = Owner(folder / "owners")
                self._clear_dead()
                self._after_restart()
        except (OSError, sqlite3.Error) as error:
            raise DatasetError(f"{folder} can't be used as a cache: {error}. Give a folder on a local disk.") from error
        self._parts = folder / "parts" / self.owner.name
        self._parts.mkdir()

    def _refuse_others(self) -> None:
        names = os.listdir(self.folder) if self.folder.is_dir() else []
        if names and not {MARK, "lock"}.intersection(names):
            raise DatasetError(f"{self.folder} holds other things: give an empty or a new folder for the cache.")

    def _manifest(self) -> Manifest:
        path = self.folder / "manifest.sqlite"
        try:
            return Manifest(path)
        except sqlite3.OperationalError:  # a full disk, no permission
            raise
        except sqlite3.DatabaseError:  # damaged: the files in the cache are still there, but what they are isn't sure
            for entry in self.folder.glob("manifest.sqlite*"):
                entry.unlink()
            shutil.rmtree(self.folder / "files")
            (self.folder / "files").mkdir()
            return Manifest(path)

    def path(self, one: bytes) -> str:
        """The path that a file has if it is there."""
        name = one.hex()
        return os.path.join(self.folder, "files", name[:2], name)

    def has(self, one: bytes) -> bool:
        """Whether a file is there."""
        return os.path.exists(self.path(one))

    def write(self, one: bytes, data: bytes) -> None:
        """Writes a file: it is there whole, or this raises OSError."""
        path = self.path(one)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with atomic_write(path, beside=self._parts / one.hex(), synced=False) as stream:
            stream.write(data)

    def unlink(self, one: bytes) -> bool:
        """Removes a file; False where it has to stay."""
        try:
            os.unlink(self.path(one))
        except FileNotFoundError:
            pass
        except OSError:  # Windows keeps what is open
            return False
        return True

    def is_sound(self, one: bytes, checksum: int | None) -> bool:
        """Whether a file is what was written, as far as it is known."""
        try:
            data = Path(self.path(one)).read_bytes()
        except OSError:
            return False
        return checksum is None or zlib.crc32(data) == checksum

    def used(self, one: bytes) -> None:
        """Notes a use; the manifest is told of many at once."""
        with self._lock:
            self._uses[one] = time.time()
        if len(self._uses) >= _USES:
            self.flush()

    def count(self, **numbers: int) -> None:
        """Adds to the counters, as `used`."""
        with self._lock:
            for name, number in numbers.items():
                self._counts[name] = self._counts.get(name, 0) + number
        if sum(numbers.values()) > 1 or time.monotonic() - self._last_flush > 1:
            self.flush()

    def flush(self) -> None:
        """Tells the manifest what was used and counted."""
        with self._lock:
            uses, self._uses = self._uses, {}
            counts, self._counts = self._counts, {}
        self._last_flush = time.monotonic()
        self.manifest.touch(uses)
        self.manifest.count(counts)

    def pin(self, ids: Sequence[bytes]) -> str:
        """Pins files until `unpin` or the end of this process; the pin's name."""
        name = secrets.token_hex(8)
        row = (name, self.owner.name, np.sort(_short(ids)).tobytes())
        self.manifest.change("INSERT INTO pins VALUES (?, ?, ?)", [row])
        return name

    def unpin(self, name: str) -> None:
        """Removes a pin."""
        self.manifest.change("DELETE FROM pins WHERE name = ?", [(name,)])

    def read_pins(self) -> None:
        """Reads the pins of owners that live, and removes those of others."""
        for (owner,) in self.manifest.rows("SELECT DISTINCT owner FROM pins"):
            if not is_alive(self.folder / "owners", owner):
                self.manifest.change("DELETE FROM pins WHERE owner = ?", [(owner,)])
        names = {name for (name,) in self.manifest.rows("SELECT name FROM pins")}
        pins = {name: ids for name, ids in self._pins.items() if name in names}
        for name in names - pins.keys():
            for (ids,) in self.manifest.rows("SELECT ids FROM pins WHERE name = ?", name):
                pins[name] = np.frombuffer(ids, np.uint64)
        self._pins = pins

    def are_free(self, ids: Sequence[bytes]) -> list[bool]:
        """Whether each id is in no pin, as of the last `read_pins`."""
        wanted = _short(ids)
        free = np.ones(len(wanted), bool)
        for pinned in self._pins.values():
            if len(pinned):  # sorted, and much longer than what is asked for
                free &= pinned[np.minimum(np.searchsorted(pinned, wanted), len(pinned) - 1)] != wanted
        return free.tolist()  # type: ignore[no-any-return]

    def count_pinned(self) -> int:
        """The number of pinned files, as of the last `read_pins`."""
        return len(np.unique(np.concatenate([*self._pins.values(), _short([])])))

    def oldest(self) -> Iterator[tuple[bytes, int]]:
        """Yields id and size of what may be evicted, least recently used first."""
        self.read_pins()
        names = frozenset(self._pins)
        # What is older than the last one that went is pinned, as long as the pins are the same.
        start = self._oldest[1] if names == self._oldest[0] else 0.0
        for one, size, used in self.manifest.oldest(start, self.are_free):
            self._oldest = names, used
            yield one, size

    def warn_once(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(text, FastpipeWarning, stacklevel=3)

    def _clear_dead(self) -> None:
        """Removes what killed processes left."""
        owners = self.folder / "owners"
        dead = [name for name in os.listdir(owners) if not is_alive(owners, name)]
        unfinished = self.manifest.unfinished()
        for name in {*dead, *(name for name in unfinished if not is_alive(owners, name))}:
            ids = unfinished.get(name, [])
            whole = [(one, None) for one in ids if self.has(one)]
            self.manifest.finish(whole)
            self.manifest.remove(set(ids) - {one for one, _ in whole})
            shutil.rmtree(self.folder / "parts" / name, ignore_errors=True)
            (owners / name).unlink(missing_ok=True)

    def _after_restart(self) -> None:
        """Checks the files after the machine was restarted: a power cut may have taken rows, or the last writes."""
        mark = self.folder / MARK
        now = _boot()
        if mark.exists() and (not now or mark.read_text() == now):
            return
        if mark.exists():
            rows = self.manifest.all()
            latest = max((used for *_, used in rows), default=0.0) - _UNSETTLED_S
            lost = [
                one
                for one, checksum, used in rows
                if not (self.is_sound(one, checksum) if used >= latest else self.has(one))
            ]
            known = {one.hex() for one, *_ in rows} - {one.hex() for one in lost}
            for folder, _, names in os.walk(self.folder / "files"):
                for name in names:
                    if name not in known:
                        os.unlink(os.path.join(folder, name))
            self.manifest.remove(lost)
        with atomic_write(mark, synced=False) as stream:
            stream.write(now.encode())


def _short(ids: Sequence[bytes]) -> NDArray[np.uint64]:
    """The first 8 bytes of ids: two files that have them in common are pinned together, which harms nobody."""
    return np.frombuffer(b"".join(one[:8] for one in ids), np.uint64)


def _boot() -> str:
    """The identity of this start of the machine; ``""`` if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
