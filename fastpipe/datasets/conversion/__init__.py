"""Other libraries' data sets as fastpipe's: one module a library, each with a table of its classes.

A module is imported once an object of its library is there: so nothing here imports a library that the user hasn't
imported.
"""

from __future__ import annotations

import importlib
from typing import Any

from torch.utils.data import Dataset, IterableDataset

from fastpipe.datasets.base import ImageDataset
from fastpipe.datasets.conversion.known import KnownClass, NotConvertible, look_up
from fastpipe.errors import DatasetError

__all__ = ["UNCHANGED", "convert_dataset", "is_known", "known_class"]

_TABLES = {
    "datasets.arrow_dataset": "huggingface",
    "timm.data": "timm",
    "torch.utils.data": "torch",
    "torchvision.datasets": "torchvision",
    "torchvision.tv_tensors": "torchvision",
}
"""The module that has the table of a package's classes, and of those in packages within."""

_OWN = (
    "where its samples are files, fastpipe.ImageList((paths, labels), transform) makes them, fastpipe.SampleDataset "
    "with boxes and masks, and fastpipe.datasets.ImageArray where they are arrays in memory"
)
UNCHANGED = (
    "leave the code as it is, and start it with `fastpipe run train.py` or call fastpipe.install() first: that plans "
    "what is done to the images that it opens. Or open them by fastpipe.open_image, which "
    "fastpipe.register_pillow_opener() has PIL.Image.open do, and import transforms from fastpipe, not torchvision"
)
"""What helps where a class isn't known: a clause for errors and warnings."""


def convert_dataset(dataset: Any) -> Any:
    """A data set of another library's as fastpipe's, with the same samples; one of fastpipe's as it is.

    Raises:
        DatasetError: it can't be converted; says why, and which way out there is.
    """
    return _Conversion()(dataset)


def is_known(dataset: Any) -> bool:
    """Whether an object's class, or one that it derives from, is in a table: `convert_dataset` may still refuse it."""
    return isinstance(dataset, ImageDataset) or _find(type(dataset)) is not None


def known_class(dataset: Any) -> KnownClass | None:
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

    def __init__(self) -> None:
        self._done: dict[int, tuple[Any, Any]] = {}

    def __call__(self, dataset: Any) -> Any:
        if id(dataset) not in self._done:
            self._done[id(dataset)] = dataset, self._converted(dataset)  # the first keeps the id its own
        return self._done[id(dataset)][1]

    def _converted(self, dataset: Any) -> Any:
        kind = type(dataset)
        if isinstance(dataset, ImageDataset) or (
            isinstance(dataset, Dataset) and kind.__module__.startswith("fastpipe.")
        ):
            return dataset
        name = f"{kind.__module__}.{kind.__qualname__}"
        found = _find(kind)
        if found is None:
            if isinstance(dataset, IterableDataset) and kind.__getitem__ is Dataset.__getitem__:
                raise DatasetError(
                    f"fastpipe.convert can't convert {name}: it is iterated, and has no samples by number. Of "
                    "WebDataset's shards fastpipe.ImageShards makes a map-style data set; fastpipe.load_batch takes "
                    f"bytes from anywhere. Or: {UNCHANGED}."
                )
            raise DatasetError(f"fastpipe.convert doesn't know {name}: {_OWN}. Or: {UNCHANGED}.")
        base, known = found
        try:
            known.check(dataset, base)
            return known.convert(dataset, self)
        except NotConvertible as reason:
            way = reason.way_out or _OWN
            raise DatasetError(
                f"fastpipe.convert can't convert this {name}: {reason}. Instead: {way}. Or: {UNCHANGED}."
            ) from None


def _find(kind: type[Any]) -> tuple[type[Any], KnownClass] | None:
    """The first class of an object's lineage that a table has, and its row."""
    for base in kind.__mro__:
        module = look_up(_TABLES, base.__module__)
        if module is not None:
            table: dict[str, KnownClass] = importlib.import_module(f"{__name__}.{module}").TABLE
            if base.__name__ in table:
                return base, table[base.__name__]
    return None
