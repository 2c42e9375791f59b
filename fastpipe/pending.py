"""`is_pending`: whether an image or a tensor has no pixels yet."""

from __future__ import annotations

from types import GetSetDescriptorType

_CLASS: GetSetDescriptorType = vars(object)["__class__"]


def is_pending(image: object) -> bool:
    """True if an image has no pixels yet: a Pillow image that fastpipe opened, or a tensor that it decodes later.

    The size, mode, shape and dtype of such an image are known, and operations on it are recorded; any other access
    makes its pixels. False for an image that has its pixels, and for any other object.

    .. code:: python

        image = fastpipe.open_image(path).convert("RGB")
        assert fastpipe.is_pending(image)
        image.getpixel((0, 0))
        assert not fastpipe.is_pending(image)
    """
    has_no_pixels = getattr(type(image), "_fastpipe_is_pending", None)  # an instance may have any attribute
    return has_no_pixels is not None and bool(has_no_pixels(image))


def set_class(thing: object, kind: type) -> None:
    """Changes the class of an object whose class overrides ``__class__``, as images and tensors without pixels do."""
    _CLASS.__set__(thing, kind)
