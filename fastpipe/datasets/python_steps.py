"""Finds the step of making a dataset's samples that is Python code of the user's."""

from __future__ import annotations

import builtins
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Protocol

from fastpipe.datasets.bad_files import OnError
from fastpipe.plain_lookup import own_attribute
from fastpipe.transforms.pipeline import Pipeline
from fastpipe.types import Transform


class MakesSamples(Protocol):
    """The attributes of an `ImageDataset` that say how it makes its samples."""

    target_transform: Transform | None
    on_error: OnError

    @property
    def plans(self) -> bool: ...
    @property
    def pipeline(self) -> Pipeline: ...


def python_step(dataset: MakesSamples) -> str:
    """Names the first step that is Python code of the user's, of a dataset without ``__getitem__`` of its own.

    Empty if no step is.
    """
    if not dataset.plans:
        return "the dataset's loader"
    if dataset.pipeline.unplanned:
        return f"the transform {_name_of(dataset.pipeline.unplanned[0])}"
    if dataset.target_transform is not None and not _is_builtin(dataset.target_transform):
        return f"the target_transform {_name_of(dataset.target_transform)}"
    draws = callable(dataset.on_error) and not getattr(dataset.on_error, "draws_nothing", False)
    return "the function on_error" if draws else ""


def _is_builtin(function: object) -> bool:
    """True for a builtin known to draw nothing, such as ``int``, ``abs`` or a dict's ``__getitem__``."""
    if isinstance(function, BuiltinFunctionType):
        return function.__self__ is builtins or type(function.__self__) in (dict, list, tuple)
    return any(function is kind for kind in (int, float, str, bool))


def _name_of(transform: object) -> str:
    if isinstance(transform, (FunctionType, BuiltinFunctionType, MethodType)):
        return transform.__name__
    name = own_attribute(transform, "__name__")
    return name if isinstance(name, str) else type(transform).__name__
