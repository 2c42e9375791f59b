"""Plain Pillow images of those that have no pixels yet, made by Pillow alone: what a check compares with."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image


def plain_image(image: Image.Image) -> tuple[Image.Image | None, float]:
    """The same image by Pillow alone, from the file's bytes and with what was done to it since; a copy of a plain one.

    Returns:
        The image, and the seconds that Pillow took; None where nobody has kept what Pillow needs for it.
    """
    from fastpipe.pillow.lazy_image import shadow_of

    begun = time.perf_counter()
    return shadow_of(image), time.perf_counter() - begun
