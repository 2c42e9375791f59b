"""Objects of the library's that are freed with a Python object, or abandoned in a forked child; objects of threads."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Generic, Protocol, TypeVar

Value = TypeVar("Value")

FREED_BY_C = property(attrgetter("_free"))
"""A ``__del__`` that calls the object's ``_free``, a C function. A line of Python's would run signal handlers, and what
they raise in a destructor, such as KeyboardInterrupt, is ignored."""


class NativeObject:
    """Something that the library made.

    Args:
        address: its address; None for none.
        free: the library's function that frees it; in a forked child it leaves what the parent made.
        what: a description for the error.

    Raises:
        MemoryError: there is no address.
    """

    __slots__ = ("__weakref__", "_free", "address")

    def __init__(self, address: int | None, free: Callable[[int], object], what: str) -> None:
        if not address:
            raise MemoryError(f"no memory for {what}")
        self.address = address
        self._free = partial(free, address)

    __del__ = FREED_BY_C


class ChangesAtFork(Protocol):
    """An object with threads or locks, which a forked child doesn't have, or has in any state."""

    def _forget(self) -> None:
        """Makes the object usable in the child."""


_changing: set[weakref.ref[ChangesAtFork]] = set()


def forget_in_children(changing: ChangesAtFork) -> None:
    """Calls the object's ``_forget`` in each child that is forked while the object lives."""
    _changing.add(weakref.ref(changing, _changing.discard))  # a WeakSet's callback would be a line of Python's


def _forget() -> None:
    for reference in [*_changing]:
        if (changing := reference()) is not None:
            changing._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class PerThread(threading.local, Generic[Value]):
    """An object for each thread, made at the thread's first use of `value` and let go with the thread.

    Args:
        make: makes the object.
    """

    value: Value

    def __init__(self, make: Callable[[], Value]) -> None:
        self._make = make

    def __getattr__(self, name: str) -> Value:
        if name != "value":
            raise AttributeError(name)
        value = self.value = self._make()
        return value
