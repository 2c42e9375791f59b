"""torchvision's resize of tensors that have their pixels: by the core."""

from __future__ import annotations

import sys
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING

from fastpipe.hooks.functions import FasterFunction
from fastpipe.hooks.kinds import is_tensor
from fastpipe.hooks.patches import Patches
from fastpipe.pending import is_pending

if TYPE_CHECKING:
    import torch
    from typing_extensions import TypeIs


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces v1's ``resize`` in its module, or v2's in torchvision's table of functions for tensors."""
    if hasattr(module, "resize_image"):
        _replace_in_table(module, patches)
    else:
        patches.wrap(module, "resize", partial(_Resize, f"{module.__name__}.resize"))


def _replace_in_table(module: ModuleType, patches: Patches) -> None:
    import torch
    from torchvision import tv_tensors

    table = sys.modules["torchvision.transforms.v2.functional._utils"]
    holder = SimpleNamespace(resize_image=module.resize_image)
    patches.wrap(holder, "resize_image", partial(_ResizeOfV2, f"{module.__name__}.resize_image"))
    kernels = table._KERNEL_REGISTRY[module.resize]
    patches.put_item(kernels, torch.Tensor, holder.resize_image)
    patches.put_item(kernels, tv_tensors.Image, table._kernel_tv_tensor_wrapper(holder.resize_image))


def _is_plain(image: object) -> TypeIs[torch.Tensor]:
    """True for a tensor in main memory with whose operations nothing else interferes."""
    if not is_tensor(image):
        return False
    from fastpipe.kernels.planes import is_plain

    return is_plain(image)


class _Resize(FasterFunction):
    """The antialiased, bilinear resize of v1, which computes with floats."""

    def takes(self, img: object, size: object, interpolation: object = "bilinear", antialias: object = True) -> bool:
        return interpolation == "bilinear" and antialias is True and (is_pending(img) or _is_plain(img))

    def make(
        self, img: torch.Tensor, size: list[int], interpolation: str = "bilinear", antialias: bool = True
    ) -> torch.Tensor | None:
        import torch

        from fastpipe.kernels.floats import rounding
        from fastpipe.transforms.functional.geometry import resize_tensor

        if img.dtype == torch.float64 or img.ndim not in (3, 4) or rounding() is None:
            return None
        return resize_tensor(img, size, interpolation, antialias)


class _ResizeOfV2(FasterFunction):
    """v2's resize of a tensor."""

    def takes(self, image: object, *args: object, **kwargs: object) -> bool:
        return _is_plain(image)

    def make(self, image: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor | None:
        from fastpipe.kernels import v2_tensors

        return v2_tensors.run("resize", image, *args, **kwargs)
