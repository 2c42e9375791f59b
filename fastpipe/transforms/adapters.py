"""Recognises other libraries' transforms by their class, and plans them as fastpipe's own.

A recipe is a module of `fastpipe.interop`, one for each library, with a table of the library's classes. It
is imported at the first object of such a class, so that nothing here imports a library that the user hasn't imported.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, cast

from fastpipe.foreign_code import outcome_of
from fastpipe.plain_lookup import (
    ByClass,
    bases_of,
    modules_of,
    own_attributes,
)
from fastpipe.plain_way import raise_interruption
from fastpipe.transforms.converted import seen_through
from fastpipe.transforms.replaced_methods import is_as_its_library_has_it

RECIPES = {
    "albumentations": "fastpipe.interop.albumentations.recipe",
    "fastpipe.transforms.v2": "fastpipe.interop.transforms.torchvision_v2",
    "timm.data": "fastpipe.interop.transforms.timm",
    "torchvision.transforms": "fastpipe.interop.transforms.torchvision_v1",
    "torchvision.transforms._presets": "fastpipe.interop.transforms.torchvision_presets",
    "torchvision.transforms.autoaugment": "fastpipe.interop.transforms.torchvision_autoaugment",
    "torchvision.transforms.v2": "fastpipe.interop.transforms.torchvision_v2",
}
"""The recipe for the classes of a module and its submodules; the longest matching name counts."""

NEUTRAL_NAMES = frozenset(
    {"__init__", "__repr__", "__str__", "extra_repr", *vars(type("Empty", (), {}))}
    | {"__annotate__", "__annotate_func__", "__annotations__", "__annotations_cache__", "__classdictcell__"}
    | {"__firstlineno__", "__orig_bases__", "__parameters__", "__qualname__", "__slotnames__"}
    | {"__static_attributes__", "__type_params__"}
)
"""Attributes that a subclass may define and still do what its base does, with those that Python and ``copy`` add."""

Adapt = Callable[[Any], Any]
Found = TypeVar("Found")


class RecipeModule(Protocol):
    """The contents of a recipe's module."""

    @property
    def TABLE(self) -> Mapping[type, type]:
        """The class that draws for each class of the library that the recipe knows."""

    def why_not(self, kind: type) -> str:
        """Why a class isn't planned; empty if there is no reason."""


def planned(transform: object) -> Any:
    """The object that draws for a transform.

    For a transform that a recipe knows, an adapter: an object of one of fastpipe's classes that shares the transform's
    attributes, so that later changes are seen. For any other transform, the transform itself.
    """
    transform = seen_through(transform)
    kind = type(transform)
    adapt = find_adapt(kind)
    return transform if adapt is None else adapt(transform)


def recipe_of(kind: type) -> RecipeModule | None:
    """The recipe module for a class, found by the first of its bases that has one; None if none has."""
    for _, module in modules_of(kind):
        name = look_up(RECIPES, module)
        if name is not None:
            return _imported(name, module.partition(".")[0])
    return None


@cache
def _imported(name: str, library: str) -> RecipeModule:
    """A recipe's module; an empty recipe if it fails with this version of its library, so that it's tried once."""
    module = outcome_of(lambda: importlib.import_module(name))
    if isinstance(module, Exception):  # of whatever kind: the library plans nothing for us, and works by itself
        raise_interruption(module)
        return _NoRecipe(f"fastpipe doesn't know this version of {library} ({type(module).__name__}: {module})")
    return cast(RecipeModule, module)


class _NoRecipe:
    """The recipe of a library in which fastpipe's recipe doesn't find its way.

    Args:
        why: the reason.
    """

    TABLE: Mapping[type, type] = MappingProxyType({})

    def __init__(self, why: str) -> None:
        self._why = why

    def why_not(self, kind: type) -> str:
        return self._why


def look_up(table: Mapping[str, Found], module: str) -> Found | None:
    """The table's entry for a module, or for the nearest package around it."""
    while module and module not in table:
        module = module.rpartition(".")[0]
    return table.get(module)


def why_not(transform: object) -> str:
    """Why a recipe doesn't plan an object of its library; empty for objects without a recipe."""
    recipe = recipe_of(type(transform))
    return "" if recipe is None else recipe.why_not(type(transform))


def drawn_by_itself(transform: object) -> tuple[object, ...]:
    """The members of another library's transform that the library itself draws before an image is decoded."""
    find = getattr(recipe_of(type(transform)), "planned_members", None)
    return () if find is None else tuple(find(transform))


@ByClass
def find_adapt(kind: type) -> Adapt | None:
    """Returns the function that makes adapters for a class's objects; None for a class that no recipe knows."""
    recipe = recipe_of(kind) if is_as_its_library_has_it(kind) else None
    base = None if recipe is None else _known_base(kind, recipe.TABLE)
    return None if recipe is None or base is None else _adapter(recipe.TABLE[base])


def _known_base(kind: type, table: Mapping[type, object]) -> type | None:
    """The class of a table that equals a class, or from which it derives without a change of its work; else None.

    A subclass may define a constructor, a repr, and methods with new names.
    """
    lineage = bases_of(kind)
    # By identity: a user's metaclass may have no hash.
    place = next((number for number, base in enumerate(lineage) if any(base is kind for kind in table)), None)
    if place is None:
        return None
    base = lineage[place]
    for between in lineage[:place]:
        for name, value in own_attributes(between).items():
            if name in NEUTRAL_NAMES:
                continue
            plain = inspect.isfunction(inspect.unwrap(value) if callable(value) else value)
            if hasattr(base, name) or not plain:
                return None
    return base


def _adapter(kind: type) -> Adapt:
    """Returns a function that makes an adapter of that class for an object, whose attributes it shares."""
    new, set_ = object.__new__, object.__setattr__

    def adapt(original: object) -> object:
        adapted: object = new(kind)
        set_(adapted, "__dict__", original.__dict__)  # shared, not copied, so that changes show
        set_(adapted, "original", original)
        return adapted

    return adapt
