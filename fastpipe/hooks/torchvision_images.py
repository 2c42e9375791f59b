"""torchvision's functions on Pillow images, v1's and those that v2 holds, recorded on images without pixels."""

from __future__ import annotations

import sys
from collections.abc import Sequence
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
    pairs = []
    for name in _NAMES[module.__name__]:
        plain = getattr(module, name)
        (make_from_files if name.endswith("to_tensor") else record)(module, name, patches, "functional_pil")
        pairs.append((plain, getattr(module, name)))
    _exchange(pairs)
    patches.at_undo(partial(_exchange, [(ours, plain) for plain, ours in pairs]))


def _exchange(pairs: Sequence[tuple[Function, Function]]) -> None:
    """Puts the second function of each pair in the first one's place, wherever torchvision's transforms hold that."""
    import PIL.Image

    new = {id(first): second for first, second in pairs}
    for name, module in [*sys.modules.items()]:
        if name.startswith("torchvision.transforms."):
            for attribute, value in [*vars(module).items()]:
                if id(value) in new:
                    setattr(module, attribute, new[id(value)])
    registry: Any = getattr(sys.modules.get("torchvision.transforms.v2.functional._utils"), "_KERNEL_REGISTRY", {})
    for kernels in registry.values():
        kernel = kernels.get(PIL.Image.Image)
        if id(kernel) in new:
            kernels[PIL.Image.Image] = new[id(kernel)]
