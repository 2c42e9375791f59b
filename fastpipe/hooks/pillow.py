"""Pillow's functions on images without pixels: recorded, or computed by the core; and methods of loaded images."""

from __future__ import annotations

import importlib
import inspect
import sys
import time
from collections.abc import Callable
from functools import lru_cache, partial
from types import ModuleType
from typing import Any

from fastpipe.hooks.checking import check_call
from fastpipe.hooks.functions import FasterFunction
from fastpipe.hooks.ledger import LEDGER, Site
from fastpipe.hooks.patches import Function, Patches
from fastpipe.hooks.pending_tensors import FunctionsOnTensors
from fastpipe.hooks.plain_images import plain_image
from fastpipe.pending import is_pending


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces functions of Pillow's main module that take images; `pillow_openers` hooks the file openers."""
    replace_by_recording(module, "blend", patches)
    for name in ("resize", "transform", "filter"):
        patches.wrap(module.Image, name, partial(_on_loaded_images, module.Image, name))


def _on_loaded_images(kind: Any, name: str, plain: Function) -> Function:
    ours = _OnLoadedImages(kind, name, plain)

    def method(*args: object, **kwargs: object) -> object:
        return ours(*args, **kwargs)

    return method


class _OnLoadedImages(FasterFunction):
    """A method of Pillow's images, run by the core on images that have their pixels.

    Args:
        kind: Pillow's image class; images of other classes, such as a file's, are left to Pillow.
        name: the method's name.
        plain: Pillow's own method.
    """

    def __init__(self, kind: Any, name: str, plain: Function) -> None:
        super().__init__(f"PIL.Image.Image.{name}", plain)
        self._kind = kind
        self._method = name
        self._ours: Function | None = None

    def make(self, *args: Any, **kwargs: Any) -> object:
        if not args or type(args[0]) is not self._kind or args[0].mode not in ("RGB", "L"):
            return ""
        if self._ours is None:
            if "torch" not in sys.modules:
                return ""
            self._ours = _our_function("loaded_image", self._method, self._plain)
        made = self._ours(*args, **kwargs)
        return "" if made is None else made


def replace_by_recording(module: ModuleType, name: str, patches: Patches, ours: str = "functions") -> None:
    """Replaces a function, for images without pixels, by the one of the same name in a module of `fastpipe.pillow`.

    Args:
        module: a module of Pillow or torchvision.
        name: the function's name.
        patches: holds the replacement.
        ours: the name of the module in `fastpipe.pillow`.
    """

    def make(plain: Function) -> Function:
        def function(*args: object, **kwargs: object) -> object:
            made = None
            if any(map(may_be_pending, (*args, *kwargs.values()))):
                made = try_ours(f"{module.__name__}.{name}", _our_function(ours, name, plain), *args, **kwargs)
            return plain(*args, **kwargs) if made is None else made

        return function

    patches.wrap(module, name, make)


def make_from_files(module: ModuleType, name: str, patches: Patches, ours: str) -> None:
    """Replaces a function of torchvision's that makes a tensor, and checks its first results."""
    from fastpipe.torch_modes import torch_modes_active

    shown = f"{module.__name__}.{name}"
    functions = FunctionsOnTensors(patches)

    def make(plain: Function) -> Function:
        def function(*args: object, **kwargs: object) -> object:
            def fast() -> object:
                made = try_ours(shown, _our_function(ours, name, plain), *args, **kwargs)
                return plain(*args, **kwargs) if made is None else made

            if len(args) != 1 or kwargs or not is_pending(args[0]):
                return plain(*args, **kwargs)
            site = LEDGER.site("function", shown)
            if site.is_off or torch_modes_active():
                return plain(*args, **kwargs)
            later = recorded_tensor(site, functions, args[0], name, plain)
            if later is not None:
                return later
            if site.is_check_due():
                twin, seconds = plain_image(args[0])
                site.count_checked()
                return fast() if twin is None else check_call(site, fast, lambda: plain(twin), shown, seconds)
            begun = time.perf_counter()
            made = fast()
            site.count(time.perf_counter() - begun)
            return made

        return function

    patches.wrap(module, name, make)


def recorded_tensor(
    site: Site, functions: FunctionsOnTensors, image: Any, name: str, plain: Function, in_planes: bool = False
) -> Any:
    """The tensor without pixels of an image without pixels, counted; None if the tensor has to be made at once.

    Args:
        site: of the library's function.
        functions: records torch's functions on the tensor.
        image: the image.
        name: ``"to_tensor"`` or ``"pil_to_tensor"``.
        plain: makes the library's tensor of a Pillow image, for a check.
        in_planes: the tensor is contiguous.
    """
    due, begun = site.is_check_due(), time.perf_counter()
    functions.record()
    made = try_ours(site.name, _image_tensor, image, name, partial(_account, site, plain, due), in_planes)
    if made is None:
        return None
    if due:
        site.count_checked()
    else:
        site.count(time.perf_counter() - begun)
    return made


def _account(site: Site, plain: Function, checks: bool, by_pillow: Callable[[], object]) -> object:
    from fastpipe.hooks.checking import SiteAccount

    return SiteAccount(site, lambda: plain(by_pillow()), checks)


def _image_tensor(*given: Any) -> object:
    from fastpipe.pillow import image_tensors

    return image_tensors.image_tensor(*given)


def may_be_pending(thing: object) -> bool:
    """True for an image of a class that can record; it may have no pixels yet."""
    return hasattr(type(thing), "_fastpipe_lazy")


def try_ours(site: str, ours: Function, *args: object, **kwargs: object) -> Any:
    """Calls fastpipe's function; None if it returns None, or raises, which is noted in the ledger."""
    try:
        return ours(*args, **kwargs)
    except Exception as error:  # the plain way raises the user's errors
        LEDGER.site("function", site).count_plain(f"{type(error).__name__}: {error}")
        return None


@lru_cache(maxsize=64)
def _our_function(file: str, name: str, plain: Function) -> Function:
    """fastpipe's function of that name; one that returns None if the library's has other parameters in this version."""
    ours: Function = getattr(importlib.import_module(f"fastpipe.pillow.{file}"), name)
    known, theirs = (tuple(inspect.signature(function).parameters) for function in (ours, plain))
    return ours if known == theirs else lambda *args, **kwargs: None
