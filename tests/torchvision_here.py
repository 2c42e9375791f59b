"""torchvision, importable beside a CPU-only torch.

The torchvision wheel on the package index is a CUDA build: beside a CPU torch its extension doesn't load and
``import torchvision`` dies, unless it is done as ``fastpipe verify`` does it: then every Python part works (transforms,
datasets), not ``torchvision.io`` or ``.ops``.

``from torchvision_here import torchvision`` in a test or benchmark.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from types import ModuleType
from typing import Any

import torch

from fastpipe.tools.import_torchvision import import_torchvision


@contextmanager
def _without_compiler() -> Iterator[None]:
    """Keeps a CUDA build beside a CPU-only torch from importing torch's compiler, half of what its import takes.

    It asks it for one function, which only its compiled part would call. Hundreds of the tests' processes import it.
    """
    if torch.version.cuda is not None or "+" in metadata.version("torchvision") or "torch._dynamo" in sys.modules:
        yield
        return
    package, utils = ModuleType("torch._dynamo"), ModuleType("torch._dynamo.utils")
    utils.is_compile_supported = lambda device_type: False  # type: ignore[attr-defined]
    sys.modules.update({package.__name__: package, utils.__name__: utils})
    try:
        yield
    finally:
        del sys.modules[package.__name__], sys.modules[utils.__name__]


with _without_compiler():
    torchvision = import_torchvision()


def module(name: str) -> Any:
    """A module of torchvision's, or one that imports it."""
    return importlib.import_module(name)
