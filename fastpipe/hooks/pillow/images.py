"""Pillow's functions and methods of images: recorded on images without pixels, or run by the core on loaded ones."""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fastpipe.hooks.patches import Function, Patches
from fastpipe.hooks.pillow.image_functions import ImageFunction
from fastpipe.hooks.pillow.openers import count_others

if TYPE_CHECKING:
    from PIL import Image
    from PIL.ImageEnhance import Brightness, Contrast
    from typing_extensions import TypeIs

_RECORDED = {"PIL.Image": ("blend",), "PIL.ImageOps": ("autocontrast", "equalize", "expand", "pad")}
"""Functions that read pixels, by their module. (``enhance`` calls ``blend``.)"""


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces what a module has; `fastpipe.hooks.pillow.openers` hooks the file openers."""
    for name in _RECORDED.get(module.__name__, ()):
        patches.hook(module, name, partial(ImageFunction, f"{module.__name__}.{name}", recorded="functions"))
    if module.__name__ == "PIL.Image":
        with patches.piece("PIL", "the count of other formats' files"):
            count_others(module, patches)
        for method in (_resize, _transform, _filter):
            name = method.__name__.removeprefix("_")
            patches.hook(module, f"Image.{name}", partial(ImageFunction, f"PIL.Image.Image.{name}", gains=method))
    for kind, name in (("Brightness", "black"), ("Contrast", "flat")) if module.__name__ == "PIL.ImageEnhance" else ():
        patches.hook(module, f"{kind}.__init__", partial(_with_degenerate, f"PIL.ImageEnhance.{kind}", name))


# Whether the core can be faster than Pillow, by the arguments of an image's method. `Operation.least_pixels` is more
# precise, and takes as long to be asked as Pillow takes for an image of 32×32.


def _resize(image: Image.Image, size: object = None, resample: object = None, *_: object, **__: object) -> bool:
    width, height = size if _is_size(size) else (0, 0)
    if resample == 0:  # to the nearest pixel
        return width * height >= (40_000 if image.mode == "RGB" else 16_000)
    return max(image.width * image.height, width * height) >= 3000


def _is_size(size: object) -> TypeIs[tuple[int, int]]:
    return isinstance(size, (tuple, list)) and [*map(type, size)] == [int, int]


def _transform(
    image: Image.Image,
    size: object = None,
    method: object = None,
    data: object = None,
    resample: object = 0,
    *_: object,
    **__: object,
) -> bool:
    return image.mode == "RGB" and resample != 0 and image.width * image.height >= 2000


def _filter(image: Image.Image, *_: object, **__: object) -> bool:
    return image.width * image.height >= 1000


def _with_degenerate(shown: str, ours: str, plain: Function) -> Function:
    """Wraps the construction of an enhancement, which makes the image that ``enhance`` blends with the given one."""
    recorded = ImageFunction(shown, lambda image: None, "functions", ours=ours)

    def __init__(self: Brightness | Contrast, image: Image.Image) -> None:
        degenerate: Any = recorded(image)
        if degenerate is None:
            plain(self, image)
        else:
            self.image, self.degenerate = image, degenerate

    return __init__
