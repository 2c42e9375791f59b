"""Bounds on the open files and the bytes of files that images without pixels hold.

Nothing is counted down when an image is destroyed. Instead, an object's time is over when a given number of files has
been opened, or of bytes read, after it; if it still exists then, it releases what it holds. Images that are used and
dropped at once never get that old.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Thing = TypeVar("Thing")

_LOOKS = 8
"""How many times the oldest objects are checked while `Held.most` is added."""

MOST_OPEN = 64
"""A file is read and closed when this many further files have been opened."""

MOST_BYTES = 256 << 20
"""A file's bytes are released, by making its small images, when this many further bytes have been read."""


class Held(Generic[Thing]):
    """Objects by age; the oldest ones release what they hold.

    Threads may share it: if two threads add at once, an object may get more time, by the amount of the other.

    Args:
        most: the amount that is added after an object until its time is over, with up to an eighth more.
        let_go: is called with an object whose time is over, if it still exists.
    """

    def __init__(self, most: int, let_go: Callable[[Thing], object]) -> None:
        self.most = most
        self._let_go = let_go
        self._things: deque[tuple[int, weakref.ref[Thing]]] = deque()
        self._added, self._looked_at = 0, 0

    def add(self, thing: Thing, amount: int = 1) -> None:
        """Adds an object; may call ``let_go`` for the oldest ones."""
        self._added = added = self._added + amount
        self._things.append((added, weakref.ref(thing)))
        if added - self._looked_at > self.most // _LOOKS:
            self._looked_at = added
            self._let_old_go(added - self.most)

    def _let_old_go(self, before: int) -> None:
        while True:
            try:
                end, reference = self._things.popleft()
            except IndexError:  # other threads have taken them
                return
            if end >= before:
                self._things.appendleft((end, reference))
                return
            old = reference()
            if old is not None:
                self._let_go(old)
