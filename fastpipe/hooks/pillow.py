"""Pillow's main module: ``blend`` of images without pixels, recorded; and methods of loaded images, by the core."""

from __future__ import annotations

import sys
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

from fastpipe.hooks.functions import FasterFunction
from fastpipe.hooks.patches import Function, Patches
from fastpipe.hooks.recording import our_function, replace_by_recording

if TYPE_CHECKING:
    from PIL import Image


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces functions of Pillow's main module that take images; `pillow_openers` hooks the file openers."""
    replace_by_recording(module, "blend", patches)
    for name in ("resize", "transform", "filter"):
        patches.wrap(module.Image, name, partial(_OnLoadedImages, module.Image, name))


class _OnLoadedImages(FasterFunction):
    """A method of Pillow's images, run by the core on images that have their pixels.

    Args:
        kind: Pillow's image class; images of other classes, such as a file's, are left to Pillow.
        name: the method's name.
        plain: Pillow's own method.
    """

    def __init__(self, kind: type[Image.Image], name: str, plain: Function) -> None:
        super().__init__(f"PIL.Image.Image.{name}", plain)
        self._kind = kind
        self._method = name
        self._ours: Function | None = None

    def make(self, *args: object, **kwargs: object) -> object:
        image = args[0] if args else None
        if type(image) is not self._kind or image.mode not in ("RGB", "L"):
            return None
        if self._ours is None:
            if "torch" not in sys.modules:
                return None
            self._ours = our_function("loaded_image", self._method, self._plain)
        return self._ours(*args, **kwargs)
