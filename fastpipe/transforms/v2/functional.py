"""torchvision's v2 functions, every public name: they do for boxes, masks and tensors what torchvision does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torchvision.transforms.v2.functional as _theirs

from fastpipe.ops.interpolation import InterpolationMode  # noqa: F401

if TYPE_CHECKING:
    from torchvision.transforms.v2.functional import *  # noqa: F403

__all__ = [name for name in vars(_theirs) if not name.startswith("_")]

globals().update({name: getattr(_theirs, name) for name in __all__ if name != "InterpolationMode"})


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        return getattr(_theirs, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
