"""Tensors without pixels of images without pixels: what is done to them goes into the job that decodes the file.

``to_tensor`` and ``pil_to_tensor`` would write each number for ``normalize`` to read it, and write it three times more.
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
from fastpipe.pillow.lazy_image import lazy_of, plain_way, shown_steps, source_of
from fastpipe.pillow.lazy_source import LazySource
from fastpipe.program.lower import lower
from fastpipe.program.on_image import run_on_image, shape_of
from fastpipe.program.pending_tensor import pending_tensor, record_of
from fastpipe.program.pending_work import Account, Record, TensorSource, behind_conversion
from fastpipe.program.program import Program
from fastpipe.types import ImageShape, Step

ByPillow: TypeAlias = "Callable[[], Image.Image]"

LEAST_PIXELS = 1 << 14
"""The smallest images that are worth the work around their tensors."""

_STACKED = (torch.uint8, torch.float32)
"""Dtypes of tensors without pixels of which a batch is made in its own memory."""

_CONVERSIONS: dict[str, tuple[tuple[Step, ...], torch.dtype]] = {
    "to_tensor": ((interned_once(ToTensor),), torch.float32),
    "pil_to_tensor": ((interned_once(PilToTensor), interned_once(ToPureTensor)), torch.uint8),
}


class _ShownPixels(TensorSource):
    """The pixels that an image without pixels shows.

    Args:
        source: the file.
        first: steps from its pixels to the tensor.
        shape: of the image.
    """

    def __init__(self, source: LazySource, first: tuple[Step, ...], shape: ImageShape) -> None:
        self.shape = shape
        self.array = None
        self.is_turned = False
        self._source, self._first = source, first

    def program(self, steps: tuple[Step, ...]) -> Program:
        source = self._source
        return lower((*self._first, *steps), source.shape, orientation=source.orientation)

    def run(
        self, steps: tuple[Step, ...], program: Program, out: torch.Tensor | None = None, *, in_rows: bool = False
    ) -> object:
        source = self._source
        try:
            return source.run(program, out, in_rows=in_rows)
        except Exception as error:  # ours, or Pillow's, which raises it again
            whole = None if source.on_mistake is None else source.opened_by_pillow()
            if source.on_mistake is None or whole is None:
                raise
            made = run_on_image(program, whole.convert("RGB"), out, in_rows=in_rows)
            source.on_mistake(error)
            return made

    def held_bytes(self) -> int:
        return len(self._source.encoded.data)

    def fill(self, job: core.Job, program: Program) -> bool:
        try:
            return self._source.fill(job, program)
        except Exception as error:  # ours: `run` is to do it
            if self._source.on_mistake is None:
                raise
            self._source.on_mistake(error)
            return False

    def decode(self) -> bool:
        raise NotImplementedError("each tensor is made from the file")


def image_tensor(image: object, name: str, account_of: Callable[[ByPillow], Account]) -> torch.Tensor | None:
    """The tensor without pixels that a function gives of an image without pixels; None where it is to be made at once.

    Args:
        image: anything.
        name: ``"to_tensor"`` or ``"pil_to_tensor"``.
        account_of: gets the way to the plain image, by Pillow alone, and gives the tensor's account.
    """
    lazy = lazy_of(image)
    source, shape = (None, None) if lazy is None else (source_of(lazy), shape_of(lazy))
    if lazy is None or source is None or shape is None or not core.available():
        return None
    if shape.channels != 3:  # torchvision's strides of one channel are those of a turned array
        return None
    if shape.height * shape.width < LEAST_PIXELS or not source.is_sound:
        return None  # whoever calls the function is to see the error
    if torch.get_default_dtype() is not torch.float32 or torch._C._get_tracing_state() is not None:
        return None
    by_pillow, recorded = plain_way(lazy), shown_steps(lazy)
    if by_pillow is None or recorded is None:
        return None
    steps, dtype = _CONVERSIONS[name]
    shown = _ShownPixels(source, (*recorded, *steps), shape)
    ahead = dtype is torch.uint8
    result = TensorShape.of((shape.height, shape.width, shape.channels), dtype, pure=True, ahead=ahead)
    work = behind_conversion(shown, (), result, account_of(by_pillow))
    return None if work is None else pending_tensor(work)


def drawn_tensor(image: object, steps: tuple[Step, ...], shape: ImageShape, account: Account) -> torch.Tensor | None:
    """The tensor without pixels that steps give of an image without pixels; None where it is to be made at once.

    Args:
        image: anything.
        steps: that were drawn for it.
        shape: of the image, as `shape_of` gives it.
        account: of the tensor.
    """
    lazy = lazy_of(image)
    source, recorded = (None, None) if lazy is None else (source_of(lazy), shown_steps(lazy))
    if source is None or recorded is None or shape.channels != 3 or not source.is_sound:
        return None
    if torch._C._get_tracing_state() is not None:
        return None
    shown = _ShownPixels(source, (*recorded, *steps), shape)
    program = shown.program(())
    conversion, (height, width, channels) = program.conversion, program.result
    if conversion is None or conversion.dtype not in _STACKED or program.tv_image:
        return None
    result = TensorShape.of((height, width, channels), conversion.dtype, pure=True)
    work = behind_conversion(shown, (), result, account, program)
    return None if work is None else pending_tensor(work)


def converted(tensor: object, dtype: object, account_of: Callable[[Account], Account]) -> torch.Tensor | None:
    """torchvision's ``convert_image_dtype`` of an image's tensor without pixels; None where its own is to run."""
    record = record_of(tensor)
    if record is None or record.shape.dtype is not torch.uint8 or dtype is not torch.float32:
        return None
    return _behind(record, interned_once(ConvertImageDtype, dtype), account_of)


def normalized(tensor: Any, mean: Any, std: Any, account_of: Callable[[Account], Account]) -> torch.Tensor | None:
    """torchvision's ``normalize`` of an image's tensor without pixels; None where its own is to run, or to refuse."""
    record = record_of(tensor)
    if record is None or record.shape.dtype is not torch.float32:
        return None
    for numbers in (mean, std):
        if not isinstance(numbers, (list, tuple)) or not all(isinstance(one, (int, float)) for one in numbers):
            return None
    return _behind(record, interned_once(Normalize, tuple(mean), tuple(std)), account_of)


def _behind(record: Record, step: Step, account_of: Callable[[Account], Account]) -> torch.Tensor | None:
    """The tensor after an operation that gives floats, on a tensor of pixels as a file's image shows them."""
    if not isinstance(record.source, _ShownPixels) or record.base is not None:
        return None
    height, width, channels = record.shape
    shape = TensorShape.of((height, width, channels), torch.float32, pure=True)
    work = behind_conversion(record.source, (*record.steps, step), shape, account_of(record.account))
    return None if work is None else pending_tensor(work)
