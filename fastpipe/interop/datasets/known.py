"""Rows of the tables of known classes, with checks that an object's samples are those of its class."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any, TypeAlias

from fastpipe.interop import Foreign
from fastpipe.transforms.adapters import NEUTRAL_NAMES

Files: TypeAlias = Callable[[int], tuple[str | os.PathLike[str], Foreign]]
"""Returns the path and the target of a sample, by its number."""

Convert: TypeAlias = Callable[[Foreign], Foreign]
"""Converts a dataset inside another one."""


class NotConvertible(Exception):
    """Raised if the samples of a dataset aren't known; the message is a clause with the reason."""


@dataclass(frozen=True, slots=True)
class KnownClass:
    """A known class of another library."""

    # converts an object to fastpipe's dataset; the second argument converts datasets inside it
    convert: Callable[[Foreign, Convert], Foreign]
    methods: tuple[str, ...] = ()  # the class's methods that make samples
    reads: tuple[str, ...] = ()  # the attributes that these methods read
    # names that a subclass may define, as they are only used when the object is made
    free: frozenset[str] = frozenset()
    # returns an object's current files, or raises `NotConvertible`; None if samples aren't files
    files: Callable[[Foreign], Files] | None = None
    in_memory: bool = False  # whether samples are in an array, which isn't copied

    def check(self, dataset: object, base: type) -> None:
        """Raises `NotConvertible` if the object's samples may differ from those that its known class makes.

        A subclass may have a constructor and a repr of its own, and methods and attributes under new names.
        """
        methods = ("__getitem__", "__len__", *self.methods)
        own = vars(dataset)
        for name in methods:
            if name in own:
                raise NotConvertible(f"it has a {name} of its own")
            if not _is_of_library(inspect.getattr_static(base, name), base):
                raise NotConvertible(f"{base.__name__}.{name} has been replaced")
        for name in self.reads:
            if name not in own:
                raise NotConvertible(f"it has no attribute {name}")
        read = {"loader", "target_transform", "transform", "transforms", *self.reads}
        kind = type(dataset)
        for between in kind.__mro__[: kind.__mro__.index(base)]:
            for name in sorted(vars(between), key=lambda name: name not in methods):  # the clearest reason first
                if name in NEUTRAL_NAMES or name in self.free:
                    continue
                special = name.startswith("__") and name.endswith("__")
                if special or name in read or hasattr(base, name):
                    raise NotConvertible(f"its class {between.__name__} has a {name} of its own")


def _is_of_library(method: Any, base: type) -> bool:
    """True if a class's method is the library's own, defined in the library's file."""
    function = method.__func__ if type(method) in (classmethod, staticmethod) else method
    if not isinstance(function, FunctionType):
        return False
    home: str = function.__globals__.get("__name__", "")
    same_library = home.partition(".")[0] == base.__module__.partition(".")[0]
    return same_library and function.__code__.co_filename == getattr(sys.modules.get(home), "__file__", None)


def copy_attributes(ours: object, original: object) -> None:
    """Copies the original's attributes to a dataset of ours, except names that ours uses itself."""
    classes = [base for base in type(ours).__mro__ if base.__module__.startswith("fastpipe.")]
    own = vars(ours)
    for name, value in vars(original).items():
        if name not in own and not any(name in vars(base) for base in classes):
            own[name] = value
