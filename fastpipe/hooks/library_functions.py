"""Checks that a library's functions are its own; if one has been replaced, it is called, and nothing is planned."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from operator import is_
from types import FunctionType

from fastpipe.plain_lookup import bases_of, module_of, own_attribute
from fastpipe.plain_way import own_function

LIBRARIES = {"PIL", "albumentations", "fastpipe", "timm", "torch", "torchvision", "typing"}
"""Packages whose functions aren't the user's code; torchvision's modules contain some of ``typing``'s."""

TRANSFORMS = (
    "torchvision.transforms.functional",
    "torchvision.transforms._functional_pil",
    "torchvision.transforms.v2.functional",
)
"""Modules whose functions transforms call."""
FILES = ("PIL.Image", "torchvision.datasets.folder")
"""Modules whose functions datasets of files call."""
_V2 = "torchvision.transforms.v2.functional"
_OF_V1 = ("torchvision.transforms.transforms", "torchvision.transforms.autoaugment")
"""Modules of transforms that call nothing of `_V2`."""
_OF_PILLOW = ("convert", "copy", "crop", "filter", "load", "point", "reduce", "resize", "transform", "transpose")
_OF_TORCH = ("rand", "randint", "randperm")
"""Functions that transforms draw by."""


class Originals:
    """The functions that a library calls for an image: of some classes and modules, of Pillow's image class, of torch.

    Checked at each call, so it only compares the current functions with those of the last check.

    Args:
        kinds: classes; for a user's class, its bases count.
        modules: names of modules.
    """

    def __init__(self, kinds: Iterable[type], modules: Iterable[str] = TRANSFORMS) -> None:
        lineage = {id(base): base for kind in kinds for base in bases_of(kind) if _is_watched_class(base)}
        owners: list[object] = [*lineage.values()]
        are_of_v1 = all(module_of(base) in _OF_V1 for base in lineage.values())
        owners += [sys.modules[name] for name in modules if name in sys.modules and not (are_of_v1 and name == _V2)]
        pillow = sys.modules.get("PIL.Image")
        self._values = [vars(owner).values() for owner in owners]
        self._watched: list[tuple[Mapping[str, object], Iterable[str]]] = [
            (vars(owner), vars(owner).keys()) for owner in owners
        ]
        image = {} if pillow is None else vars(pillow.Image)
        drawn_by = vars(sys.modules["torch"]) if owners and "torch" in sys.modules else {}
        self._watched += [(image, _OF_PILLOW if image else ()), (drawn_by, _OF_TORCH if drawn_by else ())]
        self._of_pillow, self._of_torch = image.get, drawn_by.get
        self._seen: list[object] = []
        self._are_there = False

    def are_there(self) -> bool:
        """True if all functions are the libraries' own, or fastpipe's replacements."""
        now: list[object] = []
        for values in self._values:
            now += values
        now += map(self._of_pillow, _OF_PILLOW)
        now += map(self._of_torch, _OF_TORCH)
        # By identity: a replacement may be equal to what it wraps, and a mock records each comparison.
        if len(now) != len(self._seen) or not all(map(is_, now, self._seen)):
            watched = [(name, values[name]) for values, names in self._watched for name in names]
            self._are_there = all(is_librarys(value) for name, value in watched if _is_watched(name, value))
            self._seen = now  # set last, as another thread may read it
        return self._are_there


def is_librarys(function: object) -> bool:
    """True if a function is a library's own; for a replacement by `Patches`, if the original is."""
    own = own_function(function)
    if isinstance(own, FunctionType):
        home = own.__globals__.get("__name__", "")
    elif isinstance(own, type):
        home = module_of(own)
    else:  # of builtin functions Python keeps it, of caches `functools`
        home = own_attribute(own, "__module__") or getattr(own if _is_builtin(own) else type(own), "__module__", "")
    return isinstance(home, str) and home.partition(".")[0] in LIBRARIES


def _is_builtin(thing: object) -> bool:
    return module_of(type(thing)) == "builtins"


def _is_watched_class(kind: type) -> bool:
    home = module_of(kind)
    return home.partition(".")[0] in LIBRARIES and not home.startswith(("torch.nn", "fastpipe."))


def _is_watched(name: str, value: object) -> bool:
    """True if an attribute of a class or a module is a function, or replaces one."""
    kind = type(value)
    if issubclass(kind, (staticmethod, classmethod)):
        return True
    if not callable(value) or issubclass(kind, type) or module_of(kind) in ("typing", "types"):
        return False
    return name == "__call__" or not name.startswith("__")
