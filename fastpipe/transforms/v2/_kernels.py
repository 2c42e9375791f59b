"""PIL images and uint8 tensors in v2's functions and classes: by the core where it has torchvision's bytes."""

from __future__ import annotations

import functools
import types
from typing import Any

import PIL.Image
import torch
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as theirs
from torchvision.transforms.v2.functional._utils import _KERNEL_REGISTRY

from fastpipe.kernels.v2_tensors import KERNELS
from fastpipe.transforms.v2._on_images import is_known, run_function

_CLASSES = (torch.Tensor, tv_tensors.Image, tv_tensors.Video)
_KERNELS = {getattr(theirs, name): kernel for name, kernel in KERNELS.items()}


def by_core(function: Any, image: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of one of torchvision's functions on uint8 images in main memory, of the class that came.

    None for any other input, and for arguments about which torchvision says what it thinks.
    """
    kernel = _KERNELS.get(function)
    if kernel is None or type(image) not in _CLASSES or image.dtype != torch.uint8:
        return None
    if type(image) not in _KERNEL_REGISTRY[function]:  # torchvision leaves some of a video as it is
        return None
    try:
        made = kernel(image.as_subclass(torch.Tensor), *args, **kwargs)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None
    return made if made is None or type(image) is torch.Tensor else tv_tensors.wrap(made, like=image)


def by_fastpipe(function: Any, image: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of one of torchvision's functions on a PIL image or a tensor; None where torchvision has to do it."""
    if isinstance(image, PIL.Image.Image):
        return run_function(function.__name__, image, args, kwargs)
    return by_core(function, image, args, kwargs)


@functools.cache
def routed(original: Any) -> Any:
    """Routes one of torchvision's functions to the core where that has it; TorchScript compiles torchvision's own."""
    if original not in _KERNELS and not is_known(getattr(original, "__name__", "")):
        return original

    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        made = by_fastpipe(original, args[0], args[1:], kwargs) if args else None
        return original(*args, **kwargs) if made is None else made

    function.__module__ = "fastpipe.transforms.v2.functional"
    # TorchScript compiles torchvision's, as for torch.jit.script_if_tracing.
    vars(function).update({"__script_if_tracing_wrapper": True, "__original_fn": original})
    if original in _KERNEL_REGISTRY:  # a transform of the user's may ask for the kernels by this function
        _KERNEL_REGISTRY[function] = _KERNEL_REGISTRY[original]
    return function


def with_routed(method: Any, functional: Any) -> Any:
    """A method of torchvision's that calls ``F``'s functions, with these functions as its ``F``."""
    made = types.FunctionType(
        method.__code__,
        {**method.__globals__, "F": functional},
        method.__name__,
        method.__defaults__,
        method.__closure__,
    )
    made.__kwdefaults__ = method.__kwdefaults__
    return functools.wraps(method)(made)
