"""albumentations' transforms that change pixels, and draw by an image's shape and dtype alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

import albumentations as A

from fastpipe.interop import Foreign
from fastpipe.interop.albumentations.planning import METHODS, methods_of
from fastpipe.interop.transforms.known_code import has_code


class _Known(NamedTuple):
    """A class that draws without pixels, and that draws nothing when it is applied."""

    fingerprint: str  # of its methods
    holds: Callable[[Foreign], bool] = lambda transform: True  # whether that is so with an object's options


_KNOWN: Mapping[str, _Known] = {
    "Affine": _Known("f30d46643d75add6"),
    "CoarseDropout": _Known("55250ec1621329c9"),
    "ColorJitter": _Known("7f9823785263e0e2"),
    "GaussianBlur": _Known("c6c4112390eb3594"),
    "HueSaturationValue": _Known("bce8f3eccd2d5377"),
    "RandomBrightnessContrast": _Known("8ef67f03b5c9193e", lambda transform: bool(transform.brightness_by_max)),
    "RandomGamma": _Known("8644192b61d5eae6"),
    "Rotate": _Known("98b48d3232e93926", lambda transform: not transform.crop_border),
    "ShiftScaleRotate": _Known("adf4e81bd3f3ef0b"),
}


def draws_by_shape(transform: Foreign) -> bool:
    """True if a transform's parameters are drawn without pixels, and bytes of three channels stay that."""
    kind: type = type(transform)
    return is_known(kind) and METHODS.isdisjoint(vars(transform)) and _KNOWN[kind.__name__].holds(transform)


@lru_cache(maxsize=128)
def is_known(kind: type) -> bool:
    """True for a class of `albumentations` with the code that its entry was written for."""
    name = kind.__name__
    known = _KNOWN.get(name)
    return known is not None and getattr(A, name, None) is kind and has_code(methods_of(kind), known.fingerprint)


CLASSES = _KNOWN.keys()
"""The names of the classes."""
