"""`Unchanged`: whether transforms that were planned are still what they were.

Everything is compared by identity or by length, never by ``==``: an equal transform may do something else, and asking
it may raise. Attributes such as a probability aren't compared, as each draw reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Sized
from operator import is_

from fastpipe.plain_lookup import are_same, bases_of, module_of, own_attributes
from fastpipe.transforms._base import methods_to_keep
from fastpipe.transforms.adapters import find_adapt
from fastpipe.transforms.pipeline import GLOBAL_HOOKS, all_within, members_within

_LIBRARIES = {"albumentations", "builtins", "fastpipe", "timm", "torch", "torchvision"}
"""Packages whose classes aren't watched here: `fastpipe.hooks.library_functions` compares their functions."""
_KEPT: tuple[Callable[[], None], ...] = (find_adapt.cache_clear, methods_to_keep.cache_clear)
"""Forget what is kept for each class."""

_sizes: dict[int, tuple[type, int]] = {}
"""A user's class, by its id, as a class may have no hash; and the number of its attributes when it was last planned."""


class Unchanged:
    """Transforms, those that they contain, their classes, and what is set on them: as they are now.

    It is made before they are planned, as it has a user's class looked at again that has changed since the last time.

    Args:
        transforms: the transforms.

    Attributes:
        within: the transforms, and all that they contain.
    """

    __slots__ = ("_composites", "_kinds", "_lengths", "_members", "_transforms", "_watched", "within")

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
        watched += map(own_attributes, _users_classes(self._kinds))
        self._watched = watched
        self._lengths = [*map(len, watched)]

    def holds(self, transforms: Sequence[object]) -> bool:
        """True if these are the same transforms, and nothing in them was exchanged, inserted or set since."""
        return (
            are_same(transforms, self._transforms)
            and [*map(len, self._watched)] == self._lengths
            and all(map(is_, map(type, self.within), self._kinds))
            and (not self._composites or all(map(are_same, map(members_within, self._composites), self._members)))
        )


def _forget_changed_classes(transforms: Iterable[object]) -> None:
    """Has a user's class looked at again if it has got an attribute since its objects were last planned."""
    for kind in _users_classes(type(one) for transform in transforms for one in all_within(transform)):
        size = len(own_attributes(kind))
        if _sizes.setdefault(id(kind), (kind, size))[1] != size:
            _sizes[id(kind)] = kind, size
            for forget in _KEPT:
                forget()


def _users_classes(kinds: Iterable[type]) -> list[type]:
    """The classes, and their bases, that the user wrote."""
    bases = {id(base): base for kind in kinds for base in bases_of(kind)}
    return [base for base in bases.values() if module_of(base).partition(".")[0] not in _LIBRARIES]
