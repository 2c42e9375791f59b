"""Pillow's file openers: images from ``Image.open`` record operations until their pixels are used."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import IO, TYPE_CHECKING

from fastpipe.hooks.imports import import_at_first_use
from fastpipe.hooks.ledger import DIFFERED, LEDGER, Site
from fastpipe.hooks.library_functions import Originals
from fastpipe.hooks.patches import Function, Patches, are_in_force
from fastpipe.mistakes import attempt
from fastpipe.pending import is_pending
from fastpipe.pillow.packed_files import accepting_packed, restoring

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

    from fastpipe.pillow.packed_files import Opener

_FORMATS = {"PIL.JpegImagePlugin": "JPEG", "PIL.PngImagePlugin": "PNG"}
_NAME = "PIL.Image.open"


def count_others(module: ModuleType, patches: Patches) -> None:
    """Has the report count files of formats that Pillow decodes, also of those for which it learns an opener later."""

    def put(name: str) -> None:
        if name not in _FORMATS.values():
            opener, accept = module.OPEN[name]
            patches.put_item(module.OPEN, name, (_counting(opener, patches), accept))

    def make(plain: Function) -> Function:
        def register_open(id: str, *others: object, **options: object) -> None:
            plain(id, *others, **options)
            put(id.upper())

        return register_open

    for name in [*module.OPEN]:
        put(name)
    patches.wrap(module, "register_open", make)


def _counting(plain: Opener, patches: Patches) -> Opener:
    def open_and_count(file: IO[bytes], filename: str | bytes = "") -> ImageFile:
        opened = plain(file, filename)
        if patches.active and are_in_force():
            LEDGER.site("function", _NAME).count_plain(f"{opened.format}, which fastpipe doesn't decode")
        return opened

    return open_and_count


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
    ours: tuple[ModuleType, Site, Callable[[Exception], object], Callable[[str], object]] | None = None
    originals = Originals((), ())

    def left(reason: str, file: IO[bytes], filename: str | bytes) -> ImageFile:
        opened = plain(file, filename)
        LEDGER.site("function", _NAME).count_plain(reason)
        return opened

    def open_lazily(file: IO[bytes], filename: str | bytes = "") -> ImageFile:
        nonlocal ours
        if not patches.active or not are_in_force():
            return plain(file, filename)
        if "torch" not in sys.modules:
            return left("torch wasn't imported", file, filename)
        if not originals.are_there():  # asked before `files` is imported, which takes the methods it finds for Pillow's
            return left("somebody has replaced a function of Pillow's", file, filename)
        if ours is None:
            files = import_at_first_use("fastpipe.pillow.files")
            site = LEDGER.site("function", _NAME)
            ours = files, site, site.count_failed, site.take_back  # one object each, which all images keep
        files, site, count_failed, take_back = ours
        if site.is_off:
            return left(DIFFERED, file, filename)

        def open_ours() -> ImageFile:
            check = site if site.is_check_due() else None
            opened: ImageFile = files.open_lazily(opener, file, filename, check, count_failed, take_back)
            if is_pending(opened):
                site.count(None)  # its pixels take time later
            else:
                site.count_plain(files.why_by_pillow(opened))
            return opened

        return attempt(open_ours, partial(plain, file, filename), count_failed, restore=partial(file.seek, 0))

    return open_lazily
