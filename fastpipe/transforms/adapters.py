"""Transforms of other libraries, recognised by their class, and planned as fastpipe's own are.

A recipe (a module of `fastpipe.interop.transforms`, one a library) has a table of a library's classes. It's imported
once such an object is there: so nothing here imports a library that the user hasn't imported.
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
"""The recipe for the classes of a module and of the modules in it; the longest name decides."""

NEUTRAL_NAMES = frozenset(
    {"__init__", "__repr__", "__str__", "extra_repr", *vars(type("Empty", (), {}))}
    | {"__annotate__", "__annotate_func__", "__annotations__", "__annotations_cache__", "__classdictcell__"}
    | {"__orig_bases__", "__parameters__", "__qualname__", "__slotnames__", "__type_params__"}
)
"""Names that a subclass may have and do what its base does: some that the language and ``copy`` add among them."""

Adapt = Callable[[Any], Any]


class RecipeModule(Protocol):
    """The functions that a recipe's module has."""

    def find_adapt(self, kind: type) -> Adapt | None:
        """Makes adapters of a class's objects; None for a class that the recipe doesn't know."""

    def why_not(self, kind: type) -> str:
        """The reason why a class isn't planned; empty for none."""


def planned(transform: object) -> Any:
    """The object that draws for a transform.

    For one that a recipe knows, an adapter: an object of a class of fastpipe's that shares its attributes, so that
    whatever is changed later is seen. For any other the transform itself.
    """
    transform = seen_through(transform)
    kind: object = type(transform)
    adapt = find_adapt(kind)
    return transform if adapt is None else adapt(transform)


def recipe_of(kind: type) -> RecipeModule | None:
    """The recipe, a module, that is asked about a class: that of the first of its bases which has one; or None."""
    for base in kind.__mro__:
        module = base.__module__
        while module:
            if module in RECIPES:
                return cast(RecipeModule, importlib.import_module(RECIPES[module]))
            module = module.rpartition(".")[0]
    return None


def why_not(transform: object) -> str:
    """The reason why a recipe doesn't plan an object of its library; empty for objects of no such library."""
    recipe = recipe_of(type(transform))
    return "" if recipe is None else recipe.why_not(type(transform))


def drawn_by_itself(transform: object) -> tuple[object, ...]:
    """The members of another library's transform that its own code draws before an image is decoded."""
    find = getattr(recipe_of(type(transform)), "planned_members", None)
    return () if find is None else tuple(find(transform))


@lru_cache(maxsize=512)
def find_adapt(kind: type) -> Adapt | None:
    """Makes adapters of a class's objects; None for a class that no recipe knows."""
    recipe = recipe_of(kind)
    return None if recipe is None else recipe.find_adapt(kind)
