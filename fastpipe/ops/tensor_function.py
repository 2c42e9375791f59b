"""Converts a function of torchvision's v2 on a tensor to an operation, before or after the conversion to a tensor.

Right after the conversion to a tensor, a function that gives the same bytes on pixels becomes an operation on pixels,
which runs before the conversion. Any other function becomes a `TensorOperation`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from fastpipe.ops.after_tensor import TensorOperation
from fastpipe.ops.base import Arguments, Operation, interned, interned_if_hashable, interned_once, memo_of
from fastpipe.ops.before_tensor import (
    ON_PIXELS,
    OnPixels,
    PermuteChannels,
    TensorLookUp,
    TensorPad,
    TensorResize,
    as_theirs,
)
from fastpipe.ops.color import AdjustBrightness, Invert, Posterize, Solarize, TableOperation
from fastpipe.ops.geometry import CenterCrop, Crop, HFlip, Pad, Resize, VFlip
from fastpipe.ops.interpolation import interpolation_of
from fastpipe.ops.sizes import padding_ltrb
from fastpipe.ops.tensor_shape import TensorShape
from fastpipe.tensor_kernels.v2_tensors import quarter_turns, resizes_natively
from fastpipe.torch_modes import computes_by_default
from fastpipe.types import ImageShape

MOVES: dict[str, Callable[..., Operation]] = {
    "center_crop": CenterCrop,
    "crop": Crop,
    "horizontal_flip": partial(interned_once, HFlip),
    "vertical_flip": partial(interned_once, VFlip),
}
"""Functions that move whole pixels."""
_SAME_BYTES: dict[str, Callable[..., Operation]] = {
    **MOVES,
    "permute_channels": lambda permutation: PermuteChannels(tuple(permutation)),
}
"""Functions that give the same bytes on pixels, whatever the tensor's dtype."""
_TABLES: dict[str, Callable[..., TableOperation]] = {
    "adjust_brightness": AdjustBrightness,
    "invert": Invert,
    "posterize": Posterize,
    "solarize": lambda threshold: Solarize(_as_torch_compares(threshold)),
}
BY_PIXEL = frozenset(
    {
        "adjust_brightness",
        "adjust_gamma",
        "adjust_hue",
        "adjust_saturation",
        "invert",
        "permute_channels",
        "posterize",
        "solarize",
        "to_dtype",
    }
)
"""Functions for which each pixel of the result depends on the same pixel of the input alone."""
_ROUNDED_BY_PLACE = frozenset({"adjust_hue", "adjust_saturation"})
"""Operations for which torch rounds the last values of a float16 or bfloat16 plane differently from the others."""


def tensor_operation(
    name: str, given: Arguments, shape: TensorShape, size: tuple[int, int, int] | None = None
) -> Operation:
    """The operation for a function on an image tensor.

    Args:
        name: the function's name in ``torchvision.transforms.v2.functional``.
        given: the function's keyword arguments.
        shape: the tensor's shape.
        size: the result's height, width and channels for a function without an operation on pixels; None for the
            tensor's.
    """
    ahead = _on_pixels(name, given, shape) if shape.ahead else None
    if ahead is not None:
        return ahead
    like = _like(name, given)
    sized = Pad(given["padding"]) if name == "pad" else like
    if sized is not None:
        height, width, channels = sized.output_shape(ImageShape(*shape))
    else:
        height, width, channels = size or shape
    by_place = name in _ROUNDED_BY_PLACE and shape.dtype in (torch.float16, torch.bfloat16)
    return TensorOperation(name, given, (height, width, channels), like, name in BY_PIXEL and not by_place)


def _like(name: str, given: Arguments) -> Operation | None:
    """The operation on pixels that does the same, perhaps with other bytes."""
    if name in _SAME_BYTES:
        return _SAME_BYTES[name](**given)
    if name == "resize":
        return Resize(given["size"], interpolation_of(given.get("interpolation", "bilinear")))
    if name == "pad" and not any(_colors(given)):
        return Pad(given["padding"], 0, given.get("padding_mode", "constant"))
    return None


def _colors(given: Arguments) -> list[float]:
    """The border's fill; black if the border repeats the image's own pixels."""
    fill = given.get("fill")
    if isinstance(fill, (list, tuple)):
        return list(fill)
    return [0] if fill is None or given.get("padding_mode", "constant") != "constant" else [fill]


def _on_pixels(name: str, given: Arguments, shape: TensorShape) -> Operation | None:
    """The operation on pixels that gives the same bytes; None if there is none."""
    if name in _SAME_BYTES:
        return _SAME_BYTES[name](**given)
    if name == "pad":
        return _padded(given, shape)
    if shape.dtype != torch.uint8 or not computes_by_default():
        return None
    if name == "resize":
        mode = interpolation_of(given.get("interpolation", "bilinear"))
        native = given.get("antialias", True) and resizes_natively(mode.value)
        return interned_if_hashable(TensorResize, list(given["size"]), mode) if native else None
    if name == "solarize" and given["threshold"] > 255:
        return None  # torchvision refuses it for tensors
    if name in _TABLES:
        like = _TABLES[name](**given)
        return None if like.table() is None else TensorLookUp((like,))
    return OnPixels(name, given) if name in ON_PIXELS and not (name == "rotate" and _is_transposed(given)) else None


def _as_torch_compares(number: float) -> float:
    """The number in the default dtype, in which torch compares it with integers; Pillow compares doubles."""
    return torch.tensor(number, dtype=torch.get_default_dtype()).item()


def _padded(given: Arguments, shape: TensorShape) -> Operation | None:
    mode, colors = given.get("padding_mode", "constant"), _colors(given)
    left, top, right, bottom = padding_ltrb(given["padding"])
    if min(left, top, right, bottom) < 0:
        return None
    mirrored = {"reflect": 1, "symmetric": 0}.get(mode)  # edge rows or columns that the mirror skips
    if mirrored is not None and (
        max(left, right) > shape.width - mirrored or max(top, bottom) > shape.height - mirrored
    ):
        return None  # torch refuses it for tensors
    if not any(colors):
        return TensorPad(given["padding"], 0, mode) if mode == "constant" or shape.dtype == torch.uint8 else None
    if not all(isinstance(color, (int, float)) and 0 <= color <= 255 and color == int(color) for color in colors):
        return None
    if shape.dtype != torch.uint8 or mode != "constant" or len(colors) not in (1, shape.channels):
        return None
    whole = tuple(map(int, colors))
    return TensorPad(given["padding"], whole[0] if len(whole) == 1 or shape.channels == 1 else whole)


def _is_transposed(given: Arguments) -> bool:
    """True if ``rotate`` may leave a tensor in another memory layout, or change its size."""
    return bool(given.get("expand")) or quarter_turns(given["angle"], given.get("center")) in (1, 3)


# -- operations on pixels

_NAMES = {"hflip": "horizontal_flip", "vflip": "vertical_flip"}


def as_tensor_operation(operation: Operation, shape: TensorShape) -> Operation:
    """The operation for the same function on a tensor; interned if the given one is."""
    if shape.ahead and isinstance(operation, (CenterCrop, Crop, HFlip, VFlip)):
        return operation
    memo = memo_of(operation)
    if memo is None:
        return _as_tensor_operation(operation, shape)
    # A resize to a fixed size is the same on tensors of any size.
    size = (shape.channels,) if isinstance(operation, Resize) and operation.fixed else tuple(shape)
    key = *size, shape.dtype, shape.ahead
    known = memo.on_tensor.get(key)
    if known is None:
        known = memo.on_tensor.keep(key, _as_tensor_operation(operation, shape))
        if memo_of(known) is None:  # it may be a shared, interned operation already
            interned(known)
    return known


def _as_tensor_operation(operation: Operation, shape: TensorShape) -> Operation:
    name = _NAMES.get(operation.op, operation.op)
    given = operation.arguments()
    if isinstance(operation, Resize):
        given = {"size": list(operation.output_shape(shape).size), "interpolation": operation.interpolation}
    return tensor_operation(name, as_theirs(given), shape)
