"""Temporary replacement of other libraries' attributes, and of entries of their tables."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeAlias, TypeVar

from fastpipe.hooks.ledger import LEDGER
from fastpipe.plain_way import THREAD, raise_interruption

Function: TypeAlias = Callable[..., Any]
Key = TypeVar("Key")
Value = TypeVar("Value")


class _Scope(threading.local):
    """Where replacements are in force: True for a thread within `in_force`; else the class attribute decides."""

    is_here = True


_scope = _Scope()


@contextmanager
def in_force() -> Iterator[None]:
    """Makes this thread's calls of replaced functions call the replacements within the block, except in `plainly`.

    For replacements that aren't in force elsewhere: see `be_in_force_everywhere`.
    """
    own = vars(_scope)
    if "is_here" in own:
        yield
        return
    try:
        own["is_here"] = True
        yield
    finally:
        own.pop("is_here", None)


def be_in_force_everywhere(everywhere: bool) -> None:
    """Sets whether the replacements are in force in all threads, or only within `in_force`."""
    _Scope.is_here = everywhere


def are_in_force_everywhere() -> bool:
    """True if the replacements are in force in all threads."""
    return _Scope.is_here


def are_in_force() -> bool:
    """True if replaced functions call the replacements in this thread, as long as their `Patches` are active."""
    return _scope.is_here and not THREAD.is_plain


class OtherVersionError(Exception):
    """A library has another version than the ones that a hook was written for."""


class Patches:
    """Replaced attributes and their originals.

    A replacement may still be called after `undo`, because another library may have imported it, or wrapped it. So each
    call checks whether the replacement is still in force.

    Attributes:
        active: whether the replacements are in force.
    """

    def __init__(self) -> None:
        self.active = True
        self._replaced: list[tuple[object, str, object, bool, object]] = []
        self._at_undo: list[Callable[[], object]] = []
        self._done: dict[Callable[[Patches], object], bool] = {}

    def wrap(
        self,
        owner: object,
        name: str,
        make: Callable[[Function], Function],
        restoring: Callable[[Function], Function] | None = None,
    ) -> None:
        """Replaces a function of a module, or a method of a class.

        Args:
            owner: the module or class.
            name: the attribute's name.
            make: makes the replacement from the original. The replacement is only called where `are_in_force`.
            restoring: makes a function from the original that also takes packed images, and restores them first. It is
                called in the original's place.

        Raises:
            OtherVersionError: the original has other parameters than those that the replacement names.
            AttributeError: the owner has no such attribute.
        """
        original = getattr(owner, name)
        plain = original if restoring is None else restoring(original)
        replacement = make(plain)
        if not _takes_the_calls_of(replacement, original):
            raise OtherVersionError(f"{name}{inspect.signature(original)} has other parameters")
        thread, scope = THREAD, _scope  # variables of the closure are fast to read

        @functools.wraps(original)
        def replaced(*args: object, **kwargs: object) -> object:
            if not self.active or thread.is_plain or not scope.is_here:
                return plain(*args, **kwargs)
            return replacement(*args, **kwargs)

        # TorchScript compiles the original.
        vars(replaced).update({"__script_if_tracing_wrapper": True, "__original_fn": original})
        self.put(owner, name, as_builtin(original, replaced) if inspect.isbuiltin(original) else replaced)

    @contextmanager
    def piece(self, module: str, what: str) -> Iterator[None]:
        """Makes all replacements of the block; if it raises, takes them back, and the report has a line with the error.

        A script goes on, without this feature, beside a version of the library that lacks what the block asks for.

        Args:
            module: the library's module.
            what: the feature, for the report.
        """
        replaced, at_undo = len(self._replaced), len(self._at_undo)
        try:
            yield
        except Exception as error:  # whatever the other version does
            raise_interruption(error)
            self._undo_from(replaced, at_undo)
            reason = "" if isinstance(error, OtherVersionError) else f"{type(error).__name__}: "
            LEDGER.note(f"{with_version(module)}: {what} isn't accelerated ({reason}{error})")

    def hook(self, module: ModuleType, path: str, make: Callable[[Function], Function]) -> None:
        """Replaces a function of a module, or a method of one of its classes; see `piece` for a version without it.

        Args:
            module: the module.
            path: ``"function"`` or ``"Class.method"``.
            make: see `wrap`.
        """
        with self.piece(module.__name__, f"{module.__name__}.{path}"):
            *owners, name = path.split(".")
            self.wrap(functools.reduce(getattr, owners, module), name, make)

    def put(self, owner: object, name: str, value: object) -> None:
        """Sets an attribute until `undo`."""
        own = vars(owner)
        self._replaced.append((owner, name, own.get(name), name in own, value))
        setattr(owner, name, value)

    def put_item(self, mapping: dict[Key, Value], key: Key, value: Value) -> None:
        """Sets an entry of a mapping until `undo`."""
        before = {key: mapping[key]} if key in mapping else {}
        mapping[key] = value

        def restore() -> None:
            if mapping.get(key) is not value:
                return
            if before:
                mapping.update(before)
            else:
                del mapping[key]

        self.at_undo(restore)

    def held_elsewhere(self) -> list[str]:
        """Original functions that other modules have imported by name and so still call: ``"train.imread"``."""
        plain = {id(before): name for owner, name, before, _, _ in self._replaced if isinstance(owner, ModuleType)}
        homes = {owner.__name__.partition(".")[0] for owner, *_ in self._replaced if isinstance(owner, ModuleType)}
        names_there = []
        for module in [*sys.modules.values()]:
            name = getattr(module, "__name__", "")
            if not isinstance(module, ModuleType) or name.partition(".")[0] in homes:
                continue
            if not plain.keys().isdisjoint(map(id, [*vars(module).values()])):
                names_there += [f"{name}.{own}" for own, value in [*vars(module).items()] if id(value) in plain]
        return sorted(names_there)

    def once(self, change: Callable[[Patches], object], module: str, what: str) -> bool:
        """Calls a function with these patches, as a `piece`, unless it has been called; True if it didn't raise."""
        if change not in self._done:
            is_made = False
            with self.piece(module, what):
                change(self)
                is_made = True
            self._done[change] = is_made
        return self._done[change]

    def at_undo(self, function: Callable[[], object]) -> None:
        """Makes `undo` call a function, for other changes."""
        self._at_undo.append(function)

    def undo(self) -> None:
        """Restores each attribute and entry, unless other code has replaced it in the meantime."""
        self.active = False
        self._undo_from(0, 0)

    def _undo_from(self, replaced: int, at_undo: int) -> None:
        while len(self._at_undo) > at_undo:
            self._at_undo.pop()()
        while len(self._replaced) > replaced:
            owner, name, before, was_own, ours = self._replaced.pop()
            if vars(owner).get(name) is not ours:
                continue
            if was_own:
                setattr(owner, name, before)
            else:
                delattr(owner, name)


def _takes_the_calls_of(replacement: Function, plain: object) -> bool:
    """True if a replacement can be called like the original, whose parameters have the names that it gives them."""
    try:
        theirs = [*inspect.signature(plain).parameters.values()]  # type: ignore[arg-type]
        ours = [*inspect.signature(replacement, follow_wrapped=False).parameters.values()]
    except (TypeError, ValueError):  # a builtin function: its replacement looks at the arguments of each call
        return True
    kinds = {parameter.kind for parameter in ours}
    by_place = [one.name for one in ours if one.kind in _BY_PLACE]
    places = [one.name for one in theirs if one.kind in _BY_PLACE]
    if places[:1] in (["self"], ["cls"]) and by_place:
        by_place[0] = places[0]
    if by_place != places[: len(by_place)]:
        return False
    names = {one.name for one in ours}
    others = [one for one in theirs if one.name not in names and one.kind is not one.VAR_POSITIONAL]
    by_name = inspect.Parameter.VAR_KEYWORD in kinds
    return all(by_name and (one.kind not in _BY_PLACE or inspect.Parameter.VAR_POSITIONAL in kinds) for one in others)


_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def with_version(module: str) -> str:
    """The library of a module and its version: ``"torchvision 0.28.0"``."""
    library = module.partition(".")[0]
    version = getattr(sys.modules.get(library), "__version__", None)
    return f"{library} {version}" if isinstance(version, str) else library


class _Builtin:
    """A replacement for a builtin function: like it, it doesn't bind as a method, and is pickled by name."""

    def __init__(self, plain: object, function: Function) -> None:
        self._plain = plain
        self._function = function
        self.__doc__, self.__module__ = plain.__doc__, plain.__module__

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self._function(*args, **kwargs)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._plain)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def __reduce__(self) -> str | tuple[object, ...]:
        return self._plain.__reduce__()

    def __repr__(self) -> str:
        return repr(self._plain)


def as_builtin(plain: object, function: Function) -> object:
    """A replacement for a builtin function, made of another function."""
    return _Builtin(plain, function)


def before(function: object) -> object:
    """The original of a builtin function that `Patches.wrap` has replaced; any other function itself."""
    return function._plain if type(function) is _Builtin else function
