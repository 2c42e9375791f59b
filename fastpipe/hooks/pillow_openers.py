"""Pillow's images without pixels: what ``Image.open`` opens is recorded on until somebody looks at it."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from fastpipe.hooks.ledger import LEDGER
from fastpipe.hooks.originals import Originals
from fastpipe.hooks.patches import Patches, is_plain

_FORMATS = {"PIL.JpegImagePlugin": "JPEG", "PIL.PngImagePlugin": "PNG"}


def hook(module: ModuleType, patches: Patches) -> None:
    """Has a plugin's opener give images without pixels, once torch is there to make use of them.

    The plugin has registered it at its own end. Pillow's main module can't be asked for it earlier: it may be imported
    by the plugin.
    """
    registered, name = sys.modules["PIL.Image"].OPEN, _FORMATS[module.__name__]
    before = registered[name]
    ours = registered[name] = _opener(before[0], patches), before[1]

    def restore() -> None:
        if registered.get(name) is ours:
            registered[name] = before

    patches.at_undo(restore)


def _opener(plain: Any, patches: Patches) -> object:
    ours: Any = None
    site: Any = None
    count_failed: Any = None
    originals = Originals((), ())

    def open_lazily(file: Any = None, filename: Any = None) -> object:
        nonlocal ours, site, count_failed
        if not patches.active or is_plain() or "torch" not in sys.modules:
            return plain(file, filename)
        if ours is None:
            from fastpipe.pillow import files

            ours, site = files.open_lazily, LEDGER.site("function", "PIL.Image.open")
            count_failed = site.count_failed  # one for all images, each of which keeps it
        if site.is_off or not originals.are_there():
            return plain(file, filename)
        made = ours(plain, file, filename, site if site.is_check_due() else None, count_failed)
        site.count_checked()  # what its pixels take is told by the checks
        return made

    return open_lazily
