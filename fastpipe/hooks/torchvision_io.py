"""Replaces ``torchvision.io.decode_image`` and similar: see `fastpipe.hooks.tensor_files`."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from fastpipe.hooks.patches import Function, Patches
from fastpipe.hooks.pending_tensors import FunctionsOnTensors


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces ``decode_image``, which ``read_image`` calls, and ``decode_jpeg``."""
    for name in ("decode_image", "decode_jpeg"):
        patches.wrap(module.image, name, _replacing(name, patches))
        patches.put(module, name, getattr(module.image, name))


def _replacing(name: str, patches: Patches) -> Any:
    def make(plain: Function) -> Function:
        files: Any = None
        functions = FunctionsOnTensors(patches)

        def decode(*args: object, **kwargs: object) -> Any:
            nonlocal files
            if files is None:
                from fastpipe.hooks.tensor_files import TensorFiles

                files = TensorFiles(name, plain)
            functions.record()
            return files.open(args, kwargs)

        return decode

    return make
