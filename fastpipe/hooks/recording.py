"""Replaces functions of Pillow and torchvision, for images without pixels, by `fastpipe.pillow`'s, which record."""

from __future__ import annotations

import importlib
import inspect
import time
from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from fastpipe.hooks.checking import SiteAccount, check_call, plain_image
from fastpipe.hooks.ledger import LEDGER, Site
from fastpipe.hooks.patches import Function, Patches
from fastpipe.hooks.pending_tensors import record_functions
from fastpipe.pending import is_pending

if TYPE_CHECKING:
    import torch
    from PIL import Image

Made = TypeVar("Made")


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
            if any(map(is_pending, (*args, *kwargs.values()))):
                made = try_ours(f"{module.__name__}.{name}", our_function(ours, name, plain), *args, **kwargs)
            return plain(*args, **kwargs) if made is None else made

        return function

    patches.wrap(module, name, make)


def make_from_files(module: ModuleType, name: str, patches: Patches, ours: str) -> None:
    """Replaces a function of torchvision's that makes a tensor of an image, and checks its first results."""
    from fastpipe.torch_modes import torch_modes_active

    shown = f"{module.__name__}.{name}"

    def make(plain: Function) -> Function:
        def function(*args: object, **kwargs: object) -> object:
            if len(args) != 1 or kwargs or not is_pending(args[0]):
                return plain(*args, **kwargs)
            (image,) = args
            site = LEDGER.site("function", shown)
            if site.is_off or torch_modes_active():
                return plain(image)
            later = recorded_tensor(site, patches, image, name, plain)
            if later is not None:
                return later

            def fast() -> object:
                made = try_ours(shown, our_function(ours, name, plain), image)
                return plain(image) if made is None else made

            if site.is_check_due():
                twin, seconds = plain_image(image)
                site.count(None)
                return fast() if twin is None else check_call(site, fast, lambda: plain(twin), shown, seconds)
            begun = time.perf_counter()
            made = fast()
            site.count(time.perf_counter() - begun)
            return made

        return function

    patches.wrap(module, name, make)


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
    from fastpipe.pillow.image_tensors import image_tensor

    due, begun = site.is_check_due(), time.perf_counter()
    record_functions(patches)

    def account(by_pillow: Callable[[], Image.Image]) -> SiteAccount:
        return SiteAccount(site, lambda: plain(by_pillow()), due)

    made = try_ours(site.name, image_tensor, image, name, account, in_planes)
    if made is not None:
        site.count(None if due else time.perf_counter() - begun)
    return made


def try_ours(site: str, ours: Callable[..., Made], *args: object, **kwargs: object) -> Made | None:
    """Calls fastpipe's function; None if it returns None, or raises, which is noted in the ledger."""
    try:
        return ours(*args, **kwargs)
    except Exception as error:  # the plain way raises the user's errors
        LEDGER.site("function", site).count_plain(f"{type(error).__name__}: {error}")
        return None


@lru_cache(maxsize=64)
def our_function(file: str, name: str, plain: Function) -> Function:
    """fastpipe's function of that name; one that returns None if the library's has other parameters in this version."""
    ours: Function = getattr(importlib.import_module(f"fastpipe.pillow.{file}"), name)
    known, theirs = (tuple(inspect.signature(function).parameters) for function in (ours, plain))
    return ours if known == theirs else lambda *args, **kwargs: None
