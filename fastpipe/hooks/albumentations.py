"""albumentations: what it takes long for beside its draws, by the core.

Its crops are views, its flips and resizes OpenCV's at their best; what is left is ``Normalize``, whose table it looks
up channel by channel. Its transforms and `Compose` stay as they are, with their generators.
"""

from __future__ import annotations

import sys
from functools import cached_property, partial
from types import ModuleType
from typing import Any

from fastpipe.hooks.functions import FasterFunction
from fastpipe.hooks.patches import Patches

_FINGERPRINT = "9e5c6fe19016e82a"
"""Of albucore's functions by which ``Normalize`` computes."""


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces the function by which ``Normalize`` computes, in the module of its class."""
    if hasattr(module, "Normalize") and hasattr(module, "normalize"):
        patches.wrap(module, "normalize", partial(_Normalize, "albumentations.Normalize"))


class _Normalize(FasterFunction):
    """albucore's ``normalize``, of uint8 images of three channels by the core."""

    @cached_property
    def _is_known(self) -> bool:
        """This albucore computes as the one that this was written after."""
        from fastpipe.recipes.source_code import has_code

        home: Any = sys.modules.get(getattr(self._plain, "__module__", ""))
        return has_code([getattr(home, name, None) for name in ("normalize", "normalize_lut")], _FINGERPRINT)

    def make(self, img: Any = None, mean: Any = None, denominator: Any = None, *others: Any, **named: Any) -> Any:
        """The image in float32, or why albucore is to make it."""
        from fastpipe.core.factors import normalized_by_factor

        if not self._is_known:
            return "another albucore than is known"
        if others or named or not _is_common(img, mean, denominator):
            return "other images, means or deviations"
        made = normalized_by_factor(img, mean, denominator)
        return "images without pixels, or without the core" if made is None else made


def _is_common(img: Any, mean: Any, denominator: Any) -> bool:
    import numpy as np

    if type(img) is not np.ndarray or img.dtype != np.uint8 or img.shape[2:] != (3,):
        return False
    values = (mean, denominator)
    return all(type(each) is np.ndarray and each.dtype == np.float32 and each.shape == (3,) for each in values)
