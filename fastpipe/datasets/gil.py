"""Finds the user's Python code in the way to a dataset's samples: it holds the interpreter's lock."""

from __future__ import annotations

import builtins
from typing import Any


def gil_bound_part(dataset: Any, base: type[Any]) -> str:
    """The first part that is Python code, which may draw and holds the interpreter's lock; empty where none is.

    The base is the class whose ways to samples are fastpipe's own.
    """
    kind = type(dataset)
    if kind.__getitem__ is not base.__getitem__ or kind.__getitems__ is not base.__getitems__:
        return f"the dataset's own way to samples ({kind.__name__})"
    if not dataset.plans:
        return "the dataset's loader"
    if dataset.pipeline.unplanned:
        return f"the transform {_name(dataset.pipeline.unplanned[0])}"
    if dataset.target_transform is not None and not _draws_nothing(dataset.target_transform):
        return f"the target_transform {_name(dataset.target_transform)}"
    draws = callable(dataset.on_error) and not getattr(dataset.on_error, "draws_nothing", False)
    return "the function on_error" if draws else ""


def _draws_nothing(function: object) -> bool:
    """True if a function is a builtin known to draw nothing, such as ``int``, ``abs`` or a dict's ``__getitem__``."""
    owner = getattr(function, "__self__", None)
    return function in (int, float, str, bool) or (
        type(function) is type(abs) and (owner is builtins or type(owner) in (dict, list, tuple))
    )


def _name(transform: object) -> str:
    return getattr(transform, "__name__", None) or type(transform).__name__
