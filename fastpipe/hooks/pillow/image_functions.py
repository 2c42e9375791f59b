"""Functions of images by `fastpipe.pillow`: recorded on images without pixels, and run by the core on loaded ones."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from fastpipe.clock import clock
from fastpipe.hooks.checking import SiteAccount, plain_image
from fastpipe.hooks.faster_function import FasterFunction
from fastpipe.hooks.ledger import Site
from fastpipe.hooks.patches import Function, Patches
from fastpipe.pending import is_pending
from fastpipe.plain_lookup import class_attribute

if TYPE_CHECKING:
    import torch
    from PIL import Image


class ImageFunction(FasterFunction):
    """A library's function or method on images, and the functions of `fastpipe.pillow` that may run in its place.

    Args:
        name: the function's name in the report, with its owner's.
        plain: the library's own function.
        recorded: the module of `fastpipe.pillow` whose function records the call on images without pixels; None to
            leave these images to the library.
        gains: True for arguments with which the function in `fastpipe.pillow.loaded_image` is faster on an image that
            has its pixels; asked for images of Pillow's main class, and for JPEG and PNG files. None if
            `loaded_image` has no such function.
        ours: the name of fastpipe's functions; empty for the library's name.
    """

    def __init__(
        self,
        name: str,
        plain: Function,
        recorded: str | None = None,
        gains: Callable[..., bool] | None = None,
        ours: str = "",
    ) -> None:
        super().__init__(name, plain)
        self._recorded, self._gains = recorded, gains
        self._ours = ours or name.rpartition(".")[2]

    def takes(self, *args: object, **kwargs: object) -> bool:
        gains = self._gains
        if gains is not None and _is_loaded(*args):
            return gains(*args, **kwargs)
        if self._recorded is None:
            return False
        return any(map(is_pending, args[:2] or kwargs.values()))  # `blend` has two images

    def make(self, *args: object, **kwargs: object) -> object:
        recorded = self._recorded
        home = "loaded_image" if recorded is None or (self._gains is not None and _is_loaded(*args)) else recorded
        return our_function(home, self._ours, self._plain)(*args, **kwargs)


def _is_loaded(image: Any = None, *_: object) -> bool:
    """True for an image with pixels that the core takes; not without torch, which the core's module would import."""
    if type(image) is not sys.modules["PIL.Image"].Image:
        is_file = class_attribute(image, "_fastpipe_lazy") is not None
        if not is_file or image._im is None or image.tile:
            return False
    return image.mode in ("RGB", "L") and "torch" in sys.modules


class ToTensor(FasterFunction):
    """torchvision's ``to_tensor`` or ``pil_to_tensor`` of an image without pixels.

    Args:
        name: the function's name in the report, with its module's.
        patches: hold the replacements of functions on the tensor.
        plain: the library's own.
    """

    def __init__(self, name: str, patches: Patches, plain: Function) -> None:
        super().__init__(name, plain)
        self._patches, self._ours = patches, name.rpartition(".")[2]

    def takes(self, *args: object, **kwargs: object) -> bool:
        if len(args) != 1 or kwargs or not is_pending(args[0]):
            return False
        from fastpipe.torch_modes import torch_modes_active

        return not torch_modes_active()

    def make(self, pic: Image.Image) -> torch.Tensor | None:
        later = recorded_tensor(self.site, self._patches, pic, self._ours, self._plain)
        if later is not None:
            return later
        tensor: torch.Tensor | None = our_function("functional_pil", self._ours, self._plain)(pic)
        return tensor

    def expected(self, pic: Image.Image) -> object:
        twin, _ = plain_image(pic)
        return self._plain(pic if twin is None else twin)


def recorded_tensor(
    site: Site,
    patches: Patches,
    image: object,
    name: str,
    plain: Callable[[Image.Image], torch.Tensor],
    in_planes: bool = False,
) -> torch.Tensor | None:
    """The tensor without pixels of an image without pixels, counted; None if the tensor has to be made at once.

    Args:
        site: of the library's function.
        patches: hold the replacements of functions on the tensor.
        image: the image.
        name: ``"to_tensor"`` or ``"pil_to_tensor"``.
        plain: makes the library's tensor of a Pillow image, for a check.
        in_planes: the tensor is contiguous.
    """
    from fastpipe.hooks.torchvision.pending_tensors import record_functions  # imports torch
    from fastpipe.pillow.image_tensors import image_tensor

    due, begun = site.is_check_due(), clock()
    record_functions(patches)

    def account(by_pillow: Callable[[], Image.Image]) -> SiteAccount:
        return SiteAccount.of_file(site, lambda: plain(by_pillow()), due)

    tensor = image_tensor(image, name, account, in_planes)
    if tensor is not None:
        site.count(None if due else clock() - begun)
    return tensor


@lru_cache(maxsize=64)
def our_function(file: str, name: str, plain: Function) -> Function:
    """fastpipe's function of that name; one that returns None if the library's has other parameters in this version."""
    ours: Function = getattr(importlib.import_module(f"fastpipe.pillow.{file}"), name)
    known, theirs = (tuple(inspect.signature(function).parameters) for function in (ours, plain))
    return ours if known == theirs else lambda *args, **kwargs: None
