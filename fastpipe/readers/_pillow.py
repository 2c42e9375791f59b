"""Pillow's `open`, but for the number of pixels."""

from __future__ import annotations

import struct
from typing import IO

from PIL import Image


def open_any_size(file: IO[bytes]) -> Image.Image:
    """The image that ``PIL.Image.open(file)`` gives, however many pixels it claims; none is decoded.

    Pillow judges the number by a setting of the whole process, which isn't fastpipe's to change. Some of its plugins
    judge it once more by themselves.

    Raises:
        Exception: whatever Pillow's plugins raise.
    """
    start = file.read(16)
    tried: set[str] = set()
    for load_plugins in (Image.preinit, Image.init):
        load_plugins()
        for name in [name for name in Image.ID if name not in tried]:
            tried.add(name)
            plugin, accept = Image.OPEN[name]
            try:
                accepted = accept is None or accept(start)
                if accepted and not isinstance(accepted, str):  # a text says why not
                    file.seek(0)
                    return plugin(file, "")
            except (SyntaxError, IndexError, TypeError, struct.error):
                continue  # as Pillow does: not this plugin's
    file.seek(0)
    return Image.open(file)  # raises, with its warnings
