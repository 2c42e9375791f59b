"""Pins: files that running epochs need, which stay until they are unpinned or the process that pinned them ends."""

from __future__ import annotations

import secrets
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fastpipe.sources._liveness import is_alive
from fastpipe.sources._manifest import Manifest

# Of an id its first 8 bytes: two files that have them in common are pinned together, which harms nobody.
Short = NDArray[np.uint64]


def short(ids: list[bytes]) -> Short:
    """The beginnings of ids as numbers."""
    return np.frombuffer(b"".join(one[:8] for one in ids), np.uint64)


class Pins:
    """The pins in a cache's manifest, as one process knows them.

    Args:
        manifest: has them.
        owners: where the owners have their files.
    """

    def __init__(self, manifest: Manifest, owners: Path) -> None:
        self._manifest, self._owners = manifest, owners
        self._known: dict[str, Short] = {}

    def add(self, owner: str, ids: list[bytes]) -> str:
        """Pins files; the pin's name, for `Manifest.unpin`."""
        name = secrets.token_hex(8)
        self._manifest.pin(name, owner, np.sort(short(ids)).tobytes())
        return name

    def refresh(self) -> frozenset[str]:
        """Reads the pins of owners that live; returns their names."""
        owners = self._manifest.pins()
        dead = {owner for owner in owners.values() if not is_alive(self._owners, owner)}
        if dead:
            self._manifest.unpin(name for name, owner in owners.items() if owner in dead)
        names = frozenset(name for name, owner in owners.items() if owner not in dead)
        known = self._known
        self._known = {
            name: known[name] if name in known else np.frombuffer(self._manifest.pinned(name), np.uint64)
            for name in names
        }
        return names

    def are_free(self, ids: list[bytes]) -> list[bool]:
        """Whether each id is in no pin, as of the last `refresh`."""
        wanted = short(ids)
        pinned = np.zeros(len(wanted), bool)
        for one in self._known.values():
            if len(one):
                at = np.minimum(np.searchsorted(one, wanted), len(one) - 1)
                pinned |= one[at] == wanted
        return [not one for one in pinned.tolist()]

    def count(self) -> int:
        """The number of pinned files, as of the last `refresh`."""
        known = list(self._known.values())
        return len(np.unique(np.concatenate(known))) if known else 0
