"""torchvision's ``transforms.Compose``, planned when it is called with an image, or an array of one."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fastpipe.hooks.compose import CallsByObject
from fastpipe.hooks.originals import is_librarys
from fastpipe.hooks.patches import Function, Patches
from fastpipe.hooks.pending_tensors import FunctionsOnTensors

if TYPE_CHECKING:
    from PIL import Image
    from typing_extensions import TypeIs


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces ``Compose.__call__``."""
    calls = CallsByObject(FunctionsOnTensors(patches).record)

    def make(plain: Function) -> Function:
        def call(self: object, *args: object, **kwargs: object) -> object:
            if len(args) != 1 or kwargs or not (is_pillow_image(args[0]) or _is_array_of_bytes(args[0])):
                return plain(self, *args, **kwargs)
            return calls.of(self).on_image(self, args[0], plain)

        return call if is_librarys(plain) else plain  # another library's replacement stays

    patches.wrap(module.Compose, "__call__", make)


def _is_array_of_bytes(image: Any) -> bool:
    """True for a uint8 array ``(H, W, C)``, which ``ToPILImage`` and ``ToTensor`` take."""
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and type(image) is numpy.ndarray and image.ndim == 3 and image.dtype == numpy.uint8


def is_pillow_image(image: object) -> TypeIs[Image.Image]:
    """True for an image of Pillow's; imports nothing."""
    pillow: Any = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(image, pillow.Image)
