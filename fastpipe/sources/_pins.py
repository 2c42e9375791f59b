"""Pins: files that running epochs need, a list on the disk for each, which ends with the process that wrote it."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fastpipe.atomic_write import atomic_write
from fastpipe.sources._liveness import is_alive

# Of an id its first 8 bytes: two files that have them in common are pinned together, which harms nobody.
Short = NDArray[np.uint64]


def short(ids: list[bytes]) -> Short:
    """The beginnings of ids as numbers."""
    return np.frombuffer(b"".join(one[:8] for one in ids), np.uint64)


class Pins:
    """The lists of pinned files in a cache's folder.

    Args:
        folder: where they are.
        owners: where the owners have their files.
    """

    def __init__(self, folder: Path, owners: Path) -> None:
        self._folder, self._owners = folder, owners
        self._known: dict[str, Short] = {}

    def add(self, owner: str, ids: list[bytes]) -> Path:
        """Writes a list."""
        path = self._folder / f"{owner}-{secrets.token_hex(4)}.ids"
        with atomic_write(path, synced=False) as stream:
            stream.write(np.sort(short(ids)).tobytes())
        return path

    def refresh(self) -> tuple[str, ...]:
        """Looks at what is pinned now; the names of the lists."""
        names = sorted(name for name in os.listdir(self._folder) if name.endswith(".ids"))
        for gone in self._known.keys() - set(names):
            del self._known[gone]
        for name in names:
            if name not in self._known:
                with contextlib.suppress(FileNotFoundError):
                    self._known[name] = np.fromfile(self._folder / name, np.uint64)
        return tuple(names)

    def drop_dead(self) -> None:
        """Removes the lists of owners that live no more."""
        for name in os.listdir(self._folder):
            if not is_alive(self._owners, name.partition("-")[0]):
                (self._folder / name).unlink(missing_ok=True)

    def are_free(self, ids: list[bytes]) -> list[bool]:
        """For each id whether no list has it, as of the last `refresh`."""
        wanted = short(ids)
        pinned = np.zeros(len(wanted), bool)
        for one in self._known.values():
            if len(one):
                at = np.minimum(np.searchsorted(one, wanted), len(one) - 1)
                pinned |= one[at] == wanted
        return [not one for one in pinned.tolist()]

    def count(self) -> int:
        """How many files are pinned by a list, as of the last `refresh`."""
        known = list(self._known.values())
        return len(np.unique(np.concatenate(known))) if known else 0
