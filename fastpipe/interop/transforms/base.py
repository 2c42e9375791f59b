"""Adapters: objects of our classes that draw for another library's object, and share its attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

_SAID = ("_draws_from_python", "_draws_nothing", "_is_compose", "_looks_at_shape")  # read from the class itself alone


class Drawing:
    """Base of classes that draw for another library's object, and share its attributes.

    Attributes:
        original: the other library's object.
    """

    __slots__ = ("__dict__", "original")
    _draws_from_python = True

    if TYPE_CHECKING:  # all other attributes are the original's

        def __getattr__(self, name: str) -> Any: ...


def adapter_class(ours: type, **body: object) -> type:
    """Makes a class that works as ``ours``, for objects of another library's class.

    Args:
        ours: a class with ``draw``, whose attributes have the same names as the other library's.
        body: attributes and methods that replace those of `ours`.
    """
    kept = {name: vars(ours)[name] for name in _SAID if name in vars(ours)}
    names = {"__slots__": ("original",), "__doc__": ours.__doc__}
    kind: Callable[..., type] = type(ours)
    return kind(ours.__name__, (ours,), {**names, **kept, **body, "__module__": __name__})
