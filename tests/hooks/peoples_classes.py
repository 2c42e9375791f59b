"""Transforms of people's classes, which answer names as they like, raise for them, or are equal to others."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hooks.composed import T


def small(image: Any) -> Any:
    return image.resize((24, 20))


class Small:
    def __call__(self, image: Any) -> Any:
        return small(image)


class KeysAsAttributes(dict):  # type: ignore[type-arg]
    """As EasyDict and addict: a missing name is a missing key."""

    __getattr__ = dict.__getitem__
    __call__ = Small.__call__


class ItsOwnDict(dict):  # type: ignore[type-arg]
    def __init__(self) -> None:
        self.__dict__ = self

    __call__ = Small.__call__


class RaisesForPrivateNames(Small):
    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") and not name.startswith("__"):
            raise RuntimeError("don't ask")
        return object.__getattribute__(self, name)


class RaisesForAnyName(Small):
    def __getattribute__(self, name: str) -> Any:
        raise ZeroDivisionError(name)


class RaisesForItsClass(Small):
    @property
    def __class__(self) -> Any:
        raise ZeroDivisionError


class ClaimsToBeAnother(Small):
    @property
    def __class__(self) -> Any:
        return T.Compose


class AnswersEverything(Small):
    def __getattr__(self, name: str) -> Any:
        return lambda *args: True


class AnswersByItsMetaclass(type):
    def __getattr__(cls, name: str) -> Any:
        return lambda *args: True


class OfThatMetaclass(Small, metaclass=AnswersByItsMetaclass):
    pass


class RaisesByItsMetaclass(type):
    def __getattribute__(cls, name: str) -> Any:
        if name in ("__mro__", "__module__", "__dict__", "draw"):
            raise OSError(name)
        return type.__getattribute__(cls, name)


class OfAnAngryMetaclass(Small, metaclass=RaisesByItsMetaclass):
    pass


class WithSlots:
    __slots__ = ()
    __call__ = Small.__call__


class HasNoModule(Small):
    __module__ = None  # type: ignore[assignment]


class ModuleIsAProperty(Small):
    __module__ = property(lambda self: 1 / 0)  # type: ignore[assignment]


class HasOurNames(Small):
    draw = 5
    transforms = 7
    _plans_itself = 3
    _can_draw = 1
    _is_compose = "x"
    _forward_hooks = 9


class RaisesWhenRead(Small):
    @property
    def transforms(self) -> Any:
        raise LookupError("not yet")

    @property
    def draw(self) -> Any:
        raise LookupError("not yet")


class RaisesWhenCompared(Small):
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no ==")


class ComparesByElement(Small):
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> Any:
        return torch.tensor([True, False])


class ComparesAsArray(Small):
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> Any:
        return np.array([True, True])


class HasNoTruth(Small):
    def __bool__(self) -> bool:
        raise TypeError

    def __len__(self) -> int:
        raise TypeError

    def __iter__(self) -> Any:
        raise TypeError
