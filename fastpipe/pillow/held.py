"""Bounds on what images without pixels hold: files that are open, and the bytes of files.

Nothing is counted down when an image goes. Each thing has its time, in files that were opened, or bytes that were read,
after it: whatever is still there then lets go of what it holds. A stream of images that somebody uses and drops never
comes so far.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Thing = TypeVar("Thing")

_LOOKS = 8
"""How often the oldest things are looked at while `Held.most` is added."""

MOST_OPEN = 64
"""Files that are opened after one before that is read and closed."""

MOST_BYTES = 256 << 20
"""Bytes that are read after a file's before its small images are made."""


class Held(Generic[Thing]):
    """Things by age, of which the oldest let go of what they hold.

    Threads may share it: where two add at once, a thing's time may be longer by what the other one added.

    Args:
        most: how much is added after a thing before its time is over, and up to an eighth more.
        let_go: is called with a thing whose time is over, if it is still there.
    """

    def __init__(self, most: int, let_go: Callable[[Thing], object]) -> None:
        self.most = most
        self._let_go = let_go
        self._things: deque[tuple[int, weakref.ref[Thing]]] = deque()
        self._added, self._looked_at = 0, 0

    def add(self, thing: Thing, amount: int = 1) -> None:
        """Adds a thing; the oldest ones may let go."""
        self._added = added = self._added + amount
        self._things.append((added, weakref.ref(thing)))
        if added - self._looked_at > self.most // _LOOKS:
            self._looked_at = added
            self._let_old_go(added - self.most)

    def _let_old_go(self, before: int) -> None:
        while True:
            try:
                end, reference = self._things.popleft()
            except IndexError:  # other threads have them
                return
            if end >= before:
                self._things.appendleft((end, reference))
                return
            old = reference()
            if old is not None:
                self._let_go(old)
