"""Other libraries' data sets as fastpipe's: one module a library, each with a table of its classes.

A module is imported once an object of its library is there: so nothing here imports a library that the user hasn't
imported.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from torch.utils.data import Dataset

from fastpipe.datasets.base import ImageDataset
from fastpipe.interop.datasets.known import KnownClass, NotConvertible, look_up

__all__ = ["convert_dataset", "is_known", "known_class"]

_TABLES = {
    "timm.data": "timm",
    "torch.utils.data": "torch",
    "torchvision.datasets": "torchvision",
    "torchvision.tv_tensors": "torchvision",
}
"""The module that has the table of a package's classes, and of those in packages within."""

Otherwise = Callable[[Any, str], Any]
"""Called with a data set whose samples aren't known, and with the reason; returns another data set, or raises."""


def convert_dataset(dataset: object, otherwise: Otherwise) -> Any:
    """A data set of another library's as fastpipe's, with the same samples; one of fastpipe's as it is.

    Args:
        dataset: any.
        otherwise: gives what is to stand for a data set that isn't known, or for one within.
    """
    return _Conversion(otherwise)(dataset)


def is_known(dataset: object) -> bool:
    """Whether an object's class, or one that it derives from, is in a table: its own samples may be others."""
    return isinstance(dataset, ImageDataset) or _find(type(dataset)) is not None


def known_class(dataset: object) -> KnownClass | None:
    """The row of an object's class; None where its samples may be others than a known class would make.

    Raises:
        NotConvertible: its class is known, or derives from one that is, and its samples may differ; says why.
    """
    found = _find(type(dataset))
    if found is None:
        return None
    base, known = found
    known.check(dataset, base)
    return known


class _Conversion:
    """One conversion: a data set that is in several places becomes one."""

    def __init__(self, otherwise: Otherwise) -> None:
        self._done: dict[int, tuple[Any, Any]] = {}
        self._otherwise = otherwise

    def __call__(self, dataset: object) -> Any:
        if id(dataset) not in self._done:
            self._done[id(dataset)] = dataset, self._converted(dataset)  # the first keeps the id its own
        return self._done[id(dataset)][1]

    def _converted(self, dataset: object) -> Any:
        kind = type(dataset)
        if isinstance(dataset, ImageDataset) or (
            isinstance(dataset, Dataset) and kind.__module__.startswith("fastpipe.")
        ):
            return dataset
        found = _find(kind)
        if found is None:
            return self._otherwise(dataset, "its class isn't known")
        base, known = found
        try:
            known.check(dataset, base)
            return known.convert(dataset, self)
        except NotConvertible as reason:
            return self._otherwise(dataset, str(reason))


def _find(kind: type[Any]) -> tuple[type[Any], KnownClass] | None:
    """The first class of an object's lineage that a table has, and its row."""
    for base in kind.__mro__:
        module = look_up(_TABLES, base.__module__)
        if module is not None:
            table: dict[str, KnownClass] = importlib.import_module(f"{__name__}.{module}").TABLE
            if base.__name__ in table:
                return base, table[base.__name__]
    return None
