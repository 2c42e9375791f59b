"""torchvision's resize, blur and change of hue of tensors that have their pixels: by the core."""

from __future__ import annotations

import sys
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, ClassVar

from fastpipe.hooks.class_checks import is_tensor
from fastpipe.hooks.faster_function import FasterFunction
from fastpipe.hooks.patches import Patches
from fastpipe.pending import is_pending
from fastpipe.plain_lookup import own_attribute

if TYPE_CHECKING:
    import torch

_LEAST_BLURRED = 3000
"""The fewest bytes of a tensor that the core blurs: 32x32 takes 103 µs in place of 175, 16x16 as long as in torch.

Floats of 8x8 take 73 µs in place of 140.
"""


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces v1's functions in their module, or v2's in torchvision's table of functions for tensors."""
    if ".v2." in module.__name__:
        for of_v2 in _OF_V2:
            with patches.piece("torchvision", f"{module.__name__}.{of_v2.function}"):
                _replace_in_table(module, of_v2, patches)
    else:
        for name, kind in _OF_V1.items():
            patches.hook(module, name, partial(kind, f"{module.__name__}.{name}"))


def _replace_in_table(module: ModuleType, kind: type[_OfV2], patches: Patches) -> None:
    import torch
    from torchvision import tv_tensors

    table = sys.modules["torchvision.transforms.v2.functional._utils"]
    plain = getattr(module, f"{kind.function}_image")
    holder = SimpleNamespace(kernel=plain)
    patches.wrap(holder, "kernel", partial(kind, f"{plain.__module__}.{plain.__name__}"))
    kernels = table._KERNEL_REGISTRY[getattr(module, kind.function)]
    patches.put_item(kernels, torch.Tensor, holder.kernel)
    patches.put_item(kernels, tv_tensors.Image, table._kernel_tv_tensor_wrapper(holder.kernel))


def _is_large(image: torch.Tensor, size: object) -> bool:
    """True unless an image and its result are so small that torch is as fast as the core, or torch traces the call."""
    if _is_traced():
        return False
    if image.numel() >= 12_000:
        return True
    sides = size if isinstance(size, (tuple, list)) else (size,)
    try:
        return bool(max(sides) >= 64)
    except (TypeError, ValueError):  # torchvision refuses it
        return False


class _Resize(FasterFunction):
    """The antialiased resize of v1, which computes with floats: bilinear, or bicubic of floats."""

    def takes(self, img: object, size: object, interpolation: object = "bilinear", antialias: object = True) -> bool:
        if interpolation not in ("bilinear", "bicubic") or antialias is not True:
            return False
        if not is_tensor(img) or img.ndim not in (3, 4):
            return False
        from fastpipe.tensor_kernels import floats

        if not floats.takes(img.dtype, interpolation) or not _is_large(img, size):
            return False
        return is_pending(img) or _is_plain(img)

    def make(
        self, img: torch.Tensor, size: list[int], interpolation: str = "bilinear", antialias: bool = True
    ) -> torch.Tensor | None:
        from fastpipe.tensor_kernels import floats
        from fastpipe.transforms.functional.geometry import resize_tensor

        form = floats.rounding() if interpolation == "bilinear" else floats.cubic_rounding()
        return None if form is None else resize_tensor(img, size, interpolation, antialias)


class _OfV2(FasterFunction):
    """A function of v2's on tensors in main memory."""

    function: ClassVar[str]

    def make(self, image: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor | None:
        from fastpipe.tensor_kernels import v2_tensors

        return v2_tensors.run(self.function, image, *args, **kwargs)


class _ResizeOfV2(_OfV2):
    """v2's antialiased resize of a tensor: bilinear or bicubic, of bytes bicubic if torch computes with integers."""

    function = "resize"

    def takes(
        self,
        image: torch.Tensor,
        size: object,
        interpolation: object = "bilinear",
        max_size: object = None,
        antialias: object = True,
    ) -> bool:
        import torch

        mode = own_attribute(interpolation, "_value_", interpolation)  # of an enum
        if image.dtype is torch.uint8:
            is_known = mode in ("bilinear", "bicubic", 2, 3) and image.is_contiguous()
        else:
            is_known = mode in ("bilinear", "bicubic", 2, 3) and image.dtype is torch.float32
        return is_known and bool(antialias) and image.ndim > 2 and _is_large(image, size) and _is_plain(image)


class _Hue(FasterFunction):
    """v1's ``adjust_hue`` of bytes and floats."""

    def takes(self, img: object, hue_factor: object) -> bool:
        if not is_tensor(img):
            return False
        import torch

        if img.dtype not in (torch.uint8, torch.float32) or _is_traced() or img.ndim < 3 or img.shape[-3] != 3:
            return False
        return is_pending(img) or _is_plain(img)

    def make(self, img: torch.Tensor, hue_factor: float) -> torch.Tensor | None:
        from fastpipe.program.pending_tensor import with_pixels
        from fastpipe.tensor_kernels.floats import hue_adjusted

        return hue_adjusted(with_pixels(img), hue_factor, as_v1=True)


class _HueOfV2(_OfV2):
    """v2's ``adjust_hue`` of bytes and floats."""

    function = "adjust_hue"

    def takes(self, image: torch.Tensor, hue_factor: object) -> bool:
        import torch

        return image.dtype in (torch.uint8, torch.float32) and not _is_traced() and _is_plain(image)


class _Blur(FasterFunction):
    """v1's blur of bytes and floats."""

    def takes(self, img: object, kernel_size: object, sigma: object) -> bool:
        return is_tensor(img) and _is_blurred(img, kernel_size) and (is_pending(img) or _is_plain(img))

    def make(self, img: torch.Tensor, kernel_size: list[int], sigma: list[float]) -> torch.Tensor | None:
        from fastpipe.program.pending_tensor import with_pixels
        from fastpipe.tensor_kernels.filters import blurred

        return blurred(with_pixels(img), kernel_size, sigma)


class _BlurOfV2(_OfV2):
    """v2's blur of bytes and floats."""

    function = "gaussian_blur"

    def takes(self, image: torch.Tensor, kernel_size: object, sigma: object = None) -> bool:
        return _is_blurred(image, kernel_size) and _is_plain(image)


def _is_blurred(image: torch.Tensor, kernel_size: object) -> bool:
    """True for bytes or floats unless torch is as fast as the core, or chooses its algorithm by the image's size."""
    import torch

    if image.dtype not in (torch.uint8, torch.float32) or _is_traced():
        return False
    if image.ndim < 3 or image.shape[-3] not in (1, 3):
        return False
    if image.numel() < (_LEAST_BLURRED if image.dtype is torch.uint8 else 1):
        return False
    sizes = kernel_size if isinstance(kernel_size, (list, tuple)) else (kernel_size,)
    return image.shape[-3] == 3 or not any(size in (1, 3) for size in sizes)


_OF_V1: dict[str, type[FasterFunction]] = {"adjust_hue": _Hue, "gaussian_blur": _Blur, "resize": _Resize}
_OF_V2: tuple[type[_OfV2], ...] = (_HueOfV2, _BlurOfV2, _ResizeOfV2)


def _is_traced() -> bool:
    """True while torch compiles or traces: then a tensor's number of elements may be a symbol or a tensor."""
    from fastpipe.torch_modes import is_traced

    return is_traced()


def _is_plain(image: torch.Tensor) -> bool:
    """True for a tensor in main memory with whose operations nothing else interferes."""
    from fastpipe.tensor_kernels.planes import is_plain

    return is_plain(image)
