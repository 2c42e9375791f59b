"""`CacheFolder`: the open folder of a cache in one process; knows files by their ids, and nothing of stores."""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import shutil
import sqlite3
import threading
import time
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import filelock
import numpy as np
from numpy.typing import NDArray

from fastpipe.atomic_write import NO_ROOM, atomic_write
from fastpipe.errors import DatasetError, FastpipeWarning
from fastpipe.liveness import Owner, is_alive
from fastpipe.sources.manifest import THERE, Manifest

MARK = "fastpipe-cache"
"""The file that marks a folder as a cache."""

_BLOCK = 4096  # a file's size on disk is rounded up to a multiple of it
_USES = 512
_MARKED_EVERY_S, _RECENT_S = 60.0, 300.0
_UNSETTLED_S = 120.0  # a power cut may take what was written in this many seconds before it


class CacheFolder:
    """The files of a cache, its manifest and pins, and this process as one of their owners.

    Args:
        folder: the cache's folder; made if it is missing.

    Raises:
        DatasetError: it holds other things, or can't be written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = os.getpid()
        self._lock = threading.Lock()  # guards the next two attributes
        self._uses: dict[bytes, float] = {}
        self._counts: dict[str, int] = {}
        self._last_flush = self._marked = time.monotonic()
        self._warned = False
        self._pins: dict[str, NDArray[np.uint64]] = {}
        self._oldest: tuple[frozenset[str], float] = frozenset(), 0.0
        try:
            self._refuse_others()
            folder.mkdir(parents=True, exist_ok=True)
            with filelock.FileLock(folder / "lock"):  # a new cache's first file, by which others recognise it
                for name in ("files", "parts", "owners"):
                    (folder / name).mkdir(exist_ok=True)
                self._refuse_other_machine()
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

    def _refuse_other_machine(self) -> None:
        """Raises DatasetError if processes of another machine use the folder: nothing here is safe between machines."""
        try:
            boot, _, machine = (self.folder / MARK).read_text().partition("\n")
            age_s = time.time() - (self.folder / MARK).stat().st_mtime
        except FileNotFoundError:
            return
        if not boot or not _boot() or boot == _boot():
            return
        owners = self.folder / "owners"
        alive = any(is_alive(owners, name, unknown=False) for name in os.listdir(owners))  # locks end with a restart
        if alive or (machine and machine != _machine() and age_s < _RECENT_S):
            raise DatasetError(
                f"{self.folder} is the cache of another machine, whose processes use it, or did so in the last "
                f"{_RECENT_S / 60:.0f} minutes. A cache is shared by the processes of one machine only: give each "
                "machine a folder of its own, on a local disk."
            )

    def _manifest(self) -> Manifest:
        path = self.folder / "manifest.sqlite"
        try:
            return Manifest(path)
        except sqlite3.OperationalError:  # a full disk, or no permission
            raise
        except sqlite3.DatabaseError:  # damaged: the files are still there, but can't be trusted
            for entry in self.folder.glob("manifest.sqlite*"):
                entry.unlink()
            shutil.rmtree(self.folder / "files")
            (self.folder / "files").mkdir()
            return Manifest(path)

    def path(self, one: bytes) -> str:
        """The path of a file, whether it is there or not."""
        name = one.hex()
        return os.path.join(self.folder, "files", name[:2], name)

    def put(self, contents: Mapping[bytes, bytes], capacity: int) -> set[bytes]:
        """Writes files, as far as there is room; returns the ids of those that are there afterwards."""
        sizes = {one: -(-len(data) // _BLOCK) * _BLOCK for one, data in contents.items()}
        with self.manifest.changing():
            known = self.manifest.known(sizes)
            # The file of a row may have been removed by hand; a row of another size is of another file.
            gone = {
                one for one, (size, at) in known.items() if at == THERE and not (size == sizes[one] and self._has(one))
            }
            self.manifest.remove(one for one in gone if self._unlink(one))
            new = {one: size for one, size in sizes.items() if one not in known or one in gone}
            room = self._make_room(sum(new.values()), capacity)
            ours = []
            for one, size in new.items():
                if size <= room and self.manifest.reserve(one, size, self.owner.name):
                    ours.append(one)
                    room -= size
        written: dict[bytes, int] = {}
        try:
            for one in ours:
                if self._write(one, contents[one]):
                    written[one] = zlib.crc32(contents[one])
        finally:
            self.manifest.finish(written.items())
            self.manifest.remove(one for one in ours if one not in written)
        self.count(fetched_bytes=sum(len(contents[one]) for one in written))
        others = {one for one, (_, at) in known.items() if at == THERE and one not in gone}  # by other processes
        return others | written.keys()

    def evict(self, ids: Sequence[bytes]) -> int:
        """Removes files, including pinned ones; returns the number of bytes freed."""
        with self.manifest.changing():
            known = self.manifest.known(ids)
            gone = [one for one in ids if known.get(one, (0, 0))[1] == THERE and self._unlink(one)]
            self._forget_evicted(gone)
        return sum(known[one][0] for one in gone)

    def clear(self) -> None:
        """Removes all files that aren't pinned."""
        self._read_pins()
        ids = [one for one, *_ in self.manifest.all()]
        self.evict([one for one, free in zip(ids, self._are_free(ids), strict=True) if free])

    def check(self) -> int:
        """Removes files whose bytes have changed; returns their number."""
        damaged = [one for one, checksum, _ in self.manifest.all() if not self._is_sound(one, checksum)]
        self.evict(damaged)
        return len(damaged)

    def _write(self, one: bytes, data: bytes) -> bool:
        """Writes a file atomically; evicts other files if the disk is full. Returns False if it can't be written."""
        path = self.path(one)
        for _ in range(3):
            try:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with atomic_write(path, beside=self._parts / one.hex(), synced=False) as stream:
                    stream.write(data)
                return True
            except OSError as error:
                problem = error
            if problem.errno not in NO_ROOM:
                break
            with self.manifest.changing():
                total = self.manifest.counters()["bytes"]
                self._make_room(2 * len(data) + _BLOCK, total)  # regardless of the capacity
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"the cache at {self.folder} can't keep what is read ({problem.strerror or problem}), so it is read "
                "from the store each time. Make room on that disk, or give a smaller capacity.",
                FastpipeWarning,
                stacklevel=3,
            )
        return False

    def _make_room(self, wanted: int, capacity: int) -> int:
        """Evicts files until there is room; returns the number of free bytes. Call it in a transaction."""
        room = capacity - self.manifest.counters()["bytes"]
        if room >= wanted:
            return room
        self.flush()
        evicted = []
        for one, size in self._oldest_free():
            if self._unlink(one):
                evicted.append(one)
                room += size
            if room >= wanted:
                break
        self._forget_evicted(evicted)
        return room

    def _forget_evicted(self, ids: Sequence[bytes]) -> None:
        self.manifest.remove(ids)
        self.manifest.count({"evicted": len(ids)})

    def _has(self, one: bytes) -> bool:
        return os.path.exists(self.path(one))

    def _unlink(self, one: bytes) -> bool:
        """Removes a file; returns False if it can't be removed."""
        try:
            os.unlink(self.path(one))
        except FileNotFoundError:
            pass
        except OSError:  # Windows can't remove open files
            return False
        return True

    def _is_sound(self, one: bytes, checksum: int | None) -> bool:
        """True if a file has the checksum that was recorded, or none was."""
        try:
            data = Path(self.path(one)).read_bytes()
        except OSError:
            return False
        return checksum is None or zlib.crc32(data) == checksum

    def used(self, one: bytes) -> None:
        """Records a use of a file; uses are written to the manifest in groups."""
        with self._lock:
            self._uses[one] = time.time()
        if len(self._uses) >= _USES:
            self.flush()

    def count(self, **numbers: int) -> None:
        """Adds to the counters; single counts are written to the manifest once a second, larger ones at once."""
        with self._lock:
            for name, number in numbers.items():
                self._counts[name] = self._counts.get(name, 0) + number
        if sum(numbers.values()) > 1 or time.monotonic() - self._last_flush > 1:
            self.flush()

    def flush(self) -> None:
        """Writes the uses and counts to the manifest."""
        with self._lock:
            uses, self._uses = self._uses, {}
            counts, self._counts = self._counts, {}
        self._last_flush = time.monotonic()
        if self._last_flush > self._marked + _MARKED_EVERY_S:
            self._marked = self._last_flush
            with contextlib.suppress(OSError):
                os.utime(self.folder / MARK)  # for other machines: it is in use
        self.manifest.touch(uses)
        self.manifest.count(counts)

    def pin(self, ids: Sequence[bytes]) -> str:
        """Pins files until `unpin` or the end of this process; returns the pin's name."""
        name = secrets.token_hex(8)
        row = (name, self.owner.name, np.sort(_pin_keys(ids)).tobytes())
        self.manifest.change("INSERT INTO pins VALUES (?, ?, ?)", [row])
        return name

    def unpin(self, name: str) -> None:
        """Removes a pin."""
        self.manifest.change("DELETE FROM pins WHERE name = ?", [(name,)])

    def _read_pins(self) -> None:
        """Reads the pins of processes that are alive, and removes those of dead ones."""
        for (owner,) in self.manifest.rows("SELECT DISTINCT owner FROM pins"):
            if not is_alive(self.folder / "owners", owner):
                self.manifest.change("DELETE FROM pins WHERE owner = ?", [(owner,)])
        names = {name for (name,) in self.manifest.rows("SELECT name FROM pins")}
        pins = {name: ids for name, ids in self._pins.items() if name in names}
        for name in names - pins.keys():
            for (ids,) in self.manifest.rows("SELECT ids FROM pins WHERE name = ?", name):
                pins[name] = np.frombuffer(ids, np.uint64)
        self._pins = pins

    def _are_free(self, ids: Sequence[bytes]) -> list[bool]:
        """For each id, True if it is in no pin, as of the last `_read_pins`."""
        wanted = _pin_keys(ids)
        free = np.ones(len(wanted), bool)
        for pinned in self._pins.values():
            if len(pinned):  # sorted, and much longer than `ids`
                free &= pinned[np.minimum(np.searchsorted(pinned, wanted), len(pinned) - 1)] != wanted
        is_free: list[bool] = free.tolist()
        return is_free

    def count_pinned(self) -> int:
        """The number of pinned files."""
        self._read_pins()
        return len(np.unique(np.concatenate([*self._pins.values(), _pin_keys([])])))

    def _oldest_free(self) -> Iterator[tuple[bytes, int]]:
        """Yields id and size of the files that may be evicted, least recently used first."""
        self._read_pins()
        names = frozenset(self._pins)
        # Files older than the last one evicted are all pinned, as long as the pins haven't changed.
        start = self._oldest[1] if names == self._oldest[0] else 0.0
        for one, size, used in self.manifest.oldest(start, self._are_free):
            self._oldest = names, used
            yield one, size

    def _clear_dead(self) -> None:
        """Removes unfinished files of killed processes."""
        owners = self.folder / "owners"
        unfinished = self.manifest.unfinished()
        for name in {*os.listdir(owners), *(owner for owner, _ in unfinished)}:
            if is_alive(owners, name):
                continue
            ids = [one for owner, one in unfinished if owner == name]
            whole = [one for one in ids if self._has(one)]
            self.manifest.finish((one, None) for one in whole)
            self.manifest.remove({*ids} - {*whole})
            shutil.rmtree(self.folder / "parts" / name, ignore_errors=True)
            (owners / name).unlink(missing_ok=True)

    def _after_restart(self) -> None:
        """Checks the files after a restart of the machine, as a power cut may have lost rows, or the last writes."""
        mark = self.folder / MARK
        now = _boot()
        if mark.exists() and (not now or mark.read_text().partition("\n")[0] == now):
            mark.touch()
            return
        if mark.exists():
            rows = self.manifest.all()
            latest = max((used for *_, used in rows), default=0.0) - _UNSETTLED_S
            lost = [
                one
                for one, checksum, used in rows
                if not (self._is_sound(one, checksum) if used >= latest else self._has(one))
            ]
            known = {one.hex() for one, *_ in rows} - {one.hex() for one in lost}
            for folder, _, names in os.walk(self.folder / "files"):
                for name in names:
                    if name not in known:
                        os.unlink(os.path.join(folder, name))
            self.manifest.remove(lost)
        with atomic_write(mark, synced=False) as stream:
            stream.write(f"{now}\n{_machine()}".encode())


def _pin_keys(ids: Sequence[bytes]) -> NDArray[np.uint64]:
    """The first 8 bytes of each id; in case of a collision, a file that isn't pinned stays, too."""
    return np.frombuffer(b"".join(one[:8] for one in ids), np.uint64)


def _machine() -> str:
    """Identifies this machine, or container, also after a restart."""
    try:
        name = Path("/etc/machine-id").read_text().strip()
    except OSError:
        name = ""
    return f"{name} {platform.node()}"


def _boot() -> str:
    """The id of the current boot; ``""`` if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
