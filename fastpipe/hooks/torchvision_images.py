"""torchvision's functions on Pillow images, v1's and those that v2 holds, recorded on images without pixels."""

from __future__ import annotations

import sys
from functools import partial
from types import ModuleType
from typing import Any

from fastpipe.hooks.patches import Function, Patches
from fastpipe.hooks.pillow import make_from_files, record

_NAMES = {
    "torchvision.transforms._functional_pil": ("adjust_hue", "pad", "to_grayscale"),
    "torchvision.transforms.functional": ("to_tensor", "pil_to_tensor"),
}
"""Functions that look at pixels; the others call Pillow's images, ``ImageEnhance`` and ``ImageOps``."""


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces functions of a module, also where other modules of torchvision's have taken them from it."""
    for name in _NAMES[module.__name__]:
        plain = getattr(module, name)
        (make_from_files if name.endswith("to_tensor") else record)(module, name, patches, "functional_pil")
        ours = getattr(module, name)
        _exchange(plain, ours)
        patches.at_undo(partial(_exchange, ours, plain))


def _exchange(old: Function, new: Function) -> None:
    """Puts one function in the place of another, wherever torchvision's transforms hold that."""
    import PIL.Image

    for name, module in [*sys.modules.items()]:
        if name.startswith("torchvision.transforms."):
            for attribute, value in [*vars(module).items()]:
                if value is old:
                    setattr(module, attribute, new)
    registry: Any = getattr(sys.modules.get("torchvision.transforms.v2.functional._utils"), "_KERNEL_REGISTRY", {})
    for kernels in registry.values():
        if kernels.get(PIL.Image.Image) is old:
            kernels[PIL.Image.Image] = new
