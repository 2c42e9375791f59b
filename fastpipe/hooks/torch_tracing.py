"""torch's tracers and compilers, which read a tensor's class and not its pixels: they get ordinary tensors."""

from __future__ import annotations

import functools
import inspect
import sys
from types import ModuleType

from fastpipe.hooks.patches import Function, Patches

_TRACERS = {"torch.export": ("export",), "torch.jit": ("trace", "trace_module")}


def hook(module: ModuleType, patches: Patches) -> None:
    """Makes torch's tracers, and functions from ``torch.compile``, get ordinary tensors."""
    for name in _TRACERS.get(module.__name__, ()):
        patches.wrap(module, name, _with_pixels)
    if module.__name__ == "torch._dynamo.eval_frame":
        patches.wrap(module._TorchDynamoContext, "__call__", _compiling)


def _with_pixels(function: Function) -> Function:
    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        pending = sys.modules.get("fastpipe.program.pending_tensor")
        if pending is not None:
            args, kwargs = pending.exchanged(args), pending.exchanged(kwargs)
        return function(*args, **kwargs)

    return call


def _compiling(plain: Function) -> Function:
    def compiled(self: object, function: object) -> object:
        made = plain(self, function)
        return _with_pixels(made) if inspect.isfunction(made) else made

    return compiled
