"""Pillow's images without pixels: what ``Image.open`` opens is recorded on until somebody looks at it."""

from __future__ import annotations

import importlib
import inspect
import sys
from functools import lru_cache
from types import ModuleType
from typing import Any

from fastpipe.hooks.ledger import LEDGER
from fastpipe.hooks.patches import Function, Patches, is_plain


def hook(module: ModuleType, patches: Patches) -> None:
    """Has the openers of JPEG and PNG files give images without pixels, once torch is there to make use of them."""
    module.preinit()
    for name in ("JPEG", "PNG"):
        opener, accept = module.OPEN[name]
        ours = _opener(opener, patches), accept
        module.OPEN[name] = ours

        def restore(name: str = name, before: Any = (opener, accept), ours: Any = ours) -> None:
            if module.OPEN.get(name) is ours:
                module.OPEN[name] = before

        patches.at_undo(restore)
    record(module, "blend", patches)


def _opener(plain: Any, patches: Patches) -> Any:
    def open_lazily(file: Any = None, filename: Any = None) -> Any:
        image = plain(file, filename)
        if not patches.active or is_plain() or "torch" not in sys.modules:
            return image
        from fastpipe.pillow.files import adopt

        return adopt(image)

    return open_lazily


def record(module: ModuleType, name: str, patches: Patches, ours: str = "functions") -> None:
    """Replaces a function of a module by the one of its name in a file of `fastpipe.pillow`, for images without pixels.

    Args:
        module: of Pillow, or of torchvision.
        name: of the function.
        patches: that hold the replacement.
        ours: the file's name.
    """

    def make(plain: Function) -> Function:
        def function(*args: Any, **kwargs: Any) -> Any:
            made = None
            if any(map(has_record, (*args, *kwargs.values()))):
                made = recorded(f"{module.__name__}.{name}", _recording(ours, name, plain), *args, **kwargs)
            return plain(*args, **kwargs) if made is None else made

        return function

    patches.wrap(module, name, make)


def has_record(thing: Any) -> bool:
    """True for an image of a class that records: it may have no pixels yet."""
    return hasattr(type(thing), "lazy")


def recorded(site: str, ours: Function, *args: Any, **kwargs: Any) -> Any:
    """The result of our way; None where it gives none, or raises, which the account has then."""
    try:
        return ours(*args, **kwargs)
    except Exception as error:  # whatever it is, it isn't the user's: the plain way raises what the user is to see
        LEDGER.site("function", site).leave(f"{type(error).__name__}: {error}")
        return None


@lru_cache(maxsize=64)
def _recording(file: str, name: str, plain: Function) -> Function:
    """Our function of a name; one that gives None where the library's own has other parameters in this version."""
    ours: Function = getattr(importlib.import_module(f"fastpipe.pillow.{file}"), name)
    known, theirs = (tuple(inspect.signature(function).parameters) for function in (ours, plain))
    return ours if known == theirs else lambda *args, **kwargs: None
