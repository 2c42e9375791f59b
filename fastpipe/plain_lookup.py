"""Reads people's objects without running their code: no ``__getattr__``, no property, no ``__class__``, no ``==``.

An object may answer any name as it likes (a mock), or raise for it (``__getattr__ = dict.__getitem__``). So its class
is asked along its MRO, and the object's own dict is read directly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import is_
from types import GetSetDescriptorType, MappingProxyType, MemberDescriptorType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Kind = TypeVar("Kind")
Result = TypeVar("Result")

_mro = vars(type)["__mro__"].__get__
_vars = vars(type)["__dict__"].__get__
_module = vars(type)["__module__"].__get__
_NOTHING: Mapping[str, Any] = MappingProxyType({})


def is_a(thing: object, kinds: type[Kind] | tuple[type[Kind], ...]) -> TypeIs[Kind]:
    """``isinstance`` by an object's own class, without asking the object for ``__class__``."""
    return issubclass(type(thing), kinds)


def bases_of(kind: type) -> tuple[type, ...]:
    """A class and its bases, in the order in which attributes are looked up; its metaclass isn't asked."""
    bases: tuple[type, ...] = _mro(kind)
    return bases


def class_attribute(thing: object, name: str) -> Any:
    """The attribute that an object's class, or a base of it, defines under a name, unbound; None without one."""
    return attribute_of_class(type(thing), name)


def attribute_of_class(kind: type, name: str) -> Any:
    """The attribute that a class, or a base of it, defines under a name, or None; its metaclass isn't asked."""
    for base in _mro(kind):
        own = _vars(base)
        if name in own:
            return own[name]
    return None


def own_attributes(thing: object) -> Mapping[str, Any]:
    """An object's own ``__dict__``, or a class's; empty if it has none."""
    for base in _mro(type(thing)):
        slot = _vars(base).get("__dict__")
        if isinstance(slot, (GetSetDescriptorType, MemberDescriptorType)):
            try:
                own: Mapping[str, Any] | None = slot.__get__(thing)
            except AttributeError:  # of a proxy written in C, whose object has none
                own = None
            return _NOTHING if own is None else own
    return _NOTHING


def own_attribute(thing: object, name: str, default: object = None) -> Any:
    """The value in an object's own ``__dict__``, or in a class's, under a name."""
    own = own_attributes(thing)
    return dict.get(own, name, default) if isinstance(own, dict) else own.get(name, default)  # it may override `get`


def values_in_slots(thing: object) -> Iterator[tuple[MemberDescriptorType, object]]:
    """The slots of an object's classes that are set, and their values."""
    for base in _mro(type(thing)):
        for slot in [*_vars(base).values()]:
            if type(slot) is MemberDescriptorType:
                try:
                    value = slot.__get__(thing)
                except AttributeError:  # it was never set
                    continue
                yield slot, value


def module_of(kind: type) -> str:
    """The name of the module that defines a class; empty if the class has something else in its place."""
    name: object = _module(kind)
    return name if isinstance(name, str) else ""


def modules_of(kind: type) -> Iterator[tuple[type, str]]:
    """A class and its bases, each with the name of its module."""
    return ((base, module_of(base)) for base in bases_of(kind))


def are_same(some: Sequence[object], others: Sequence[object]) -> bool:
    """True if two sequences hold the same objects, not merely equal ones."""
    return len(some) == len(others) and all(map(is_, some, others))


class ByClass(Generic[Result]):
    """Decorates a function of a class, which is then called once for each class.

    Unlike ``functools.cache``, it doesn't ask the class's metaclass for a hash, nor for ``==``.
    """

    def __init__(self, function: Callable[[type], Result]) -> None:
        self.__wrapped__ = function
        self._results: dict[int, tuple[type, Result]] = {}  # by the id of a class, which is held

    def __call__(self, kind: type) -> Result:
        found = self._results.get(id(kind))
        if found is None:
            if len(self._results) >= _MOST_CLASSES:
                self._results = {}
            found = self._results[id(kind)] = kind, self.__wrapped__(kind)
        return found[1]

    def cache_clear(self) -> None:
        """Forgets all results."""
        self._results = {}


_MOST_CLASSES = 512
