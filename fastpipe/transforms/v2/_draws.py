"""Draws of the most common v2 transforms, in plain Python from a stream.

`_planned.steps_of` can draw for every transform by running torchvision's own code on an image without pixels. The draws
here give the same numbers and steps in a tenth of the time. Each returns None for cases that it doesn't cover; then
torchvision's code draws.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import PIL.Image
import torch
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2._utils import _get_fill

from fastpipe import ops
from fastpipe.errors import PlanError
from fastpipe.ops.interpolation import interpolation_of
from fastpipe.ops.sizes import resized_size
from fastpipe.rng import Stream
from fastpipe.rng.float32 import log_ratio
from fastpipe.tensor_kernels.v2_tensors import mode_of
from fastpipe.transforms import color, erasing, geometry
from fastpipe.transforms._operations import Listed, op_calls
from fastpipe.transforms.v2._proxies import whole_colour
from fastpipe.types import ImageShape, Step

Steps: TypeAlias = tuple[Step, ...]
Draw: TypeAlias = "Callable[[v2.Transform, ImageShape, Stream], Steps | None]"
"""Draws for one of torchvision's transforms; None if torchvision's own code has to draw."""
_HFLIP, _VFLIP = map(ops.interned_once, (ops.HFlip, ops.VFlip))
_TO_IMAGE, _AS_TV_IMAGE, _TO_PURE = map(ops.interned_once, (ops.ToImage, ops.AsTvImage, ops.ToPureTensor))
_PIL_TO_TENSOR, _TO_TENSOR = map(ops.interned_once, (ops.PilToTensor, ops.ToFloatTensor))


def _for_shape(shape: ImageShape, steps: Steps) -> Steps:
    """The steps themselves for an image with pixels; converted to tensor operations if the image is a tensor by now."""
    if not isinstance(shape, ops.TensorShape):
        return steps
    operations: list[ops.Operation] = []
    for step in steps:
        if operations:
            shape = operations[-1].output_shape(shape)
        assert isinstance(step, ops.Operation)
        assert isinstance(shape, ops.TensorShape)
        operations.append(ops.as_tensor_operation(step, shape))
    return tuple(operations)


def _flip(operation: ops.Operation) -> Draw:
    def draw(transform: v2.RandomHorizontalFlip | v2.RandomVerticalFlip, shape: ImageShape, stream: Stream) -> Steps:
        return _for_shape(shape, (operation,)) if stream.bernoulli(transform.p) else ()

    return draw


def _resized_crop(transform: v2.RandomResizedCrop, shape: ImageShape, stream: Stream) -> Steps | None:
    if not transform.antialias or torch.get_default_dtype() != torch.float32:
        return None
    logarithms = log_ratio(tuple(transform.ratio), torch.float32)
    height, width, _ = shape
    box = geometry._draw_resized_crop(height, width, transform.scale, transform.ratio, logarithms, stream)
    size = tuple(transform.size)
    if box[2:] == size:
        return _for_shape(shape, (ops.Crop(*box),))
    return _for_shape(
        shape, (ops.Crop(*box), ops.resize_to(list(size), interpolation_of(mode_of(transform.interpolation))))
    )


def _resize_to(transform: v2.Resize, shape: ImageShape, stream: Stream) -> Steps | None:
    size = transform.size
    if not transform.antialias or size is None or transform.max_size:
        return None
    height, width = resized_size(shape.height, shape.width, size)
    if (height, width) == shape.size:
        return ()
    return _for_shape(shape, (ops.resize_to([height, width], interpolation_of(mode_of(transform.interpolation))),))


def _center_crop(transform: v2.CenterCrop, shape: ImageShape, stream: Stream) -> Steps | None:
    return _for_shape(shape, (ops.center_crop_to(tuple(transform.size)),))


def _random_crop(transform: v2.RandomCrop, shape: ImageShape, stream: Stream) -> Steps | None:
    if isinstance(shape, ops.TensorShape) and transform.padding_mode != "constant":
        return None
    whole: ImageShape = shape
    steps: Steps = ()
    height, width = transform.size
    left, right, top, bottom = transform.padding or (0, 0, 0, 0)
    if transform.pad_if_needed:
        missing = max(height - (shape.height + top + bottom), 0), max(width - (shape.width + left + right), 0)
        top, bottom, left, right = top + missing[0], bottom + missing[0], left + missing[1], right + missing[1]
    if left or right or top or bottom:
        fill = _get_fill(vars(transform)["_fill"], _class_of(shape))
        colour = whole_colour(fill, shape.channels)
        if colour is None or (isinstance(shape, ops.TensorShape) and fill not in (None, 0)):
            return None
        steps = (ops.pad_by([left, top, right, bottom], colour, transform.padding_mode),)
        shape = ImageShape(shape.height + top + bottom, shape.width + left + right, shape.channels)
    if shape.height < height or shape.width < width:
        return None
    row = stream.randint(0, shape.height - height + 1) if shape.height > height else 0
    column = stream.randint(0, shape.width - width + 1) if shape.width > width else 0
    if (height, width) == shape.size:
        return _for_shape(whole, steps)
    places = (shape.height - height + 1) * (shape.width - width + 1)
    return _for_shape(whole, (*steps, ops.crop_at(row, column, height, width, places)))


def _class_of(shape: ImageShape) -> type:
    """The class of an image of that shape, which a fill may depend on."""
    if not isinstance(shape, ops.TensorShape):
        return PIL.Image.Image
    return torch.Tensor if shape.pure else tv_tensors.Image


def _color_jitter(transform: v2.ColorJitter, shape: ImageShape, stream: Stream) -> Steps | None:
    return _for_shape(shape, color.draw_jitter(transform, stream))


def _to_image(transform: object, shape: ImageShape, stream: Stream) -> Steps:
    if not isinstance(shape, ops.TensorShape):
        return (_TO_IMAGE,)
    return (_AS_TV_IMAGE,) if shape.pure else ()


def _pil_to_tensor(transform: object, shape: ImageShape, stream: Stream) -> Steps:
    return () if isinstance(shape, ops.TensorShape) else (_PIL_TO_TENSOR, _TO_PURE)


def _to_tensor(transform: object, shape: ImageShape, stream: Stream) -> Steps:
    return () if isinstance(shape, ops.TensorShape) else (_TO_TENSOR,)


def _to_pure_tensor(transform: object, shape: ImageShape, stream: Stream) -> Steps:
    return (_TO_PURE,) if isinstance(shape, ops.TensorShape) and not shape.pure else ()


def _to_dtype(transform: v2.ToDtype, shape: ImageShape, stream: Stream) -> Steps | None:
    if not isinstance(shape, ops.TensorShape) or not isinstance(transform.dtype, torch.dtype):
        return None
    return () if shape.dtype == transform.dtype else (ops.interned_once(ops.ToDtype, transform.dtype, transform.scale),)


def _normalize(transform: v2.Normalize, shape: ImageShape, stream: Stream) -> Steps | None:
    if not isinstance(shape, ops.TensorShape) or not shape.dtype.is_floating_point:
        return None
    if not {1, shape.channels}.issuperset((len(transform.mean), len(transform.std))):
        raise PlanError("Normalize can't be planned: it makes several channels of one, as torchvision's broadcasts.")
    return (ops.interned_once(ops.Normalize, tuple(transform.mean), tuple(transform.std)),)


def _random_erasing(transform: v2.RandomErasing, shape: ImageShape, stream: Stream) -> Steps | None:
    value = transform.value
    if not isinstance(shape, ops.TensorShape) or torch.get_default_dtype() != torch.float32:
        return None
    if value is not None and len(value) not in (1, shape.channels):
        return None
    if not stream.bernoulli(transform.p):
        return ()
    logarithms = log_ratio(tuple(transform.ratio), torch.float32)
    i, j, h, w, v = erasing._draw_rectangle(
        shape.channels, shape.height, shape.width, transform.scale, logarithms, value, stream
    )
    return () if v is None else (ops.Erase(i, j, h, w, v),)


# -- policies


@lru_cache(maxsize=256)
def _listed(policy: type[Any], bins: int, size: tuple[int, int], dtype: torch.dtype) -> Listed:
    """The operations of a policy, with their magnitudes for images of that size, and whether the sign is random."""
    listed = []
    for name, (magnitudes_of, signed) in policy._AUGMENTATION_SPACE.items():
        magnitudes = magnitudes_of(bins, *size)
        values = None if magnitudes is None else tuple(map(float, magnitudes.tolist()))
        if values is not None and name == "Solarize":
            values = tuple(255.0 * value for value in values)
        listed.append((name, values, signed))
    return tuple(listed)


def _policy(
    transform: v2.RandAugment | v2.TrivialAugmentWide, shape: ImageShape, bins: int
) -> tuple[Listed, Callable[[str, float], Steps]] | None:
    """The policy's operations, and a function that makes the steps of one; None if torchvision's code has to draw."""
    fill = _get_fill(vars(transform)["_fill"], _class_of(shape))
    if not _REPLACEABLE.isdisjoint(vars(transform)):
        return None
    if isinstance(shape, ops.TensorShape) and shape.dtype != torch.uint8:
        return None
    if type(fill) not in (type(None), int, float) or type(bins) is not int or bins < 2:
        return None
    interpolation = interpolation_of(mode_of(transform.interpolation))
    cls: object = type(transform)
    listed = _listed(cls, bins, shape[:2], torch.get_default_dtype())

    def calls(name: str, magnitude: float) -> Steps:
        return _for_shape(shape, op_calls(name, magnitude, interpolation, fill, ops.AffineOfV2))

    return listed, calls


_REPLACEABLE = frozenset({"_AUGMENTATION_SPACE", "_apply_image_or_video_transform", "_get_random_item"})


def _signed(magnitude: float, signed: bool, stream: Stream) -> float:
    return -magnitude if signed and stream.rand() <= 0.5 else magnitude


def _rand_augment(transform: v2.RandAugment, shape: ImageShape, stream: Stream) -> Steps | None:
    bins, level = transform.num_magnitude_bins, transform.magnitude
    policy = _policy(transform, shape, bins)
    if policy is None or type(level) is not int or not 0 <= level < bins:
        return None
    listed, calls = policy
    steps: Steps = ()
    for _ in range(transform.num_ops):
        name, magnitudes, signed = listed[stream.randint(0, len(listed))]
        steps += calls(name, 0.0 if magnitudes is None else _signed(magnitudes[level], signed, stream))
    return steps


def _trivial_augment(transform: v2.TrivialAugmentWide, shape: ImageShape, stream: Stream) -> Steps | None:
    bins = transform.num_magnitude_bins
    policy = _policy(transform, shape, bins)
    if policy is None:
        return None
    listed, calls = policy
    name, magnitudes, signed = listed[stream.randint(0, len(listed))]
    if magnitudes is None:
        return calls(name, 0.0)
    return calls(name, _signed(magnitudes[stream.randint(0, bins)], signed, stream))


QUICK: dict[type, Draw] = {
    v2.CenterCrop: _center_crop,
    v2.ColorJitter: _color_jitter,
    v2.Normalize: _normalize,
    v2.PILToTensor: _pil_to_tensor,
    v2.RandAugment: _rand_augment,
    v2.RandomCrop: _random_crop,
    v2.RandomErasing: _random_erasing,
    v2.RandomHorizontalFlip: _flip(_HFLIP),
    v2.RandomResizedCrop: _resized_crop,
    v2.RandomVerticalFlip: _flip(_VFLIP),
    v2.Resize: _resize_to,
    v2.ToDtype: _to_dtype,
    v2.ToImage: _to_image,
    v2.ToPureTensor: _to_pure_tensor,
    v2.ToTensor: _to_tensor,
    v2.TrivialAugmentWide: _trivial_augment,
}
