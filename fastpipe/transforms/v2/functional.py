"""torchvision's v2 functions, under every public name, with torchvision's results for boxes, masks and tensors.

On PIL images in mode RGB or L, and on uint8 tensors in main memory, single or in batches, many of them run in
fastpipe's core, with torchvision's bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torchvision.transforms.v2.functional as _theirs

from fastpipe.ops.interpolation import InterpolationMode  # noqa: F401
from fastpipe.transforms.v2._kernels import routed as _routed

if TYPE_CHECKING:
    from torchvision.transforms.v2.functional import *  # noqa: F403

_OWN = ("InterpolationMode", "register_kernel")

__all__ = [name for name in vars(_theirs) if not name.startswith("_")]


def register_kernel(functional: Callable[..., object] | str, tv_tensor_cls: type) -> Any:
    """Registers a kernel for a function of either library, or its name, as torchvision's ``register_kernel`` does."""
    return _theirs.register_kernel(getattr(functional, "__wrapped__", functional), tv_tensor_cls)


globals().update({name: _routed(getattr(_theirs, name)) for name in __all__ if name not in _OWN})


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        return getattr(_theirs, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
