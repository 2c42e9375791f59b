"""`is_pending`: whether an image or a tensor has no pixels yet."""

from __future__ import annotations


def is_pending(image: object) -> bool:
    """True if an image has no pixels yet: a Pillow image that fastpipe opened, or a tensor that it decodes later.

    Size, mode, shape and dtype are known of such an image, and what is done to it is recorded; whatever else looks at
    it has its pixels made. An image whose pixels are there, and anything else, gives False.

    .. code:: python

        image = fastpipe.open_image(path).convert("RGB")
        assert fastpipe.is_pending(image)
        image.getpixel((0, 0))
        assert not fastpipe.is_pending(image)
    """
    has_no_pixels = getattr(type(image), "_fastpipe_is_pending", None)  # of the class: an instance may do anything
    return has_no_pixels is not None and bool(has_no_pixels(image))
