"""Pillow's file openers: images from ``Image.open`` record operations until their pixels are used."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import IO, TYPE_CHECKING

from fastpipe.hooks.ledger import LEDGER, Site
from fastpipe.hooks.originals import Originals
from fastpipe.hooks.patches import Patches, are_in_force
from fastpipe.pending import is_pending
from fastpipe.pillow.packed_files import accepting_packed, restoring

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

    from fastpipe.pillow.lazy_source import OnMistake
    from fastpipe.pillow.packed_files import Opener

_FORMATS = {"PIL.JpegImagePlugin": "JPEG", "PIL.PngImagePlugin": "PNG"}


def hook(module: ModuleType, patches: Patches) -> None:
    """Makes a plugin's opener return images without pixels, if torch is imported, which would make use of them.

    The plugin registers its opener at its end. Pillow's main module can't be asked for it earlier, because the plugin
    may import that module.
    """
    registered, name = sys.modules["PIL.Image"].OPEN, _FORMATS[module.__name__]
    opener, accept = registered[name]
    plain = opener
    if name == "JPEG":  # which packed images are
        plain, accept = restoring(opener), accepting_packed(accept)
    patches.put_item(registered, name, (_opener(opener, plain, patches), accept))


def _opener(opener: Opener, plain: Opener, patches: Patches) -> Opener:
    """The opener that is registered.

    Args:
        opener: Pillow's own.
        plain: Pillow's own where images aren't made by fastpipe: takes packed images, too.
        patches: the replacements that are in force.
    """
    ours: tuple[Callable[..., ImageFile], Site, OnMistake] | None = None
    originals = Originals((), ())

    def open_lazily(file: IO[bytes], filename: str | bytes = "") -> ImageFile:
        nonlocal ours
        if not patches.active or not are_in_force() or "torch" not in sys.modules:
            return plain(file, filename)
        if not originals.are_there():  # asked before `files` is imported, which takes the methods it finds for Pillow's
            return plain(file, filename)
        if ours is None:
            from fastpipe.pillow import files

            site = LEDGER.site("function", "PIL.Image.open")
            ours = files.open_lazily, site, site.count_failed  # one object for all images, each of which keeps it
        open_file, site, count_failed = ours
        if site.is_off:
            return plain(file, filename)
        opened = open_file(opener, file, filename, site if site.is_check_due() else None, count_failed)
        if is_pending(opened):
            site.count(None)  # its pixels take time later
        return opened

    return open_lazily
