"""torchvision's ``transforms.Compose``, planned when it is called with an image, or an array of one."""

from __future__ import annotations

from functools import partial
from types import ModuleType

from fastpipe.hooks.compose import CallsByObject, Composed
from fastpipe.hooks.kinds import is_array, is_pillow_image
from fastpipe.hooks.originals import is_librarys
from fastpipe.hooks.patches import Function, Patches
from fastpipe.hooks.pending_tensors import record_functions


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces ``Compose.__call__``."""
    calls = CallsByObject(partial(record_functions, patches))

    def make(plain: Function) -> Function:
        def call(self: Composed, *args: object, **kwargs: object) -> object:
            if len(args) != 1 or kwargs or not (is_pillow_image(args[0]) or _is_array_of_bytes(args[0])):
                return plain(self, *args, **kwargs)
            return calls.of(self).on_image(self, args[0], plain)

        return call if is_librarys(plain) else plain  # another library's replacement stays

    patches.wrap(module.Compose, "__call__", make)


def _is_array_of_bytes(image: object) -> bool:
    """True for a uint8 array ``(H, W, C)``, which ``ToPILImage`` and ``ToTensor`` take."""
    if not is_array(image):
        return False
    import numpy as np

    return type(image) is np.ndarray and image.ndim == 3 and image.dtype == np.uint8
