"""torchvision's v2 functions on loaded PIL images: from an image's memory to a new one's, in one call of the core.

What the core doesn't take (another mode, arguments that are wrong, pixels too few to be worth a call) is left to
torchvision, and so are its errors and warnings. torchvision's own functions and classes stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import PIL.Image
import torch
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F

from fastpipe import core, ops
from fastpipe.ops.interpolation import interpolation_of
from fastpipe.program import lower, run_on_image, run_operation, shape_of
from fastpipe.transforms.v2._proxies import OPERATIONS, PilStandIn, given_by_name, pad_of, whole_colour
from fastpipe.types import Box

_PIL_TO_TENSOR = ops.interned_once(ops.PilToTensor)


def run_function(name: str, image: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of torchvision's v2 function of that name on a PIL image; None where torchvision is to be called."""
    if not isinstance(image, PIL.Image.Image) or isinstance(image, PilStandIn):
        return None
    if not is_known(name):
        return None
    run = _RUNS.get(name)
    width, height = image.size
    if name in _ON_LARGE and width * height < _LARGE:
        return None
    try:
        given = given_by_name(name, args, kwargs)
        return run_operation(OPERATIONS[name](**given), image) if run is None else run(image, **given)
    except Exception:  # torchvision says what is wrong
        return None


_LARGE = 2000
_ON_LARGE = frozenset({"affine", "perspective", "rotate"})
"""Functions whose arguments take longer to read than Pillow takes for fewer pixels."""

_PILLOWS = frozenset({"center_crop", "crop", "vertical_flip"})
"""Functions that move whole rows, which nobody does faster than Pillow; see `Operation.least_pixels`."""


def is_known(name: str) -> bool:
    """Whether `run_function` has the function of that name."""
    return name in _RUNS or (name in OPERATIONS and name not in _PILLOWS)


def _resize(image: Any, size: Any, interpolation: Any = "bilinear", max_size: Any = None, antialias: Any = True) -> Any:
    if antialias is False:  # of which torchvision warns
        return None
    width, height = image.size
    sides = F._geometry._compute_resized_output_size((height, width), size=size, max_size=max_size)
    return run_operation(ops.resize_to(list(sides), interpolation_of(interpolation)), image)


def _resized_crop(
    image: Any,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    interpolation: Any = "bilinear",
    antialias: Any = True,
) -> Any:
    if antialias is False:
        return None
    sides = F._geometry._compute_resized_output_size((height, width), size=size)
    operation = ops.resize_to(list(sides), interpolation_of(interpolation))
    return run_operation(operation, image, Box(top, left, height, width))


def _pad(image: Any, padding: Any, fill: Any = None, padding_mode: str = "constant") -> Any:
    if padding_mode == "constant":
        return None
    colour = whole_colour(fill, len(image.getbands()))
    return None if colour is None else run_operation(pad_of(padding, colour, padding_mode), image)


def _to_tensor_in_rows(image: Any) -> Any:
    shape = shape_of(image)
    if shape is None or not core.available() or torch._C._len_torch_function_stack():  # such as of a default device
        return None
    return run_on_image(lower((_PIL_TO_TENSOR,), shape), image, in_rows=True)


def _to_image(image: Any) -> Any:
    made = _to_tensor_in_rows(image)
    return None if made is None else made.as_subclass(tv_tensors.Image)


_RUNS: dict[str, Callable[..., Any]] = {
    "pad": _pad,
    "pil_to_tensor": _to_tensor_in_rows,
    "resize": _resize,
    "resized_crop": _resized_crop,
    "to_image": _to_image,
}
