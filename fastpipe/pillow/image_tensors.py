"""Pending tensors of images without pixels: operations on them become part of the job that decodes the file.

Otherwise ``to_tensor`` would write each number, and ``normalize`` would read it and write it three times more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from PIL import Image

from fastpipe import core
from fastpipe.ops import (
    ConvertImageDtype,
    Normalize,
    PilToTensor,
    TensorShape,
    ToPureTensor,
    ToTensor,
    interned_once,
)
from fastpipe.pillow.image_record import ImageRecord, image_record_of
from fastpipe.pillow.lazy_image import lazy_of
from fastpipe.program.on_image import shape_of
from fastpipe.program.pending_tensor import class_of, pending_tensor, record_of
from fastpipe.program.pending_work import Account, Record, after_conversion
from fastpipe.program.tensor_source import TensorSource
from fastpipe.torch_modes import is_traced
from fastpipe.types import ImageShape, Step

ByPillow: TypeAlias = "Callable[[], Image.Image]"

LEAST_PIXELS = 1 << 14
"""The smallest images, in pixels, for which a pending tensor is worth its overhead."""

_STACKED = (torch.uint8, torch.float32)
"""The dtypes of pending tensors that can be stacked in a batch's memory."""

_CONVERSIONS: dict[str, tuple[tuple[Step, ...], torch.dtype]] = {
    "to_tensor": ((interned_once(ToTensor),), torch.float32),
    "pil_to_tensor": ((interned_once(PilToTensor), interned_once(ToPureTensor)), torch.uint8),
}


def _shown(
    record: ImageRecord, mode: str, steps: tuple[Step, ...], shape: ImageShape, in_planes: bool = False
) -> TensorSource:
    """The pixels of an image without pixels, after steps to a tensor of the given shape."""
    return TensorSource(record.source, (*record.steps_in(mode), *steps), shape, record, in_planes)


def image_tensor(
    image: object, name: str, account_of: Callable[[ByPillow], Account], in_planes: bool = False
) -> torch.Tensor | None:
    """The pending tensor of a function on an image without pixels; None if the tensor has to be made at once.

    Args:
        image: any object.
        name: ``"to_tensor"`` or ``"pil_to_tensor"``.
        account_of: makes the tensor's account from a function that makes the plain image by Pillow alone.
        in_planes: the tensor lies in planes without gaps, as ``contiguous()`` makes it.
    """
    lazy = lazy_of(image)
    record, shape = image_record_of(lazy), shape_of(lazy)
    if lazy is None or record is None or record.calls is None or shape is None or not core.available():
        return None
    if shape.channels != 3:  # torchvision's strides of one channel are those of a transposed array
        return None
    if shape.height * shape.width < LEAST_PIXELS or not record.source.is_sound:
        return None  # the caller of the function has to see the error
    if torch.get_default_dtype() is not torch.float32 or is_traced():
        return None
    steps, dtype = _CONVERSIONS[name]
    shown = _shown(record, lazy.mode, steps, shape, in_planes)
    ahead = dtype is torch.uint8
    result = TensorShape.of((shape.height, shape.width, shape.channels), dtype, pure=True, ahead=ahead)
    work = after_conversion(shown, (), result, account_of(record.by_pillow))
    return None if work is None else pending_tensor(work)


def drawn_tensor(image: object, steps: tuple[Step, ...], shape: ImageShape, account: Account) -> torch.Tensor | None:
    """The pending tensor of steps on an image without pixels; None if the tensor has to be made at once.

    Args:
        image: any object.
        steps: the steps that were drawn for the image.
        shape: the image's shape, from `shape_of`.
        account: the tensor's account.
    """
    lazy = lazy_of(image)
    record = image_record_of(lazy)
    if lazy is None or record is None or shape.channels != 3 or not record.source.is_sound:
        return None
    if is_traced():
        return None
    shown = _shown(record, lazy.mode, steps, shape)
    program = shown.program(())
    conversion, (height, width, channels) = program.conversion, program.result
    if conversion is None or conversion.dtype not in _STACKED:
        return None
    result = TensorShape.of((height, width, channels), conversion.dtype, pure=not program.tv_image)
    work = after_conversion(shown, (), result, account, program)
    return None if work is None else pending_tensor(work, class_of(result))


def converted(tensor: object, dtype: object, account_of: Callable[[Account], Account]) -> torch.Tensor | None:
    """torchvision's ``convert_image_dtype`` of a pending tensor; None if torchvision's own function has to run."""
    record = record_of(tensor)
    if record is None or record.shape.dtype is not torch.uint8 or dtype is not torch.float32:
        return None
    return _with_step(record, interned_once(ConvertImageDtype, dtype), account_of)


def normalized(tensor: Any, mean: Any, std: Any, account_of: Callable[[Account], Account]) -> torch.Tensor | None:
    """torchvision's ``normalize`` of a pending tensor; None if torchvision's own function has to run, or to raise."""
    record = record_of(tensor)
    if record is None or record.shape.dtype is not torch.float32:
        return None
    for numbers in (mean, std):
        if not isinstance(numbers, (list, tuple)) or not all(isinstance(one, (int, float)) for one in numbers):
            return None
    return _with_step(record, interned_once(Normalize, tuple(mean), tuple(std)), account_of)


def _with_step(record: Record, step: Step, account_of: Callable[[Account], Account]) -> torch.Tensor | None:
    """The pending tensor after an operation that gives floats; None if the tensor isn't a whole image's."""
    if record.source.is_file or record.base is not None:
        return None
    height, width, channels = record.shape
    shape = TensorShape.of((height, width, channels), torch.float32, pure=True)
    account = account_of(record.account)
    work = after_conversion(record.source, (*record.steps, step), shape, account, parent=record)
    return None if work is None else pending_tensor(work)
