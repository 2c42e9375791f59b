"""`is_pending`: whether an image or a tensor has no pixels yet."""

from __future__ import annotations

from types import GetSetDescriptorType
from typing import Any, TypeVar

Kind = TypeVar("Kind")
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
    kind: Any = type(image)  # an instance, and also a metaclass, may have any attribute
    return issubclass(kind, _kinds) and bool(kind._fastpipe_is_pending(image))


def plain_class(tensor: object) -> type:
    """The class of a tensor; for a pending one the class that it will have with its elements."""
    return plain_of(type(tensor))


def plain_of(kind: type) -> type:
    """The class that pending tensors of a class will have with their elements; any other class itself."""
    return getattr(kind, "plain", kind) if issubclass(kind, _kinds) else kind


def may_be_pending(kind: type[Kind]) -> type[Kind]:
    """Declares that a class's objects, and those of derived classes, may have no pixels.

    Args:
        kind: has a method ``_fastpipe_is_pending``, which is True as long as there are no pixels.
    """
    global _kinds
    _kinds += (kind,)
    return kind


_kinds: tuple[type, ...] = ()


def set_class(thing: object, kind: type) -> None:
    """Changes the class of an object whose class overrides ``__class__``, as images and tensors without pixels do."""
    _CLASS.__set__(thing, kind)
