"""Dicts by the classes of inputs, as a fill or a dtype for each, in which a stand-in is what it stands for."""

from __future__ import annotations

from typing import Any


class _ByClass(dict[Any, Any]):
    """A dict by the classes of inputs, in which a stand-in's class is the one that it stands for."""

    def __contains__(self, key: object) -> bool:
        return super().__contains__(getattr(key, "stands_for", key))

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(getattr(key, "stands_for", key))


class ByClass:
    """An attribute of a transform's that may be such a dict, as a fill or a dtype for each class of inputs."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None or self.name not in vars(instance):
            raise AttributeError(self.name)
        value = vars(instance)[self.name]
        return _ByClass(value) if type(value) is dict else value

    def __set__(self, instance: Any, value: Any) -> None:
        vars(instance)[self.name] = value
