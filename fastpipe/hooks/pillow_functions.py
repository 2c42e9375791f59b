"""Pillow's ``ImageEnhance`` and ``ImageOps``, recorded on images without pixels."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from fastpipe.hooks.patches import Function, Patches
from fastpipe.hooks.recording import replace_by_recording, try_ours
from fastpipe.pending import is_pending

if TYPE_CHECKING:
    from PIL import Image
    from PIL.ImageEnhance import Brightness, Contrast


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces functions that read pixels, and the construction of degenerate images (``enhance`` is `Image.blend`)."""
    if module.__name__ == "PIL.ImageEnhance":
        _replace_degenerate(module.Brightness, "black", patches)
        _replace_degenerate(module.Contrast, "flat", patches)
    else:
        for name in ("autocontrast", "equalize", "expand", "pad"):
            replace_by_recording(module, name, patches)


def _replace_degenerate(kind: type[Brightness | Contrast], name: str, patches: Patches) -> None:
    def make(plain: Function) -> Function:
        def __init__(self: Brightness | Contrast, image: Image.Image) -> None:
            degenerate = None
            if is_pending(image):
                from fastpipe.pillow import functions

                degenerate = try_ours(f"PIL.ImageEnhance.{kind.__name__}", getattr(functions, name), image)
            if degenerate is None:
                plain(self, image)
            else:
                self.image, self.degenerate = image, degenerate

        return __init__

    patches.wrap(kind, "__init__", make)
