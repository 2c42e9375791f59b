"""Pillow's images without pixels: what ``Image.open`` opens is recorded on until somebody looks at it."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from fastpipe.hooks.patches import Patches, is_plain


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


def _opener(plain: Any, patches: Patches) -> Any:
    def open_lazily(file: Any = None, filename: Any = None) -> Any:
        image = plain(file, filename)
        if not patches.active or is_plain() or "torch" not in sys.modules:
            return image
        from fastpipe.pillow.files import adopt

        return adopt(image)

    return open_lazily
