"""Pillow's ``ImageEnhance`` and ``ImageOps``, recorded on images without pixels."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from fastpipe.hooks.patches import Function, Patches
from fastpipe.hooks.pillow import may_be_pending, replace_by_recording, try_ours


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces functions that read pixels, and the construction of degenerate images (``enhance`` is `Image.blend`)."""
    if module.__name__ == "PIL.ImageEnhance":
        _replace_degenerate(module.Brightness, "black", patches)
        _replace_degenerate(module.Contrast, "flat", patches)
    else:
        for name in ("autocontrast", "equalize", "expand", "pad"):
            replace_by_recording(module, name, patches)


def _replace_degenerate(kind: type, name: str, patches: Patches) -> None:
    def make(plain: Function) -> Function:
        def __init__(self: Any, image: Any) -> None:
            degenerate = None
            if may_be_pending(image):
                from fastpipe.pillow import functions

                degenerate = try_ours(f"PIL.ImageEnhance.{kind.__name__}", getattr(functions, name), image)
            if degenerate is None:
                plain(self, image)
            else:
                self.image, self.degenerate = image, degenerate

        return __init__

    patches.wrap(kind, "__init__", make)
