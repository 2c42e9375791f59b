"""torchvision's v2 functions, every public name: they do for boxes, masks and tensors what torchvision does.

On uint8 tensors in main memory, single or in batches, many of them run in the core, with torchvision's bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torchvision.transforms.v2.functional as _theirs

from fastpipe.kernels.v2_tensors import KERNELS
from fastpipe.ops.interpolation import InterpolationMode  # noqa: F401
from fastpipe.transforms.v2 import _planned as _planned  # goes through torchvision's registry of kernels first
from fastpipe.transforms.v2._kernels import routed as _routed

if TYPE_CHECKING:
    from torchvision.transforms.v2.functional import *  # noqa: F403

__all__ = [name for name in vars(_theirs) if not name.startswith("_")]

globals().update({name: getattr(_theirs, name) for name in __all__ if name != "InterpolationMode"})
globals().update({name: _routed(name) for name in KERNELS if name in __all__})


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        return getattr(_theirs, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
