"""Attributes of torchvision's objects that have another value in fastpipe's classes, such as fastpipe's own enums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

Converted = TypeVar("Converted")


class Attribute(Generic[Converted]):
    """An attribute that torchvision sets, and that is converted when it is read.

    Args:
        convert: converts the value that was set.
    """

    def __init__(self, convert: Callable[[Any], Converted]) -> None:
        self._convert = convert

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> Converted:
        if instance is None or self._name not in vars(instance):
            raise AttributeError(self._name)
        return self._convert(vars(instance)[self._name])

    def __set__(self, instance: object, value: object) -> None:
        vars(instance)[self._name] = value


def by_class(value: object) -> object:
    """A dict keyed by classes of inputs, such as a fill for each, that also finds stand-ins for these classes."""
    return _ByClass(value) if type(value) is dict else value


class _ByClass(dict[object, object]):
    def __contains__(self, key: object) -> bool:
        return super().__contains__(getattr(key, "stands_for", key))

    def __getitem__(self, key: object) -> object:
        return super().__getitem__(getattr(key, "stands_for", key))
