"""Checks that a library's functions are its own: one that somebody has put in place is called, and nothing planned."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import Any

LIBRARIES = {"PIL", "albumentations", "fastpipe", "timm", "torch", "torchvision", "typing"}
"""Packages whose functions are no code of the user's; torchvision's modules have some of ``typing``'s."""

TRANSFORMS = (
    "torchvision.transforms.functional",
    "torchvision.transforms._functional_pil",
    "torchvision.transforms.v2.functional",
)
"""Modules that transforms go through."""
FILES = ("PIL.Image", "torchvision.datasets.folder")
"""Modules that data sets of files go through."""
_OF_PILLOW = ("convert", "copy", "crop", "filter", "load", "point", "reduce", "resize", "transform", "transpose")


class Originals:
    """The functions that a library goes through for an image: of some classes and modules, and of Pillow's image.

    Asked at each call, so it compares what is there with what was there the last time.

    Args:
        kinds: classes; of one of the user's, those that it is derived from count.
        modules: names.
    """

    def __init__(self, kinds: Iterable[type[Any]], modules: Iterable[str] = TRANSFORMS) -> None:
        owners: list[Any] = list({base: 0 for kind in kinds for base in kind.__mro__ if _is_watched_class(base)})
        owners += filter(None, map(sys.modules.get, modules))
        pillow: Any = sys.modules.get("PIL.Image")
        self._values = [vars(owner).values() for owner in owners]
        self._watched: list[tuple[Any, Iterable[str]]] = [(vars(owner), vars(owner).keys()) for owner in owners]
        image = {} if pillow is None else vars(pillow.Image)
        self._watched.append((image, _OF_PILLOW if image else ()))
        self._of_pillow = image.get
        self._seen: list[Any] = []
        self._are_there = False

    def are_there(self) -> bool:
        """True if all of them are the libraries' own, or ours in their place."""
        now: list[Any] = [*map(list, self._values)] if self._values else []
        now.append([*map(self._of_pillow, _OF_PILLOW)])
        if now != self._seen:
            watched = [(name, values[name]) for values, names in self._watched for name in names]
            self._are_there = all(is_librarys(value) for name, value in watched if _is_watched(name, value))
            self._seen = now  # last: another thread may ask meanwhile
        return self._are_there


def is_librarys(function: object) -> bool:
    """True if a function is a library's own; of one that `fastpipe.hooks.patches.Patches` replaced, what it was."""
    own: object = _own_function(function)
    home: str = own.__globals__.get("__name__", "") if isinstance(own, FunctionType) else own.__module__ or ""
    return home.partition(".")[0] in LIBRARIES


def _own_function(function: object) -> object:
    for own in _within(function):
        if not isinstance(own, FunctionType) or not own.__globals__.get("__name__", "").startswith("fastpipe."):
            return own
    return function


def _within(function: object) -> Iterator[object]:
    while function is not None:
        function = getattr(function, "__func__", function)
        yield function
        function = getattr(function, "__wrapped__", None)


def _is_watched_class(kind: object) -> bool:
    home = kind.__module__
    return home.partition(".")[0] in LIBRARIES and not home.startswith(("torch.nn", "fastpipe."))


def _is_watched(name: str, value: object) -> bool:
    """Whether an attribute of a class or a module is a function, or stands in the place of one."""
    if isinstance(value, (staticmethod, classmethod)):
        return True
    if not callable(value) or isinstance(value, type) or type(value).__module__ in ("typing", "types"):
        return False
    return name == "__call__" or not name.startswith("__")
