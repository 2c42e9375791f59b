"""`Unchanged`: whether transforms that were planned are still what they were.

Everything is compared by identity or by length, never by ``==``: an equal transform may do something else, and asking
it may raise. Attributes such as a probability aren't compared, as each draw reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from operator import is_
from types import MappingProxyType

from fastpipe.plain_lookup import (
    are_same,
    bases_of,
    class_attribute,
    module_of,
    own_attributes,
)
from fastpipe.transforms._base import methods_to_keep
from fastpipe.transforms.adapters import find_adapt
from fastpipe.transforms.pipeline import GLOBAL_HOOKS, all_within, members_within
from fastpipe.transforms.replaced_methods import METHODS, is_as_its_library_has_it, is_library_class

_NOT_WATCHED = {"albumentations", "builtins", "torch"}
"""Packages whose classes aren't watched here."""
_KEPT: tuple[Callable[[], None], ...] = (
    is_as_its_library_has_it.cache_clear,
    find_adapt.cache_clear,
    methods_to_keep.cache_clear,
)
"""Forget what is kept for each class."""

_get = MappingProxyType.get
_seen: dict[int, tuple[type, int, list[object]]] = {}
"""A class, by its id, as a class may have no hash, with its `_contents` when it was last planned."""


class Unchanged:
    """Transforms, those that they contain, their classes, and what is set on them: as they are now.

    It is made before they are planned, as it has a user's class looked at again that has changed since the last time.

    Args:
        transforms: the transforms.

    Attributes:
        within: the transforms, and all that they contain.
    """

    __slots__ = ("_composites", "_kinds", "_lengths", "_members", "_methods", "_transforms", "_watched", "within")

    def __init__(self, transforms: Iterable[object]) -> None:
        self._transforms = tuple(transforms)
        _forget_changed_classes(self._transforms)
        self.within = within = [one for transform in self._transforms for one in all_within(transform)]
        self._kinds = [*map(type, within)]
        self._composites = [one for one in within if members_within(one)]
        self._members = [*map(members_within, self._composites)]
        # A method or a hook that is set on an object, or on a class, makes one of these longer.
        watched: list[Sized] = [hooks for hooks in GLOBAL_HOOKS if hooks is not None]
        for one in within:
            own = own_attributes(one)
            watched += [own, *(own[name] for name in ("_forward_hooks", "_forward_pre_hooks") if name in own)]
        # One that is replaced by another doesn't.
        methods: list[tuple[Mapping[str, object], str, object]] = []
        for kind in _watched_classes(self._kinds):
            own = own_attributes(kind)
            if not is_library_class(kind) or any(kind is one for one in self._kinds):
                watched.append(own)
            methods += [(own, name, own.get(name)) for name in _methods(kind)]
        self._watched = watched
        self._lengths = [*map(len, watched)]
        self._methods = [[method[column] for method in methods] for column in range(3)]  # homes, names, values

    def holds(self, transforms: Sequence[object]) -> bool:
        """True if these are the same transforms, and nothing in them was exchanged, inserted or set since."""
        return (
            are_same(transforms, self._transforms)
            and [*map(len, self._watched)] == self._lengths
            and all(map(is_, map(_get, *self._methods[:2]), self._methods[2]))
            and all(map(is_, map(type, self.within), self._kinds))
            and (not self._composites or all(map(are_same, map(members_within, self._composites), self._members)))
        )


def _forget_changed_classes(transforms: Iterable[object]) -> None:
    """Has a class looked at again if it has got an attribute, or another method, since it was last planned."""
    for kind in _watched_classes(type(one) for transform in transforms for one in all_within(transform)):
        size, methods = _contents(kind)
        _, size_before, before = _seen.setdefault(id(kind), (kind, size, methods))
        if size != size_before or not are_same(methods, before):
            _seen[id(kind)] = kind, size, methods
            for forget in _KEPT:
                forget()


def _watched_classes(kinds: Iterable[type]) -> list[type]:
    """The classes, and their bases, that the user wrote, or that are transforms of a library."""
    bases = {id(base): base for kind in kinds for base in bases_of(kind)}
    return [base for base in bases.values() if module_of(base).partition(".")[0] not in _NOT_WATCHED]


def _methods(kind: type) -> list[str]:
    """The names of the methods of a class that are compared; of a user's class, whatever can be called."""
    own = own_attributes(kind)
    if is_library_class(kind):
        return [name for name in METHODS if name in own]
    return [name for name, value in own.items() if callable(value) or class_attribute(value, "__get__") is not None]


def _contents(kind: type) -> tuple[int, list[object]]:
    """The number of a class's attributes, and its methods."""
    own = own_attributes(kind)
    return len(own), [own.get(name) for name in _methods(kind)]
