"""Callables that only turn an image to RGB, such as ``lambda image: image.convert("RGB")``, seen through.

A dataset's images are RGB. So these do nothing, which is found out by calling them with an image that has no pixels:
they have to give that very image. Only what can change nothing else is called: a function, or a class's ``__call__`` or
``forward``, that names nothing but an image's ``convert`` and ``mode``, Pillow, and its own attributes.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from torch.nn import Module

from fastpipe.transforms.sized_image import SizedImage, Untraceable
from fastpipe.types import Generators, ImageShape, Step

_ATTRIBUTES = frozenset({"Image", "convert", "mode"})
_SHAPES = ImageShape(3, 5), ImageShape(1, 1)


class ToRgb:
    """Draws for a callable that leaves an RGB image as it is: no step; for any other image an `Untraceable`."""

    _draws_from_python = False
    _of_any_library = True
    _may_want_pixels = True
    note = "leaves an RGB image as it is"

    def __init__(self, original: Any, function: FunctionType) -> None:
        self.original = original
        self._function = function

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        if not _keeps(self.original, self._function, shape):
            raise Untraceable("this function changes the image")
        return ()

    def _can_draw(self) -> bool:
        own = getattr(self.original, "__dict__", {})
        hooks = (own.get(name) for name in ("_forward_hooks", "_forward_pre_hooks"))
        return not any(hooks) and "forward" not in own


def find_to_rgb(transform: Any) -> ToRgb | None:
    """The adapter of a callable that only turns an image to RGB; None for any other object."""
    function = _function_of(transform)
    if function is None or not _is_harmless(function.__code__):
        return None
    try:
        if not set(_other_names(function, transform)) and all(_keeps(transform, function, one) for one in _SHAPES):
            return ToRgb(transform, function)
    except Exception:
        return None
    return None


def _function_of(transform: Any) -> FunctionType | None:
    """The function that is run when an object is called, if it is Python's."""
    if isinstance(transform, FunctionType):
        return transform
    kind = type(transform)
    if kind.__name__ == "Lambda" and kind.__module__ in _LAMBDAS:
        found = vars(transform).get("lambd")
    else:
        found = getattr(kind, "forward" if isinstance(transform, Module) else "__call__", None)
    return found if isinstance(found, FunctionType) else None


_LAMBDAS = ("fastpipe.transforms.compose", "torchvision.transforms.transforms")


@lru_cache(maxsize=512)
def _is_harmless(code: CodeType) -> bool:
    """Whether a function's code stores nothing, makes nothing and imports nothing."""
    if code.co_freevars or code.co_cellvars or code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE):
        return False
    names = (instruction.opname for instruction in dis.get_instructions(code))
    return not any(name.startswith(_STORING) and not name.startswith("STORE_FAST") for name in names)


_STORING = ("STORE_", "DELETE_", "IMPORT_", "MAKE_FUNCTION", "LOAD_BUILD_CLASS", "BUILD_", "LIST_", "SETUP_WITH")


def _other_names(function: FunctionType, transform: Any) -> Iterator[str]:
    """Names in a function's body that are neither an image's, nor Pillow's, nor of the object's own values."""
    own = {} if transform is function else getattr(transform, "__dict__", {})
    for name in function.__code__.co_names:
        if name in function.__globals__:
            value = function.__globals__[name]
            home = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None)
            if isinstance(value, (str, bool)) or str(home).partition(".")[0] == "PIL":
                continue
            yield name
        elif name not in _ATTRIBUTES and name != "isinstance" and not isinstance(own.get(name), (str, bool)):
            yield name


def _keeps(transform: Any, function: FunctionType, shape: ImageShape) -> bool:
    """Whether a call gives the very image that it gets."""
    image = SizedImage(shape)
    takes_image = function is transform or function is getattr(transform, "__dict__", {}).get("lambd")
    return (function(image) if takes_image else function(transform, image)) is image
