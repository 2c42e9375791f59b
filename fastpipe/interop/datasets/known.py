"""A row of a table of known classes, and the checks that an object's samples are what its class makes."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from fastpipe.transforms.adapters import NEUTRAL_NAMES

Found = TypeVar("Found")

Files = Callable[[int], tuple[Any, Any]]
"""Gives the path and the target of a sample, by its number."""


class NotConvertible(Exception):
    """The reason, a clause, why the samples of a data set aren't known."""


@dataclass(frozen=True, slots=True)
class KnownClass:
    """A class of another library's."""

    # from an object, and a function that converts others (for data sets that hold such), to fastpipe's
    convert: Callable[[Any, Callable[[Any], Any]], Any]
    methods: tuple[str, ...] = ()  # its methods that make samples
    reads: tuple[str, ...] = ()  # the attributes that they read
    # names of the class that a subclass may have of its own, as they take part when the object is made alone
    free: frozenset[str] = frozenset()
    # from an object to its files as they are now, or raises `NotConvertible`; None where samples are other things
    files: Callable[[Any], Files] | None = None
    in_memory: bool = False  # samples are of an array, which isn't copied

    def check(self, dataset: object, base: type) -> None:
        """Raises `NotConvertible` if the object's samples may be others than its known class would make.

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
            for name in sorted(vars(between), key=lambda name: name not in methods):  # the plainest reason first
                if name in NEUTRAL_NAMES or name in self.free:
                    continue
                special = name.startswith("__") and name.endswith("__")
                if special or name in read or hasattr(base, name):
                    raise NotConvertible(f"its class {between.__name__} has a {name} of its own")


def _is_of_library(method: object, base: type) -> bool:
    """Whether a class's method is the one that a file of the class's library has."""
    function = getattr(method, "__func__", method)
    home, code = str(getattr(function, "__module__", "")), getattr(function, "__code__", None)
    same_library = home.partition(".")[0] == base.__module__.partition(".")[0]
    return same_library and code is not None and code.co_filename == getattr(sys.modules.get(home), "__file__", None)


def look_up(table: Mapping[str, Found], module: str) -> Found | None:
    """The entry of a module, or of the nearest package around it."""
    while module:
        if module in table:
            return table[module]
        module = module.rpartition(".")[0]
    return None


def copy_attributes(ours: object, original: object) -> None:
    """Has a data set of ours the attributes of the one that it was made of, but for names that mean something here."""
    classes = [base for base in type(ours).__mro__ if base.__module__.startswith("fastpipe.")]
    own = vars(ours)
    for name, value in vars(original).items():
        if name not in own and not any(name in vars(base) for base in classes):
            own[name] = value
