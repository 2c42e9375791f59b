"""Hooked objects: one dataset or transform of a user's class whose methods run with the hooks in force.

Its class is derived on the fly from the user's class, whose methods are called unchanged. The rest of the process isn't
affected.
"""

from __future__ import annotations

import copy
import multiprocessing.context
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, TypeVar

from fastpipe.errors import DatasetError
from fastpipe.hooks.installation import install_for_blocks
from fastpipe.hooks.ledger import LEDGER
from fastpipe.hooks.patches import are_in_force, in_force
from fastpipe.hooks.torch.tensors import with_ordinary_tensors
from fastpipe.plain_lookup import bases_of, is_a, own_attributes, values_in_slots

_CALLED = ("__call__", "__getitem__", "__getitems__", "__next__")
"""Methods that make samples, or parts of them."""

Made = TypeVar("Made")


class Hooked:
    """The base of hooked objects, which share the attributes of the original object."""

    __slots__ = ()
    _fastpipe_plain: object

    def __init_subclass__(cls, **options: object) -> None:
        """Doesn't call the user's ``__init_subclass__``, as the user didn't write this class."""

    def __reduce_ex__(self, protocol: object) -> tuple[object, ...]:
        if multiprocessing.context.get_spawning_popen() is not None:
            return _hooked_in_child, (self._fastpipe_plain, LEDGER.folder())
        return hooked, (self._fastpipe_plain,)

    def __copy__(self) -> object:
        return hooked(copy.copy(self._fastpipe_plain))

    def __deepcopy__(self, memo: dict[int, object]) -> object:
        return hooked(copy.deepcopy(self._fastpipe_plain, memo))


def hooked(thing: object) -> Any:
    """Makes an object of a class derived from a user's class whose methods run with the hooks in force.

    Both objects share one ``__dict__``, so a change of one changes the other.

    Args:
        thing: a dataset, a wrapper of one, or a callable object; it isn't changed.

    Raises:
        DatasetError: Python can't make another object of its class.
    """
    install_for_blocks()  # so that forked processes have the hooks
    kind: type = type(thing)
    try:
        twin: object = object.__new__(_class_of(kind))
    except TypeError as error:  # the class is final, or written in C
        raise DatasetError(
            f"fastpipe.convert can't derive from {kind.__module__}.{kind.__qualname__}: {error}. Start the script with "
            "`fastpipe run`, which needs no other class."
        ) from error
    set_ = object.__setattr__
    own = own_attributes(thing)
    if isinstance(own, dict):
        set_(twin, "__dict__", own)
    for slot, value in values_in_slots(thing):
        slot.__set__(twin, value)
    set_(twin, "_fastpipe_plain", thing)
    return twin


def is_hooked(thing: object) -> bool:
    """True for an object made by `hooked`."""
    return is_a(thing, Hooked)


def _hooked_in_child(thing: object, folder: str) -> object:
    """`hooked` in a process that has just been started, whose ledger the parent will read."""
    from fastpipe.hooks.children import begin_account

    begin_account(folder)
    return hooked(thing)


@lru_cache(maxsize=512)
def _class_of(kind: type) -> type:
    names = {"__slots__": ("_fastpipe_plain",), "__doc__": kind.__doc__}
    names |= {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    own = {name for base in bases_of(kind) for name in own_attributes(base)}  # type(kind) itself is always callable
    methods: dict[str, object] = {name: _calling(kind, name) for name in _CALLED if name in own}
    if "__iter__" in own:
        methods["__iter__"] = _iterating(kind)
    return type(kind)(kind.__name__, (Hooked, kind), {**names, **methods})


def _calling(kind: type, name: str) -> Callable[..., Any]:
    def method(self: object, *args: object, **kwargs: object) -> object:
        return _called(getattr(kind, name), self, *args, **kwargs)

    method.__name__ = name
    return method


def _iterating(kind: type) -> Callable[..., object]:
    plain = _calling(kind, "__iter__")

    def __iter__(self: object) -> Iterator[object]:
        return _HookedIterator(plain(self))

    return __iter__


class _HookedIterator:
    """A user's iterator whose items are made with the hooks in force."""

    def __init__(self, iterator: Iterator[object]) -> None:
        self._iterator = iterator

    def __iter__(self) -> _HookedIterator:
        return self

    def __next__(self) -> object:
        return _called(next, self._iterator)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)


def _called(function: Callable[..., Made], *args: object, **kwargs: object) -> Made:
    """Calls a function with the hooks in force; returns ordinary tensors if they aren't in force afterwards."""
    install_for_blocks()
    with in_force():
        result = function(*args, **kwargs)
    return result if are_in_force() else with_ordinary_tensors(result)
