"""Pillow's main module: ``blend`` of images without pixels, recorded; and methods of loaded images, by the core."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fastpipe.hooks.functions import FasterFunction
from fastpipe.hooks.patches import Function, Patches
from fastpipe.hooks.recording import our_function, replace_by_recording

if TYPE_CHECKING:
    from PIL import Image


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces functions of Pillow's main module that take images; `pillow_openers` hooks the file openers."""
    replace_by_recording(module, "blend", patches)
    for name in ("resize", "transform", "filter"):
        do_on_loaded_images(module.Image, name, patches, "PIL.Image.Image")


def do_on_loaded_images(owner: object, name: str, patches: Patches, shown: str) -> None:
    """Replaces a method or a function, for images that have their pixels, by the one in `fastpipe.pillow.loaded_image`.

    Args:
        owner: Pillow's image class, or a module.
        name: the name of the method or function, whose first argument is the image.
        patches: holds the replacement.
        shown: the owner's name in the report.
    """
    patches.wrap(owner, name, lambda plain: _OnLoadedImages(f"{shown}.{name}", name, plain))


class _OnLoadedImages(FasterFunction):
    """A function of an image, run by the core on images that have their pixels.

    Images of other classes than Pillow's main one are left to the library, except JPEG and PNG files.

    Args:
        shown: the function's name in the report.
        name: its name in `fastpipe.pillow.loaded_image`.
        plain: the library's own.
    """

    def __init__(self, shown: str, name: str, plain: Function) -> None:
        super().__init__(shown, plain)
        self._kind: type[Image.Image] = sys.modules["PIL.Image"].Image
        self._own_name = name
        self._ours: Function | None = None

    def make(self, *args: object, **kwargs: object) -> object:
        image: Any = args[0] if args else None
        if not self._has_pixels(image) or image.mode not in ("RGB", "L"):
            return None
        if self._ours is None:
            if "torch" not in sys.modules:
                return None
            self._ours = our_function("loaded_image", self._own_name, self._plain)
        return self._ours(*args, **kwargs)

    def _has_pixels(self, image: Any) -> bool:
        if type(image) is self._kind:
            return True
        return hasattr(type(image), "_fastpipe_lazy") and image._im is not None and not image.tile
