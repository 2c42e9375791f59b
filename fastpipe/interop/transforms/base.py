"""Adapters: objects of classes of ours that draw for another library's, whose attributes they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fastpipe.transforms.adapters import Adapt

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


def adapter_class(ours: type, **body: object) -> type:
    """A class that does what ``ours`` does, for objects of another library's class; see `adapter`.

    Args:
        ours: defines ``draw``; its attributes have the names that the other library's have.
        body: attributes and methods in place of ours.
    """
    kept = {name: vars(ours)[name] for name in _SAID if name in vars(ours)}
    names = {"__slots__": ("original",), "__doc__": ours.__doc__}
    kind: Callable[..., type] = type(ours)
    return kind(ours.__name__, (ours,), {**names, **kept, **body, "__module__": __name__})


def adapter(kind: type) -> Adapt:
    """Makes adapters of a class: objects that share the attributes of the object that they draw for."""
    new, set_ = object.__new__, object.__setattr__

    def adapt(original: object) -> object:
        made: object = new(kind)
        set_(made, "__dict__", original.__dict__)  # not a copy: changes are seen
        set_(made, "original", original)
        return made

    return adapt
