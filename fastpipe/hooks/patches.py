"""Attributes of other libraries that are replaced for a while."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

Function = Callable[..., Any]


class _Thread(threading.local):
    """A thread's own answer to `is_plain`, which a block within it gives; the class has that of all others."""

    is_plain = False


_thread = _Thread()


@contextmanager
def plainly() -> Iterator[None]:
    """Has this thread's calls of replaced functions do what they did before, within the block."""
    own = vars(_thread)
    before = own.get("is_plain")
    own["is_plain"] = True
    try:
        yield
    finally:
        if before is None:
            own.pop("is_plain", None)
        else:
            own["is_plain"] = before


@contextmanager
def in_force() -> Iterator[None]:
    """Has this thread's calls of replaced functions do what replaces them, within the block, unless it is `plainly`'s.

    For replacements that do nothing elsewhere: see `be_in_force_everywhere`.
    """
    own = vars(_thread)
    if "is_plain" in own:
        yield
        return
    try:
        own["is_plain"] = False
        yield
    finally:
        own.pop("is_plain", None)


def be_in_force_everywhere(everywhere: bool) -> None:
    """Sets whether replaced functions do what replaces them in all threads, or within `in_force` alone."""
    _Thread.is_plain = not everywhere


def is_plain() -> bool:
    """True if the replaced functions do what they did before, for this thread."""
    return _thread.is_plain


class Patches:
    """Replaced attributes, and what they were.

    A function that was replaced can be reached by others at any time after: some library may have imported it, or put a
    function of its own on top of ours. So each replacement asks whether it is still to do anything.

    Attributes:
        active: the replacements are in force.
    """

    def __init__(self) -> None:
        self.active = True
        self._replaced: list[tuple[object, str, object, bool, object]] = []
        self._at_undo: list[Callable[[], object]] = []

    def wrap(self, owner: object, name: str, make: Callable[[Function], Function]) -> None:
        """Replaces a function of a module, or a method of a class.

        Args:
            owner: the module or class.
            name: of the attribute.
            make: gets the plain function, and gives the one that takes its place. It isn't called in a thread that is
                within `plainly`.
        """
        plain = getattr(owner, name)
        replacement = make(plain)
        thread = _thread  # of the closure: asked for at each call

        @functools.wraps(plain)
        def replaced(*args: object, **kwargs: object) -> object:
            if not self.active or thread.is_plain:
                return plain(*args, **kwargs)
            return replacement(*args, **kwargs)

        # TorchScript compiles the plain one.
        vars(replaced).update({"__script_if_tracing_wrapper": True, "__original_fn": plain})
        self.put(owner, name, _Builtin(plain, replaced) if inspect.isbuiltin(plain) else replaced)

    def put(self, owner: object, name: str, value: object) -> None:
        """Sets an attribute until `undo`."""
        own = vars(owner)
        self._replaced.append((owner, name, own.get(name), name in own, value))
        setattr(owner, name, value)

    def held_elsewhere(self) -> list[str]:
        """The plain functions that modules of others have imported by name, and so still call: ``"train.imread"``."""
        plain = {id(before): name for owner, name, before, _, _ in self._replaced if isinstance(owner, ModuleType)}
        homes = {owner.__name__.partition(".")[0] for owner, *_ in self._replaced if isinstance(owner, ModuleType)}
        found = []
        for module in [*sys.modules.values()]:
            name = getattr(module, "__name__", "")
            if not isinstance(module, ModuleType) or name.partition(".")[0] in homes:
                continue
            if not plain.keys().isdisjoint(map(id, [*vars(module).values()])):
                found += [f"{name}.{own}" for own, value in [*vars(module).items()] if id(value) in plain]
        return sorted(found)

    def at_undo(self, function: Callable[[], object]) -> None:
        """Has `undo` call a function, for what is changed otherwise."""
        self._at_undo.append(function)

    def undo(self) -> None:
        """Gives each attribute back what it was; one that somebody has replaced since stays theirs."""
        self.active = False
        while self._at_undo:
            self._at_undo.pop()()
        while self._replaced:
            owner, name, before, was_own, ours = self._replaced.pop()
            if vars(owner).get(name) is not ours:
                continue
            if was_own:
                setattr(owner, name, before)
            else:
                delattr(owner, name)


class _Builtin:
    """A function in a builtin one's place: as that, no method of a class whose attribute it is, and pickled by name."""

    def __init__(self, plain: object, function: Function) -> None:
        self._plain = plain
        self._function = function
        self.__doc__, self.__module__ = plain.__doc__, plain.__module__

    def __call__(self, *args: Any, **kwargs: Any) -> object:
        return self._function(*args, **kwargs)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._plain)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def __reduce__(self) -> Any:
        return self._plain.__reduce__()

    def __repr__(self) -> str:
        return repr(self._plain)


def before(function: object) -> object:
    """The function that `Patches.wrap` has replaced by this one; the function itself where it hasn't."""
    return function._plain if type(function) is _Builtin else function
