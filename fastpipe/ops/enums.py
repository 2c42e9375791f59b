"""The base of enums that torchvision has, too, and which are the same for both libraries."""

from __future__ import annotations

import sys
from enum import Enum
from functools import lru_cache
from typing import Any


class TorchvisionEnum(Enum):
    """An enum with a torchvision twin of the same name, which isn't imported for it.

    A member equals torchvision's and hashes as it does, so that either finds the other in a dict. Once torchvision has
    been imported, members also pass its ``isinstance`` checks: its v2 functions take them as their own.
    ``InterpolationMode(member)`` is ours for torchvision's member.
    """

    def __eq__(self, other: object) -> bool:
        return self is other or (_is_twin(type(self), type(other)) and self._value_ == other._value_)  # type: ignore[attr-defined]

    __hash__ = Enum.__hash__

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        ours = type(self)
        theirs = getattr(sys.modules.get("torchvision.transforms"), ours.__name__, None)
        return theirs if isinstance(theirs, type) else ours

    def __reduce_ex__(self, protocol: object) -> Any:
        return type(self), (self._value_,)

    @classmethod
    def adopt(cls, value: object) -> Any:
        """Our member for torchvision's; any other value as it is."""
        return _adopted(cls, value) if isinstance(value, Enum) else value

    @classmethod
    def _missing_(cls, value: object) -> object:
        return cls[value.name] if isinstance(value, Enum) and _is_twin(cls, type(value)) else None


@lru_cache(maxsize=256)
def _adopted(cls: Any, member: Enum) -> object:
    return cls(member) if _is_twin(cls, type(member)) else member


def _is_twin(ours: type, other: type) -> bool:
    return other.__name__ == ours.__name__ and other.__module__.startswith("torchvision.")
