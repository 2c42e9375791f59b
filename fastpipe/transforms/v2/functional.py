"""torchvision's v2 functions, every public name: they do for boxes, masks and tensors what torchvision does.

PIL images in mode RGB or L go from their memory into a new image's by fastpipe's core, with torchvision's bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import TYPE_CHECKING, Any

import torchvision.transforms.v2.functional as _theirs
from torchvision.transforms.v2.functional._utils import _KERNEL_REGISTRY

from fastpipe.ops.interpolation import InterpolationMode  # noqa: F401
from fastpipe.transforms.v2._on_images import is_known, run_function

if TYPE_CHECKING:
    from torchvision.transforms.v2.functional import *  # noqa: F403

_OWN = ("InterpolationMode", "register_kernel")

__all__ = [name for name in vars(_theirs) if not name.startswith("_")]


@cache
def _on_images_too(theirs: Any) -> Any:
    """torchvision's function, but that the core runs it on PIL images."""
    name = theirs.__name__

    @wraps(theirs)
    def function(*args: Any, **kwargs: Any) -> Any:
        made = run_function(name, args[0], args[1:], kwargs) if args else None
        return theirs(*args, **kwargs) if made is None else made

    function.__module__ = __name__
    # TorchScript compiles torchvision's, as for torch.jit.script_if_tracing.
    vars(function).update({"__script_if_tracing_wrapper": True, "__original_fn": theirs})
    if theirs in _KERNEL_REGISTRY:  # a transform of the user's may ask for the kernels by this function
        _KERNEL_REGISTRY[function] = _KERNEL_REGISTRY[theirs]
    return function


def register_kernel(functional: Callable[..., Any] | str, tv_tensor_cls: type) -> Any:
    """Registers a kernel as torchvision's function of that name does, for a function of either library or its name."""
    return _theirs.register_kernel(getattr(functional, "__wrapped__", functional), tv_tensor_cls)


def _of(theirs: Any) -> Any:
    return _on_images_too(theirs) if is_known(getattr(theirs, "__name__", "")) else theirs


globals().update({name: _of(getattr(_theirs, name)) for name in __all__ if name not in _OWN})


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        return getattr(_theirs, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
