"""The uses of images and tensors without pixels: whatever may be used again gets pixels, and keeps them.

What is recorded on an image or a tensor runs when pixels are asked for, from the file on. What may be used once more,
because somebody has it or more was recorded on it, gets its pixels at its first use, and further uses start from them.
So hardly any step runs twice, however often an image, and those made from it, are used. The parts of a file itself are
counted by `fastpipe.program.parts`.
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

    def expect_again(self) -> None:
        """Notes that after the next part of the file others may be asked for; of a file's record."""


def start_of_child(record: Recorded | None) -> Recorded | None:
    """Counts a use, and keeps what may be used once more.

    Args:
        record: the record of what is used by one of its children.

    Returns:
        The record with pixels to start from; None to start from the file.
    """
    while record is not None and record.kept is None:
        record.uses += 1
        if _is_used_again(record, record.uses):
            if not record.is_file:
                record.keep()
                return record
            record.expect_again()
        record = record.parent
    return record


def is_used_up(record: Recorded | None) -> bool:
    """True if what is used by a child, and what it was made from, can't be used again: the use starts from the file."""
    while record is not None and record.kept is None and not _is_used_again(record, record.uses + 1):
        record = record.parent
    return record is None


def _is_used_again(record: Recorded, uses: int) -> bool:
    """True if a record may be used again after some uses: one of its children hasn't been, or somebody may go on."""
    return record.children > uses or record.owner() is not None
