"""v2's functions and classes on PIL images and uint8 tensors: by the core if it gives torchvision's bytes.

For a PIL image, one call of the core reads its memory and writes a new image. torchvision handles all that the core
doesn't take (other modes, invalid arguments, too few pixels to be worth a call), with its own errors and warnings.
torchvision's own functions and classes aren't changed.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import PIL.Image
import torch
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as theirs
from torchvision.transforms.v2.functional._utils import _KERNEL_REGISTRY

from fastpipe import core, ops
from fastpipe.mistakes import attempt
from fastpipe.ops.base import Arguments
from fastpipe.ops.interpolation import InterpolationMode
from fastpipe.program import lower, run_on_image, run_operation, shape_of
from fastpipe.tensor_kernels import v2_tensors
from fastpipe.torch_modes import has_function_modes
from fastpipe.transforms.v2._proxies import OPERATIONS, PilStandIn, given_by_name, pad_of, resize_of, whole_colour
from fastpipe.types import Box

Function: TypeAlias = Callable[..., Any]


def by_fastpipe(function: Function, image: object, args: tuple[object, ...], kwargs: Arguments) -> object:
    """The result of one of torchvision's functions on a PIL image or tensor; None if torchvision has to compute it."""
    if torch.compiler.is_compiling():
        return None
    run: Function = _on_image if isinstance(image, PIL.Image.Image) else _on_tensor
    return attempt(partial(run, function, image, args, kwargs), partial(function, image, *args, **kwargs))


@functools.cache
def routed(original: Function) -> Function:
    """Routes one of torchvision's functions to the core, if the core has it; TorchScript compiles torchvision's own."""
    if original not in _KERNELS and not _is_known(getattr(original, "__name__", "")):
        return original

    @functools.wraps(original)
    def function(*args: object, **kwargs: object) -> object:
        result = by_fastpipe(original, args[0], args[1:], kwargs) if args else None
        return original(*args, **kwargs) if result is None else result

    function.__module__ = "fastpipe.transforms.v2.functional"
    # TorchScript compiles torchvision's function where there is this attribute, as in script_if_tracing. It is
    # False for torch.compile, which in torch 2.6 ends at a dictionary, as below, that has a key with the value True.
    vars(function).update({"__script_if_tracing_wrapper": False, "__original_fn": original})
    if original in _KERNEL_REGISTRY:  # a user's transform may look up kernels by this function
        _KERNEL_REGISTRY[function] = _KERNEL_REGISTRY[original]
    return function


def with_functional(method: types.FunctionType, functional: types.ModuleType) -> Function:
    """Copies a method of torchvision's so that its global ``F`` is the given module."""
    copied = types.FunctionType(
        method.__code__,
        {**method.__globals__, "F": functional},
        method.__name__,
        method.__defaults__,
        method.__closure__,
    )
    copied.__kwdefaults__ = method.__kwdefaults__
    return functools.wraps(method)(copied)


# -- tensors

_CLASSES = (torch.Tensor, tv_tensors.Image, tv_tensors.Video)
_KERNELS = {getattr(theirs, name): name for name in v2_tensors.KERNELS}


def _on_tensor(function: Function, image: object, args: tuple[object, ...], kwargs: Arguments) -> torch.Tensor | None:
    """The result of one of torchvision's functions on images in main memory, of the input's class.

    None for any other input, and for arguments for which torchvision has to raise or warn.
    """
    name = _KERNELS.get(function)
    if name is None or type(image) not in _CLASSES or not isinstance(image, torch.Tensor):
        return None
    if type(image) not in _KERNEL_REGISTRY[function]:  # torchvision leaves videos unchanged in some functions
        return None
    by_core = v2_tensors.run(name, image.as_subclass(torch.Tensor), *args, **kwargs)
    return by_core if by_core is None or type(image) is torch.Tensor else tv_tensors.wrap(by_core, like=image)


# -- PIL images

_PIL_TO_TENSOR = ops.interned_once(ops.PilToTensor)


def _on_image(
    function: Function, image: PIL.Image.Image, args: tuple[object, ...], kwargs: Arguments
) -> PIL.Image.Image | torch.Tensor | None:
    """The result of one of torchvision's functions on a PIL image; None if torchvision has to compute it."""
    name = function.__name__
    if isinstance(image, PilStandIn) or not _is_known(name):
        return None
    run = _RUNS.get(name)
    width, height = image.size
    if name in _ON_LARGE and width * height < _LARGE:
        return None
    given = given_by_name(name, args, kwargs)
    return run_operation(OPERATIONS[name](**given), image) if run is None else run(image, **given)


_LARGE = ops.least_pixels_of_warp(InterpolationMode.BILINEAR, 3)
"""The fewest pixels for which the core does any of `_ON_LARGE`."""
_ON_LARGE = frozenset({"affine", "perspective", "rotate"})
"""Functions for which parsing the arguments takes longer than Pillow takes for fewer pixels than `_LARGE`."""

_PILLOWS = frozenset({"center_crop", "crop", "vertical_flip"})
"""Functions that move whole rows, which Pillow does fastest; see `Operation.least_pixels`."""


def _is_known(name: str) -> bool:
    """True if `_on_image` handles the function of that name."""
    return name in _RUNS or (name in OPERATIONS and name not in _PILLOWS)


def _resize(
    image: PIL.Image.Image,
    size: object,
    interpolation: object = v2_tensors.BILINEAR,
    max_size: object = None,
    antialias: object = True,
) -> PIL.Image.Image | None:
    if antialias is False:  # torchvision warns
        return None
    operation = resize_of(image.size[::-1], size, interpolation, max_size)
    return None if operation is None else run_operation(operation, image)


def _resized_crop(
    image: PIL.Image.Image,
    top: int,
    left: int,
    height: int,
    width: int,
    size: object,
    interpolation: object = v2_tensors.BILINEAR,
    antialias: object = True,
) -> PIL.Image.Image | None:
    if antialias is False:
        return None
    operation = resize_of((height, width), size, interpolation)
    return None if operation is None else run_operation(operation, image, Box(top, left, height, width))


def _pad(
    image: PIL.Image.Image, padding: object, fill: object = None, padding_mode: str = "constant"
) -> PIL.Image.Image | None:
    if padding_mode == "constant":
        return None
    colour = whole_colour(fill, len(image.getbands()))
    return None if colour is None else run_operation(pad_of(padding, colour, padding_mode), image)


def _to_tensor_in_rows(image: PIL.Image.Image) -> torch.Tensor | None:
    shape = shape_of(image)
    if shape is None or not core.available() or has_function_modes():  # e.g. a default device
        return None
    tensor: torch.Tensor = run_on_image(lower((_PIL_TO_TENSOR,), shape), image, in_rows=True)
    return tensor


def _to_image(image: PIL.Image.Image) -> torch.Tensor | None:
    tensor = _to_tensor_in_rows(image)
    if tensor is None:
        return None
    wrapped: torch.Tensor = tensor.as_subclass(tv_tensors.Image)
    return wrapped


_RUNS: dict[str, Callable[..., PIL.Image.Image | torch.Tensor | None]] = {
    "pad": _pad,
    "pil_to_tensor": _to_tensor_in_rows,
    "resize": _resize,
    "resized_crop": _resized_crop,
    "to_image": _to_image,
}
