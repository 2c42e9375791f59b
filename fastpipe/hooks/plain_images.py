"""Images for the plain way of a check; those without pixels are made by Pillow alone."""

from __future__ import annotations

from fastpipe.hooks.checking import clock
from fastpipe.hooks.kinds import is_array, is_pillow_image


def plain_image(image: object) -> tuple[object, float]:
    """Makes the same image by Pillow alone, from the file's bytes and the recorded operations; copies a plain image.

    Args:
        image: a Pillow image, or an array.

    Returns:
        The image, and the seconds that Pillow took. The image is None if Pillow's calls for it are unknown, for a
        broken file, and for any other object, such as a tensor, which fastpipe leaves to its library.
    """
    begun = clock()
    if is_pillow_image(image):
        from fastpipe.pillow.lazy_image import shadow_of
        from fastpipe.program.mistakes import raise_again

        try:
            return shadow_of(image), clock() - begun
        except Exception as error:  # of a broken file: its next user gets the error
            if not raise_again(image, error):
                raise
    if is_array(image):
        return image.copy(), clock() - begun
    return None, 0.0
