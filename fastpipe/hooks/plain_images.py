"""Images for the plain way of a check: of those that have no pixels yet, made by Pillow alone."""

from __future__ import annotations

import sys
from typing import Any

from fastpipe.hooks.checking import clock


def plain_image(image: object) -> tuple[object, float]:
    """The same image by Pillow alone, from the file's bytes and with what was done to it since; a copy of a plain one.

    Args:
        image: of Pillow, or an array.

    Returns:
        The image, and the seconds that Pillow took; None where nobody has kept what Pillow needs for it, of a file that
        is broken, and of anything else, such as a tensor: fastpipe leaves it to its library.
    """
    begun = clock()
    pillow: Any = sys.modules.get("PIL.Image")
    numpy: Any = sys.modules.get("numpy")
    if pillow is not None and isinstance(image, pillow.Image):
        from fastpipe.pillow.lazy_image import shadow_of
        from fastpipe.program.mistakes import raise_again

        try:
            return shadow_of(image), clock() - begun
        except Exception as error:  # of a file that is broken: whoever is called with it has the error
            if not raise_again(image, error):
                raise
    if numpy is not None and isinstance(image, numpy.ndarray):
        return image.copy(), clock() - begun
    return None, 0.0
