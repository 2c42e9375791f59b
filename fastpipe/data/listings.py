"""The listing of a store as far as it got: a large one takes hours, and goes on where it was interrupted."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from typing import IO

import filelock

from fastpipe.data.store import cache_folder
from fastpipe.sources import Entry
from fastpipe.sources.remote import Folder

FOLDER = "listings"

_KEPT_S = 24 * 3600.0
_FORMAT = "fastpipe listing 1"


class Journal:
    """Folders that were listed, a line of JSON each, in a file of the cache folder; any thread may use it."""

    def __init__(self, folders: dict[str, Folder], file: IO[bytes] | None) -> None:
        self._folders, self._file = folders, file
        self._lock = threading.Lock()
        self.finished = False

    @classmethod
    @contextlib.contextmanager
    def of(cls, identity: str, anew: bool) -> Iterator[Journal]:
        """The journal of a source; one that forgets where the cache folder can't be written, or another lists it too.

        Args:
            identity: of the source.
            anew: forget what was listed before.
        """
        with contextlib.ExitStack() as stack:
            folders: dict[str, Folder] = {}
            file = None
            path = None
            with contextlib.suppress(OSError, NotImplementedError, filelock.Timeout):
                where = cache_folder() / FOLDER
                where.mkdir(parents=True, exist_ok=True)
                path = where / f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.jsonl"
                stack.enter_context(filelock.FileLock(f"{path}.lock", timeout=0))
                path.touch()
                file = stack.enter_context(open(path, "r+b"))
                if not anew:
                    folders = _read(file, identity)
                if not folders:
                    file.seek(0)
                    file.write(_line(_FORMAT, identity, time.time()))
                file.truncate()  # from where the interruption left a part of a line
            journal = cls(folders, file)
            yield journal
        if journal.finished and path is not None:
            path.unlink(missing_ok=True)

    def known(self, key: str) -> Folder | None:
        """What a folder holds, if it was listed before the interruption."""
        return self._folders.get(key)

    def add(self, key: str, found: Folder) -> None:
        """A folder has been listed."""
        line = _line(key, found.files, found.folders)
        with self._lock:
            if self._file is None:
                return
            try:
                self._file.write(line)
                self._file.flush()
            except OSError:  # a full disk: an interruption will cost more, no more than that
                self._file = None

    def finish(self) -> None:
        """All is listed: there is nothing to go on with."""
        self.finished = True


def _line(*values: object) -> bytes:
    return json.dumps(values).encode() + b"\n"


def _read(file: IO[bytes], identity: str) -> dict[str, Folder]:
    """The folders up to the first line that isn't whole; the file stands at its beginning then."""
    folders: dict[str, Folder] = {}
    end = 0
    with contextlib.suppress(ValueError, TypeError):
        form, of, began = json.loads(file.readline())
        if form == _FORMAT and of == identity and 0 <= time.time() - began < _KEPT_S:
            end = file.tell()
            while (line := file.readline()).endswith(b"\n"):
                key, files, below = json.loads(line)
                folders[key] = Folder([Entry(*one) for one in files], below)
                end = file.tell()
    file.seek(end)
    return folders
