"""Images for the plain way of a check; those without pixels are made by Pillow alone."""

from __future__ import annotations

import sys
from typing import Any

from fastpipe.hooks.checking import clock


def plain_image(image: object) -> tuple[object, float]:
    """Makes the same image by Pillow alone, from the file's bytes and the recorded operations; copies a plain image.

    Args:
        image: a Pillow image, or an array.

    Returns:
        The image, and the seconds that Pillow took. The image is None if Pillow's calls for it are unknown, for a
        broken file, and for any other object, such as a tensor, which fastpipe leaves to its library.
    """
    begun = clock()
    pillow: Any = sys.modules.get("PIL.Image")
    numpy: Any = sys.modules.get("numpy")
    if pillow is not None and isinstance(image, pillow.Image):
        from fastpipe.pillow.lazy_image import shadow_of
        from fastpipe.program.mistakes import raise_again

        try:
            return shadow_of(image), clock() - begun
        except Exception as error:  # of a broken file: its next user gets the error
            if not raise_again(image, error):
                raise
    if numpy is not None and isinstance(image, numpy.ndarray):
        return image.copy(), clock() - begun
    return None, 0.0
