"""Samples without pixels: an image that hasn't been decoded, boxes, and masks that haven't been made.

torchvision transforms boxes and labels at once, because they are small. Masks are as large as the image; like the image
they are replaced by stand-ins, and made when it is known which part of them is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils._pytree import tree_map
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F
from torchvision.transforms.v2.functional._utils import _KERNEL_REGISTRY, _register_kernel_internal

from fastpipe import ops
from fastpipe.errors import DatasetError
from fastpipe.ops.tensor_function import MOVES
from fastpipe.rng.torch_patch import torch_draws_from
from fastpipe.tensor_kernels.v2_tensors import NEAREST, rotated_size
from fastpipe.transforms.sized_image import Untraceable
from fastpipe.transforms.v2._proxies import (
    STAND_INS,
    cropped_first,
    given_by_name,
    image_steps,
    named,
    pad_of,
    resize_of,
    stand_in,
)
from fastpipe.types import Generators, ImageShape, LoadMask, Step


class _Later:
    """A mask that hasn't been made: a tensor without memory, with the function and operations that will make it."""

    load: LoadMask
    whole: tuple[int, int]
    steps: tuple[Step, ...]
    keep: torch.Tensor | None
    dtype: torch.dtype
    shape: Any

    def __getitem__(self, index: object) -> torch.Tensor:
        if not isinstance(index, torch.Tensor) or index.dtype != torch.bool or index.device.type == "meta":
            raise Untraceable("a part of the masks is wanted that isn't known ahead")
        if index.ndim != 1 or len(index) != self.shape[0]:
            raise IndexError("the mask of booleans has another length than the masks")
        places = torch.arange(self.shape[0]) if self.keep is None else self.keep
        return _mask(self, (int(index.sum()), *self.shape[1:]), self.steps, places[index], self.dtype, type(self))

    def as_subclass(self, cls: type) -> Any:
        kind = MaskStandIn if issubclass(cls, tv_tensors.Mask) else PureMaskStandIn
        return _mask(self, tuple(self.shape), self.steps, self.keep, self.dtype, kind)


@named
class MaskStandIn(_Later, tv_tensors.Mask):  # type: ignore[misc]
    """A stand-in for a ``tv_tensors.Mask`` ``(N, H, W)``."""

    stands_for = tv_tensors.Mask


@named
class PureMaskStandIn(_Later, torch.Tensor):
    """A stand-in for a plain tensor that was made from a mask."""

    stands_for = torch.Tensor


def _mask(
    like: Any, size: tuple[int, ...], steps: tuple[Step, ...], keep: torch.Tensor | None, dtype: torch.dtype, kind: type
) -> torch.Tensor:
    mask: torch.Tensor = torch.Tensor._make_subclass(kind, torch.empty(size, dtype=dtype, device="meta"))
    vars(mask).update(load=like.load, whole=like.whole, steps=steps, keep=keep)
    return mask


def mask_stand_in(load: LoadMask, count: int, size: tuple[int, int]) -> torch.Tensor:
    """A stand-in for ``count`` masks of that ``(height, width)``, which ``load`` makes when they are needed."""
    return _mask(SimpleNamespace(load=load, whole=size), (count, *size), (), None, torch.uint8, MaskStandIn)


@dataclass(frozen=True, slots=True, eq=False)
class _MaskOperation(ops.TensorOperation):
    """One of torchvision's v2 functions on a mask."""

    def apply(self, image: object) -> object:
        return getattr(F, self.name)(tv_tensors.Mask(image), **self.given).as_subclass(torch.Tensor)


_SAME_SIZE = {"affine", "elastic", "perspective", "horizontal_flip", "vertical_flip", "to_dtype"}


def _on_mask(name: str, mask: MaskStandIn | PureMaskStandIn, /, *args: object, **kwargs: object) -> torch.Tensor:
    given = given_by_name(name, args, kwargs)
    if name == "resized_crop":
        return cropped_first(_on_mask, mask, given)
    count, height, width = mask.shape
    like = None
    if name in MOVES:
        like = MOVES[name](**given)
    elif name == "pad" and given.get("fill") in (0, None):
        like = pad_of(given["padding"], 0, given.get("padding_mode", "constant"))
    elif name == "resize":
        like = resize_of((height, width), given["size"], NEAREST, given.get("max_size"))
        if like is None:
            return mask
        given = {**given, "size": like.size, "max_size": None}
    if like is not None:
        height, width, _ = like.output_shape(ImageShape(height, width))
    elif name == "rotate":
        height, width = rotated_size((height, width), **given)
    elif name not in _SAME_SIZE:
        empty = torch.empty(tuple(mask.shape), dtype=mask.dtype, device="meta")
        height, width = getattr(F, name)(tv_tensors.Mask(empty), **given).shape[-2:]
    step = _MaskOperation(name, given, (height, width, count), like, by_pixel=name == "to_dtype")
    dtype = given["dtype"] if name == "to_dtype" else mask.dtype
    return _mask(mask, (count, height, width), (*mask.steps, step), mask.keep, dtype, type(mask))


def _register() -> None:
    for functional, kernels in list(_KERNEL_REGISTRY.items()):
        name = functional.__name__
        if getattr(F, name, None) is not functional:  # fastpipe's own function shares its kernels
            continue
        if tv_tensors.Mask in kernels and not name.startswith("get_"):
            _register_kernel_internal(functional, MaskStandIn, tv_tensor_wrapper=False)(partial(_on_mask, name))


_register()


def draw_sample(
    transforms: Sequence[Callable[..., Any]], shape: ImageShape, targets: tuple[object, ...], generators: Generators
) -> tuple[tuple[Step, ...], object]:
    """Runs v2 transforms on stand-ins for an image of that shape and for masks, drawing from generators.

    Returns:
        The steps of the image; and the result of the transforms, with stand-ins for the image and for masks.

    Raises:
        Untraceable: a transform needs pixels; the generators' states have advanced.
    """
    sample: tuple[object, ...] = (stand_in(shape), *targets)
    alone = not targets
    with torch_draws_from(generators):
        for transform in transforms:
            changed = transform(*sample)
            sample = (changed,) if alone else changed
    result = sample[0] if alone else sample
    return image_steps(result), result


def with_pixels(
    sample: object, image: object, finish: Callable[[MaskStandIn | PureMaskStandIn], torch.Tensor]
) -> object:
    """Replaces the stand-ins in a sample: by the image, and by masks that ``finish`` makes."""

    def put(leaf: object) -> object:
        if isinstance(leaf, STAND_INS):
            return image
        if isinstance(leaf, (MaskStandIn, PureMaskStandIn)):
            result = finish(leaf)
            return tv_tensors.Mask(result) if isinstance(leaf, MaskStandIn) else result
        return leaf

    return tree_map(put, sample)


# -- targets as torchvision's classes


def _needs_newer(what: str) -> DatasetError:
    return DatasetError(f"{what} take torchvision 0.23 or later; {version('torchvision')} is installed.")


def box_tensor(boxes: object, format: str, size: tuple[int, int], **options: object) -> torch.Tensor:
    """Makes ``tv_tensors.BoundingBoxes`` for an image of that ``(height, width)``.

    Raises:
        DatasetError: the installed torchvision has no boxes of that format.
    """
    if format not in tv_tensors.BoundingBoxFormat.__members__:
        raise _needs_newer(f"boxes of the format {format}")
    tensor: torch.Tensor = tv_tensors.BoundingBoxes(boxes, format=format, canvas_size=tuple(size), **options)
    return tensor


def mask_tensor(mask: object) -> torch.Tensor:
    """Makes a ``tv_tensors.Mask`` of a PIL image or a tensor."""
    tensor: torch.Tensor = tv_tensors.Mask(mask)
    return tensor


def xyxy(boxes: object) -> torch.Tensor:
    """Converts boxes to the format XYXY."""
    corners: torch.Tensor = F.convert_bounding_box_format(boxes, new_format=tv_tensors.BoundingBoxFormat.XYXY)
    return corners


def keypoint_tensor(points: object, size: tuple[int, int]) -> torch.Tensor:
    """Makes ``tv_tensors.KeyPoints`` for an image of that ``(height, width)``.

    Raises:
        DatasetError: the installed torchvision has no such class.
    """
    if not hasattr(tv_tensors, "KeyPoints"):
        raise _needs_newer("key points")
    tensor: torch.Tensor = tv_tensors.KeyPoints(points, canvas_size=tuple(size))
    return tensor
