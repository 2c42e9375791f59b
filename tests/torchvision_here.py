"""torchvision, importable beside a CPU-only torch.

The torchvision wheel on the package index is a CUDA build: beside a CPU torch its extension doesn't load and
``import torchvision`` dies because the operator ``torchvision::nms`` has no schema. Declaring the two schemas
that are looked up at import makes every Python part work (transforms, datasets), not ``torchvision.io`` or ``.ops``.

``from torchvision_here import torchvision`` in a test or benchmark; the package itself never needs it.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import torch

_keep_alive: list[torch.library.Library] = []


def _import_torchvision() -> object:
    try:
        import torchvision
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "FRAGMENT")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _keep_alive.append(library)
        import torchvision
    return torchvision


torchvision = _import_torchvision()


def module(name: str) -> Any:
    """A module of torchvision's, or one that imports it."""
    return importlib.import_module(name)
