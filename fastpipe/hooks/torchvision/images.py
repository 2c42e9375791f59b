"""torchvision's functions on PIL images, v1's and those that v2 uses, recorded on images without pixels."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

from fastpipe.hooks.faster_function import FasterFunction
from fastpipe.hooks.patches import Function, Patches
from fastpipe.hooks.pillow.image_functions import ImageFunction, ToTensor
from fastpipe.pending import is_pending

if TYPE_CHECKING:
    import torch
    from PIL import Image

    from fastpipe.program.pending_work import Account

_NAMES = {
    "torchvision.transforms._functional_pil": ("adjust_hue", "pad", "to_grayscale"),
    "torchvision.transforms.functional": ("gaussian_blur", "to_tensor", "pil_to_tensor"),
    "torchvision.transforms.v2.functional._color": ("_permute_channels_image_pil",),
    "torchvision.transforms.v2.functional._misc": ("_gaussian_blur_image_pil",),
}
"""Functions that read pixels; all others call methods of Pillow's images, ``ImageEnhance`` and ``ImageOps``."""
_GAINING = frozenset({"adjust_hue", "gaussian_blur", "_gaussian_blur_image_pil"})
"""Functions that are faster in the core on images that have their pixels, too."""


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces functions of a module, also in other modules of torchvision that have imported them."""
    pairs = []
    for name in _NAMES[module.__name__]:
        shown = f"{module.__name__}.{name}"
        plain = getattr(module, name, None)
        if name.endswith("to_tensor"):
            patches.hook(module, name, partial(ToTensor, shown, patches))
        else:
            gains = _is_colored if name in _GAINING else None
            patches.hook(module, name, partial(ImageFunction, shown, recorded="functional_pil", gains=gains))
        if plain is not None:
            pairs.append((plain, getattr(module, name)))
    _exchange(pairs)
    patches.at_undo(partial(_exchange, [(ours, plain) for plain, ours in pairs]))
    for kind, name in _OF_TENSORS if module.__name__ == "torchvision.transforms.functional" else ():
        patches.hook(module, name, partial(kind, f"{module.__name__}.{name}"))


def _is_colored(img: Image.Image, *_: object, **__: object) -> bool:
    return img.mode == "RGB"


class _TensorFunction(FasterFunction):
    """A function of torchvision's that is recorded on pending tensors."""

    def takes(self, *args: object, **kwargs: object) -> bool:
        return bool(args) and is_pending(args[0])

    def after(self, *given: object) -> Callable[[Account], Account]:
        """A function that makes the account of the library's result from the account of its input."""
        return lambda account: account.after(lambda image: self._plain(image, *given))


class _ConvertImageDtype(_TensorFunction):
    def make(self, image: object, dtype: object = None) -> torch.Tensor | None:
        import torch

        from fastpipe.pillow.image_tensors import converted

        return converted(image, torch.float32 if dtype is None else dtype, self.after(dtype or torch.float32))


class _Normalize(_TensorFunction):
    def make(self, tensor: object, mean: object, std: object, inplace: object = False) -> torch.Tensor | None:
        from fastpipe.pillow.image_tensors import normalized

        return None if inplace else normalized(tensor, mean, std, self.after(mean, std))


_OF_TENSORS = ((_ConvertImageDtype, "convert_image_dtype"), (_Normalize, "normalize"))


def _exchange(pairs: Sequence[tuple[Function, Function]]) -> None:
    """Replaces the first function of each pair by the second, in all modules of torchvision's transforms."""
    import PIL.Image

    new = {id(first): second for first, second in pairs}
    for module in [sys.modules[name] for name in [*sys.modules] if name.startswith("torchvision.transforms.")]:
        for attribute, value in [*vars(module).items()]:
            if id(value) in new:
                setattr(module, attribute, new[id(value)])
    v2 = sys.modules.get("torchvision.transforms.v2.functional._utils")
    for kernels in getattr(v2, "_KERNEL_REGISTRY", {}).values():
        kernel = kernels.get(PIL.Image.Image)
        if id(kernel) in new:
            kernels[PIL.Image.Image] = new[id(kernel)]
