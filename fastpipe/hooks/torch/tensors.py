"""Functions of torch that don't heed a pending tensor's methods: they get ordinary tensors.

Some access a tensor's memory without regard to its class; tracers and compilers read its class and not its pixels.
"""

from __future__ import annotations

import functools
import gc
import inspect
import sys
from collections.abc import Callable
from operator import attrgetter
from types import ModuleType
from typing import Any, TypeVar

from fastpipe.hooks.patches import Function, Patches
from fastpipe.pending import plain_of

Thing = TypeVar("Thing")
_PENDING = "fastpipe.program.pending_tensor"
_TRACERS = {"torch.export": ("export",), "torch.jit": ("trace", "trace_module")}


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces tracers in a module of torch's; other functions once there may be pending tensors.

    Args:
        module: a module with tracers, or `fastpipe.program.pending_tensor`.
        patches: holds the replacements.
    """
    for name in _TRACERS.get(module.__name__, ()):
        patches.hook(module, name, _tracing)
    if module.__name__ == "torch._dynamo.eval_frame":
        patches.hook(module, "_TorchDynamoContext.__call__", _compiling)
    if module.__name__ == "torch._dynamo.variables.builder":  # gets what a compiled function finds by itself
        patches.hook(module, "VariableBuilder.__call__", _given_ordinary)
    if module.__name__ == _PENDING:
        _replace_accesses(module, patches)


def with_ordinary_tensors(thing: Thing) -> Thing:
    """A thing whose pending tensors are made ordinary, also those in lists, tuples and dicts."""
    pending = sys.modules.get(_PENDING)
    result: Thing = thing if pending is None else pending.exchanged(thing)
    return result


def _tracing(function: Function) -> Function:
    """Wraps a tracer, before which all pending tensors become ordinary: any may be in a closure, or in a module."""

    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        pending = sys.modules.get(_PENDING)
        if pending is not None:
            for thing in gc.get_objects():
                if plain_of(type(thing)) is not type(thing):
                    pending.with_pixels(thing)
        return function(*with_ordinary_tensors(args), **with_ordinary_tensors(kwargs))

    return call


def _given_ordinary(function: Function) -> Function:
    """Wraps a function that may get tensors within lists and dicts."""

    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        return function(*with_ordinary_tensors(args), **with_ordinary_tensors(kwargs))

    return call


def _compiling(plain: Function) -> Function:
    def compiled(self: object, fn: object) -> object:
        result = plain(self, fn)
        return _given_ordinary(result) if inspect.isfunction(result) else result

    return compiled


def _replace_accesses(module: ModuleType, patches: Patches) -> None:
    import torch

    with_pixels: Function = module.with_pixels
    for path, make in _ACCESSES.items():
        with patches.piece("torch", f"torch.{path}"):
            home, _, name = path.rpartition(".")
            owner = attrgetter(home)(torch)
            patches.put(owner, name, make(getattr(owner, name), with_pixels))


def _given_pixels(plain: Function, with_pixels: Function) -> Function:
    @functools.wraps(plain)
    def call(*args: object, **kwargs: object) -> object:
        return plain(*map(with_pixels, args), **{name: with_pixels(value) for name, value in kwargs.items()})

    # torch.compile takes the plain one
    vars(call).update({"__script_if_tracing_wrapper": True, "__original_fn": plain})
    return call


def _given_pixels_by_class(plain: Function, with_pixels: Function) -> object:
    return staticmethod(_given_pixels(plain, with_pixels))


class _Data:
    """``Tensor.data``, to which another tensor may be assigned."""

    def __init__(self, plain: Any, with_pixels: Function) -> None:
        self._plain = plain
        self._with_pixels = with_pixels
        self.__doc__ = plain.__doc__

    def __get__(self, tensor: object, kind: type | None = None) -> object:
        return self._plain.__get__(tensor, kind)  # on the class, torch's own descriptor, by which others identify it

    def __set__(self, tensor: object, value: object) -> None:
        self._plain.__set__(tensor, self._with_pixels(value))

    def __delete__(self, tensor: object) -> None:
        self._plain.__delete__(tensor)


_ACCESSES: dict[str, Callable[[Any, Function], object]] = {
    "Tensor.__new__": _given_pixels_by_class,
    "Tensor._make_subclass": _given_pixels_by_class,
    "Tensor.data": _Data,
    "nn.Module.register_buffer": _given_pixels,
    "nn.Parameter.__new__": _given_pixels_by_class,
    "utils.dlpack.to_dlpack": _given_pixels,
    "utils.swap_tensors": _given_pixels,
}
"""Makes the replacement for what accesses a tensor's memory, by its name in ``torch``."""
