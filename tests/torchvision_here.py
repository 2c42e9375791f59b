"""torchvision, importable beside a CPU-only torch.

The torchvision wheel on the package index is a CUDA build: beside a CPU torch its extension doesn't load and
``import torchvision`` dies, unless it is done as ``fastpipe verify`` does it: then every Python part works (transforms,
datasets), not ``torchvision.io`` or ``.ops``.

``from torchvision_here import torchvision`` in a test or benchmark.
"""

from __future__ import annotations

import importlib
from typing import Any

from fastpipe.tools.import_torchvision import import_torchvision

torchvision = import_torchvision()


def module(name: str) -> Any:
    """A module of torchvision's, or one that imports it."""
    return importlib.import_module(name)
