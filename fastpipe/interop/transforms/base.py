"""The parts that recipes share: adapters, tables of known code, and which subclasses do what their base does."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from fastpipe.interop.transforms.source_code import has_code
from fastpipe.transforms.adapters import NEUTRAL_NAMES, Adapt

_SAID = ("_draws_from_python", "_draws_nothing", "_is_compose", "_looks_at_shape")  # by each class of itself alone


class Drawing:
    """The base of classes that draw for objects of another library's, whose attributes they share; see `adapter`.

    Attributes:
        original: the object.
    """

    __slots__ = ("__dict__", "original")
    _draws_from_python = True

    if TYPE_CHECKING:  # all other attributes are the object's

        def __getattr__(self, name: str) -> Any: ...


def adapter_class(ours: type, **body: Any) -> Any:
    """A class that does what ``ours`` does, for objects of another library's class; see `adapter`.

    Args:
        ours: defines ``draw``; its attributes have the names that the other library's have.
        body: attributes and methods in place of ours.
    """
    kept = {name: vars(ours)[name] for name in _SAID if name in vars(ours)}
    names = {"__slots__": ("original",), "__doc__": ours.__doc__}
    kind = type(ours)
    return kind(ours.__name__, (ours,), {**names, **kept, **body, "__module__": __name__})


def adapter(kind: type) -> Adapt:
    """Makes adapters of a class: objects that share the attributes of the object that they draw for."""
    new, set_ = object.__new__, object.__setattr__

    def adapt(original: Any) -> Any:
        made: Any = new(kind)
        set_(made, "__dict__", original.__dict__)  # not a copy: changes are seen
        set_(made, "original", original)
        return made

    return adapt


class KnownCode(NamedTuple):
    """A class of another library's, and the code of it that its recipe was written after.

    Attributes:
        module: the class's; not all versions of the library have one, nor the class.
        name: the class's.
        fingerprint: of the code.
        recipe: the class here that draws for it, or what else is known of it.
        behind: the functions that its code is made of besides; None for one that isn't there.
    """

    module: Any
    name: str
    fingerprint: str
    recipe: Any
    behind: tuple[Any, ...] = ()


def by_code(entries: Iterable[KnownCode]) -> tuple[dict[type, Any], set[type]]:
    """The classes whose code is known, each with its recipe; and those whose code is another."""
    known, others = {}, set()
    for entry in entries:
        kind = getattr(entry.module, entry.name, None)
        if kind is None:
            continue
        if has_code((kind, *entry.behind), entry.fingerprint):
            known[kind] = entry.recipe
        else:
            others.add(kind)
    return known, others


def known_base(kind: type, table: Mapping[type, Any]) -> type | None:
    """The class of a table that a class is, or is a subclass of that does the same; None if there is none.

    A subclass may have a constructor and a repr of its own, and methods under new names.
    """
    lineage = kind.__mro__
    place = next((number for number, base in enumerate(lineage) if base in table), None)
    if place is None:
        return None
    base = lineage[place]
    for between in lineage[:place]:
        for name, value in vars(between).items():
            if name in NEUTRAL_NAMES:
                continue
            plain = inspect.isfunction(inspect.unwrap(value) if callable(value) else value)
            if hasattr(base, name) or not plain:
                return None
    return base
