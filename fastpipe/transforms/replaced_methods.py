"""Finds out whether somebody has replaced a method of a library's transforms, as tests and patches do."""

from __future__ import annotations

from types import FunctionType

from fastpipe.plain_lookup import ByClass, bases_of, module_of, own_attributes

METHODS = ("forward", "get_params", "make_params", "transform", "__call__")
"""The methods by which torchvision's transforms work, and those that are like them."""
_LIBRARIES = {"abc", "fastpipe", "functools", "timm", "torch", "torchvision"}


def is_library_class(kind: type) -> bool:
    """True for a class that fastpipe, torchvision or timm defines."""
    return module_of(kind).partition(".")[0] in {"fastpipe", "timm", "torchvision"}


@ByClass
def is_as_its_library_has_it(kind: type) -> bool:
    """False if somebody has replaced one of `METHODS` of a library's class, or of a base of it."""
    for base in filter(is_library_class, bases_of(kind)):
        own = own_attributes(base)
        for name in METHODS:
            value = own.get(name)
            function = getattr(value, "__func__", value) if isinstance(value, (staticmethod, classmethod)) else value
            # Its `__module__` may be copied from the function that it wraps.
            home = function.__globals__.get("__name__") if isinstance(function, FunctionType) else None
            if function is not None and str(home).partition(".")[0] not in _LIBRARIES:
                return False
    return True
