"""Recognises other libraries' transforms by their class, and plans them as fastpipe's own.

A recipe is a module of `fastpipe.interop.transforms`, one for each library, with a table of the library's classes. It
is imported at the first object of such a class, so that nothing here imports a library that the user hasn't imported.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol, cast

from fastpipe.transforms.converted import seen_through

RECIPES = {
    "albumentations": "fastpipe.interop.transforms.albumentations",
    "fastpipe.transforms.v2": "fastpipe.interop.transforms.torchvision_v2",
    "timm.data": "fastpipe.interop.transforms.timm",
    "torchvision.transforms": "fastpipe.interop.transforms.torchvision_v1",
    "torchvision.transforms.v2": "fastpipe.interop.transforms.torchvision_v2",
}
"""The recipe for the classes of a module and its submodules; the longest matching name counts."""

NEUTRAL_NAMES = frozenset(
    {"__init__", "__repr__", "__str__", "extra_repr", *vars(type("Empty", (), {}))}
    | {"__annotate__", "__annotate_func__", "__annotations__", "__annotations_cache__", "__classdictcell__"}
    | {"__orig_bases__", "__parameters__", "__qualname__", "__slotnames__", "__type_params__"}
)
"""Attributes that a subclass may define and still do what its base does, with those that Python and ``copy`` add."""

Adapt = Callable[[Any], Any]


class RecipeModule(Protocol):
    """The functions of a recipe's module."""

    def find_adapt(self, kind: type) -> Adapt | None:
        """Returns the function that makes adapters for a class's objects; None for an unknown class."""

    def why_not(self, kind: type) -> str:
        """Why a class isn't planned; empty if there is no reason."""


def planned(transform: object) -> Any:
    """The object that draws for a transform.

    For a transform that a recipe knows, an adapter: an object of one of fastpipe's classes that shares the transform's
    attributes, so that later changes are seen. For any other transform, the transform itself.
    """
    transform = seen_through(transform)
    kind: object = type(transform)
    adapt = find_adapt(kind)
    return transform if adapt is None else adapt(transform)


def recipe_of(kind: type) -> RecipeModule | None:
    """The recipe module for a class, found by the first of its bases that has one; None if none has."""
    for base in kind.__mro__:
        module = base.__module__
        while module:
            if module in RECIPES:
                return cast(RecipeModule, importlib.import_module(RECIPES[module]))
            module = module.rpartition(".")[0]
    return None


def why_not(transform: object) -> str:
    """Why a recipe doesn't plan an object of its library; empty for objects without a recipe."""
    recipe = recipe_of(type(transform))
    return "" if recipe is None else recipe.why_not(type(transform))


def drawn_by_itself(transform: object) -> tuple[object, ...]:
    """The members of another library's transform that the library itself draws before an image is decoded."""
    find = getattr(recipe_of(type(transform)), "planned_members", None)
    return () if find is None else tuple(find(transform))


@lru_cache(maxsize=512)
def find_adapt(kind: type) -> Adapt | None:
    """Returns the function that makes adapters for a class's objects; None for a class that no recipe knows."""
    recipe = recipe_of(kind)
    return None if recipe is None else recipe.find_adapt(kind)
