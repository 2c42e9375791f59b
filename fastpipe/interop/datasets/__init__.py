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


def convert_dataset(dataset: object, otherwise: Callable[[Any], object]) -> object:
    """A data set of another library's as fastpipe's, with the same samples; one of fastpipe's as it is.

    Args:
        dataset: any.
        otherwise: gives what is to stand for a data set whose samples aren't known, or for one within; or raises.
    """
    done: dict[int, tuple[object, object]] = {}

    def convert(one: object) -> object:
        """The data set that stands for one, wherever it is: one that is in several places becomes one."""
        if id(one) not in done:
            done[id(one)] = one, converted(one)  # the first keeps the id its own
        return done[id(one)][1]

    def converted(one: object) -> object:
        is_ours = isinstance(one, Dataset) and type(one).__module__.startswith("fastpipe.")
        if is_ours or isinstance(one, ImageDataset):
            return one
        try:
            known = known_class(one)
            return otherwise(one) if known is None else known.convert(one, convert)
        except NotConvertible:
            return otherwise(one)

    return convert(dataset)


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


def _find(kind: type[Any]) -> tuple[type[Any], KnownClass] | None:
    """The first class of an object's lineage that a table has, and its row."""
    for base in kind.__mro__:
        module = look_up(_TABLES, base.__module__)
        if module is not None:
            table: dict[str, KnownClass] = importlib.import_module(f"{__name__}.{module}").TABLE
            if base.__name__ in table:
                return base, table[base.__name__]
    return None
