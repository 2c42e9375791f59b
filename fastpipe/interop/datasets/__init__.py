"""Converts other libraries' datasets to fastpipe's: one module for each library, with a table of its classes.

A module is imported for the first object of its library, so no library is imported that the user hasn't imported.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from torch.utils.data import Dataset

from fastpipe.datasets.base import ImageDataset
from fastpipe.interop import Foreign
from fastpipe.interop.datasets.known import KnownClass, NotConvertible
from fastpipe.plain_lookup import is_a, module_of, modules_of
from fastpipe.transforms.adapters import look_up

__all__ = ["convert_dataset", "is_known", "known_class"]

_TABLES = {
    "timm.data": "timm",
    "torch.utils.data": "torch",
    "torchvision.datasets": "torchvision",
    "torchvision.tv_tensors": "torchvision",
}
"""By package: the module with the table of the classes of that package and of its subpackages."""


def convert_dataset(dataset: object, otherwise: Callable[[Foreign], object]) -> object:
    """Converts another library's dataset to one of fastpipe's with the same samples; returns fastpipe's unchanged.

    Args:
        dataset: any dataset.
        otherwise: called for a dataset whose samples aren't known, also inside another one; returns its replacement,
            or raises.
    """
    done: dict[int, tuple[object, object]] = {}

    def convert(one: object) -> object:
        """Converts a dataset once, even if it occurs in several places."""
        if id(one) not in done:
            done[id(one)] = one, converted(one)  # kept, so that its id isn't reused
        return done[id(one)][1]

    def converted(one: object) -> object:
        is_ours = is_a(one, Dataset) and module_of(type(one)).startswith("fastpipe.")
        if is_ours or is_a(one, ImageDataset):
            return one
        try:
            known = known_class(one)
            return otherwise(one) if known is None else known.convert(one, convert)
        except NotConvertible:
            return otherwise(one)

    return convert(dataset)


def is_known(dataset: object) -> bool:
    """True if an object's class, or a base of it, is in a table; a derived class may still make other samples."""
    return is_a(dataset, ImageDataset) or _find(type(dataset)) is not None


def known_class(dataset: object) -> KnownClass | None:
    """The row for an object's class; None if neither the class nor a base of it is known.

    Raises:
        NotConvertible: the class is known or derives from a known one, but its samples may differ; says why.
    """
    found = _find(type(dataset))
    if found is None:
        return None
    base, known = found
    known.check(dataset, base)
    return known


def _find(kind: type) -> tuple[type, KnownClass] | None:
    """The first class in a class's MRO that a table has, and its row."""
    for base, home in modules_of(kind):
        module = look_up(_TABLES, home)
        if module is not None:
            table: dict[str, KnownClass] = importlib.import_module(f"{__name__}.{module}").TABLE
            if base.__name__ in table:
                return base, table[base.__name__]
    return None
