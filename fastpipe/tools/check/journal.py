"""The results of a check so far, on disk: a line of JSON a file, so that a check that was killed goes on from there."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
import warnings
from pathlib import Path
from typing import IO, Any

import filelock

from fastpipe.errors import FastpipeWarning
from fastpipe.index.format import cache_folder
from fastpipe.index.image_index import ImageIndex
from fastpipe.index.table import unpack_paths
from fastpipe.tools.check.findings import KINDS, Findings, Seen, bits_of

_KEPT_S = 30 * 24 * 3600.0

_NOT_TRUSTED = bits_of(["unreachable", "hang", "crash"])
"""Findings that may have had their reason elsewhere than in the file: looked at again."""


class Journal:
    """The journal of one check, in the cache folder; a context manager that keeps other checks of the files out.

    Where it can't be kept (a full or read-only disk, another check that is running), that is warned about once and
    the check goes on without. It is used again where what the results depend on (`about`) is the same.
    """

    def __init__(self, index: ImageIndex, about: dict[str, Any]) -> None:
        self._index = index
        paths = hashlib.sha256(index.table.paths.data).hexdigest()
        # A folder's check goes on although files were added or moved away; a list is known by its content.
        is_folder = index.table.folder_paths is not None and index.source is None
        place = os.path.abspath(index.root) if is_folder else f"{index.root}\0{paths}"
        key = hashlib.sha256(os.fsencode(f"{place}\0{about['decode']}")).hexdigest()[:24]
        try:
            self.file: Path | None = cache_folder() / "checks" / f"{key}.jsonl"
        except FileNotFoundError:  # no home folder: nothing to go on from
            self.file = None
        self._header = {
            "check": 1,
            "files": len(index),
            "paths": paths,
            "kinds": [kind.name for kind in KINDS],
            **about,
        }
        self._stream: IO[str] | None = None
        self._lock: filelock.BaseFileLock | None = None

    def __enter__(self) -> Journal:
        if self.file is None:
            return self
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            lock = filelock.FileLock(f"{self.file}.lock")
            with contextlib.suppress(NotImplementedError):  # some network disks can't lock
                lock.acquire(timeout=0)
                self._lock = lock
        except filelock.Timeout:
            self._give_up("another check of the same files is running")
        except OSError as error:
            self._give_up(str(error))
        return self

    def read(self, findings: Findings) -> tuple[int, str]:
        """Puts what an earlier check left into the findings.

        Returns:
            How many files that is, and why what was there can't be used (``""`` where it can, or there is nothing).
        """
        if self.file is None:
            return 0, ""
        try:
            stream = open(self.file, encoding="ascii", errors="replace")  # noqa: SIM115 - stays open
        except OSError:
            return 0, ""
        with stream:
            try:
                header = json.loads(next(stream, ""))
                same = {name: header[name] == value for name, value in self._header.items()}
            except (ValueError, KeyError, TypeError):
                return 0, "its journal can't be read"
            moved = not (same.pop("files") & same.pop("paths"))
            if other := [name for name, equal in same.items() if not equal]:
                return 0, f"it was made with other values of {', '.join(other)}"
            numbers = self._numbers() if moved else None
            for line in stream:
                try:
                    number, path, *rest = json.loads(line)
                    seen = Seen(*rest)
                    if numbers is not None:
                        number = numbers.get(path, -1)
                    if 0 <= number < findings.count and not seen.bits & _NOT_TRUSTED:
                        findings.put(number, seen)
                except (ValueError, TypeError, OverflowError):
                    continue  # the line that was being written when the check was killed
        return int((findings.table["orientation"] > 0).sum()), ""

    def _numbers(self) -> dict[str, int]:
        paths: list[str] = []
        for some, _ in self._index.table.blocks():
            paths += some
        return {path: number for number, path in enumerate(paths)}

    def open(self, fresh: bool) -> None:
        """Starts writing: behind what is there, or from the beginning."""
        if self.file is None:
            return
        self._remove_old(self.file)
        try:
            if fresh:
                # A new file under its name: nobody finds half a header.
                beside = self.file.with_suffix(f".{os.getpid()}.part")
                beside.write_text(json.dumps(self._header) + "\n", encoding="ascii")
                os.replace(beside, self.file)
            # A line at a time: a kill must not cost what came before it, and a write is nothing beside a decode.
            self._stream = open(self.file, "a", encoding="ascii", buffering=1)  # noqa: SIM115 - stays open
            self._stream.write("\n")  # ends a line that may have been cut off
        except OSError as error:
            self._give_up(str(error))

    @staticmethod
    def _remove_old(own: Path) -> None:
        """Removes the journals of checks that nobody went on with."""
        oldest = time.time() - _KEPT_S
        for file in own.parent.glob("*.jsonl*"):  # their locks, too
            with contextlib.suppress(OSError):
                if not file.name.startswith(own.name) and file.stat().st_mtime < oldest:
                    file.unlink()

    def note(self, number: int, seen: Seen) -> None:
        """Keeps a file's result."""
        if self._stream is None:
            return
        table = self._index.table
        start, stop = table.offsets[number : number + 2]
        path = unpack_paths(table.paths[start:stop].tobytes())[0]
        try:
            self._stream.write(json.dumps([number, path, *seen]) + "\n")
        except OSError as error:
            self._give_up(str(error))

    def remove(self) -> None:
        """The check is done and reported: the next one begins anew, and nothing stays in the cache."""
        self._close()
        if self.file is not None:
            for file in (self.file, f"{self.file}.lock"):
                with contextlib.suppress(OSError):  # Windows keeps what is locked
                    os.unlink(file)

    def _give_up(self, reason: str) -> None:
        warnings.warn(
            f"this check can't be continued if it is interrupted: its journal can't be kept at {self.file} ({reason})",
            FastpipeWarning,
            stacklevel=2,
        )
        self._close()
        self.file = None

    def _close(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()

    def __exit__(self, *problem: object) -> None:
        self._close()
        if self._lock is not None:
            self._lock.release()
