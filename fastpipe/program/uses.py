"""The uses of images and tensors without pixels: whatever is used again gets pixels, and keeps them.

What is recorded on an image or a tensor runs when pixels are asked for, from the file on. At the second use of what was
recorded its pixels are made and kept, and further uses start from them. So no step runs more than twice, however often
an image, and those made from it, are used. The parts of a file itself are counted by `fastpipe.program.parts`.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Generic, Protocol, TypeVar

Thing = TypeVar("Thing")


class MadeBeforeForks(Generic[Thing]):
    """Objects whose pixels are made before this process forks: else each child would make those that it uses.

    Args:
        make: makes an object's pixels.
    """

    def __init__(self, make: Callable[[Thing], object]) -> None:
        self._make = make
        self._things: dict[int, weakref.ref[Thing]] = {}  # by id
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._make_all)

    def add(self, thing: Thing) -> None:
        """Adds an object, as long as it exists."""
        # The callback is C's: an interrupt isn't lost in it.
        self._things[id(thing)] = weakref.ref(thing, partial(self._things.pop, id(thing)))

    def discard(self, thing: Thing) -> None:
        """Forgets an object, to which nothing here refers any more; not an error if it wasn't added."""
        self._things.pop(id(thing), None)

    def _make_all(self) -> None:
        for reference in [*self._things.values()]:
            thing = reference()
            if thing is not None:
                with suppress(Exception):  # raised again when the pixels are used
                    self._make(thing)


class Recorded(Protocol):
    """The part of an image's or a tensor's record that its uses concern: its file and recorded steps."""

    uses: int
    """How many times pixels have been made from it."""
    children: int
    """How many images and tensors were recorded on this one."""

    @property
    def parent(self) -> Recorded | None:
        """The record of what this one was made from; None for a file."""

    @property
    def is_file(self) -> bool:
        """True if nothing is recorded yet."""

    @property
    def kept(self) -> object:
        """Its pixels, for its children; None until they are kept."""

    @property
    def owner(self) -> Callable[[], object]:
        """Returns the image or the tensor; None if it is gone, so that nobody can use it."""

    def keep(self) -> None:
        """Makes the pixels, and gives them to the image or the tensor, if it exists, and to its children."""


def start_of_child(record: Recorded | None) -> Recorded | None:
    """Counts a use, and keeps what is used for the second time and may be used once more.

    Args:
        record: the record of what is used by one of its children.

    Returns:
        The record with pixels to start from; None to start from the file.
    """
    chain: list[Recorded] = []
    while record is not None and record.kept is None:
        chain.append(record)
        record = record.parent
    for one in reversed(chain):
        one.uses += 1
        if one.uses > 1 and not one.is_file and (one.children > 1 or one.owner() is not None):
            one.keep()
            record = one
    return record


def is_unused(record: Recorded | None) -> bool:
    """True if neither a record nor what it was made from has been used, so that a use starts from the file."""
    while record is not None and record.kept is None and (record.is_file or not record.uses):
        record = record.parent
    return record is None
