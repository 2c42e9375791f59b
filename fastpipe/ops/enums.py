"""The base of enums that torchvision has, too, so that members of both are interchangeable."""

from __future__ import annotations

import sys
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Self

Value = TypeVar("Value")


class TorchvisionEnum(Enum):
    """An enum with a torchvision twin of the same name; doesn't import torchvision.

    A member equals torchvision's member and has the same hash, so that either is found as the other's key in a dict.
    Once torchvision has been imported, members also pass ``isinstance`` checks for its class, so its v2 functions
    accept them. ``InterpolationMode(member)`` converts torchvision's member to fastpipe's.
    """

    def __eq__(self, other: object) -> bool:
        kind: object = type(other)
        return self is other or (_is_twin(type(self), kind) and self._value_ == other._value_)  # type: ignore[attr-defined]

    __hash__ = Enum.__hash__

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        ours = type(self)
        theirs = getattr(sys.modules.get("torchvision.transforms"), ours.__name__, None)
        return theirs if isinstance(theirs, type) else ours

    def __reduce_ex__(self, protocol: object) -> tuple[type[Self], tuple[object]]:
        return type(self), (self._value_,)

    @classmethod
    def adopt(cls, value: Value) -> Self | Value:
        """fastpipe's member for torchvision's member; any other value unchanged."""
        return cls[value._name_] if isinstance(value, Enum) and _is_twin(cls, type(value)) else value

    @classmethod
    def _missing_(cls, value: object) -> object:
        return cls[value.name] if isinstance(value, Enum) and _is_twin(cls, type(value)) else None


@lru_cache(maxsize=256)
def _is_twin(ours: type, other: type) -> bool:
    return other.__name__ == ours.__name__ and other.__module__.startswith("torchvision.")
