"""Replaces ``torchvision.io.decode_image`` and similar: see `fastpipe.hooks.torchvision.tensor_files`."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

from fastpipe.hooks.faster_function import counted
from fastpipe.hooks.patches import Function, Patches
from fastpipe.hooks.torchvision.pending_tensors import record_functions

if TYPE_CHECKING:
    from fastpipe.hooks.torchvision.tensor_files import TensorFiles


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces ``decode_image``, which ``read_image`` calls, and ``decode_jpeg``; has the report count the others."""
    for name in ("decode_png", "decode_webp", "decode_gif", "decode_avif", "decode_heic"):
        if hasattr(module.image, name) and hasattr(module, name):
            patches.wrap(module.image, name, counted(f"torchvision.io.{name}", "decode_image is accelerated, not this"))
            patches.put(module, name, getattr(module.image, name))
    for name in ("decode_image", "decode_jpeg"):
        with patches.piece("torchvision", f"torchvision.io.{name}"):
            patches.wrap(module.image, name, _replacing(name, patches), _restoring)
            patches.put(module, name, getattr(module.image, name))


def _replacing(name: str, patches: Patches) -> Callable[[Function], Function]:
    def make(plain: Function) -> Function:
        files: TensorFiles | None = None

        def decode(*args: object, **kwargs: object) -> object:
            nonlocal files
            if files is None:
                from fastpipe.hooks.torchvision.tensor_files import TensorFiles

                files = TensorFiles(name, plain)
            return files.open(args, kwargs, is_recorded=record_functions(patches))

        return decode

    return make


def _restoring(plain: Function) -> Function:
    """A decoder of torchvision's that is given the JPEGs of packed images."""

    def decode(*args: object, **kwargs: object) -> object:
        from fastpipe.hooks.torchvision.tensor_files import restored

        if args:
            args = restored(args[0]), *args[1:]
        elif "input" in kwargs:
            kwargs["input"] = restored(kwargs["input"])
        return plain(*args, **kwargs)

    return decode
