"""The order in which drawn steps run: what gives the same bytes before the conversion to a tensor moves ahead of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from fastpipe.ops import AdjustContrast, HFlip, PilToTensor, TableOperation, TensorOperation, ToPureTensor, VFlip
from fastpipe.types import ImageShape, Step


class StepOrder(NamedTuple):
    """Facts about a chain of steps that follow from the steps' classes.

    Attributes:
        moved: the indices of the steps in the order in which they run; empty if that is the given order.
        ahead: the number of steps moved from after the conversion to a tensor to before it, as the last on pixels.
        pixels: number of steps on pixels, before the conversion to a tensor.
        reshaping: whether each step on pixels may change the shape.
        cut: number of first steps up to the last one that may need only a part of its input; see `Operation.narrows`.
        simple: no two of the other steps are flips that could cancel, or tables that could be fused.
        in_rows: the conversion makes a tensor of interleaved pixels.
        gray_in_rows: the conversion leaves the strides of a transposed array to an image of one channel, as `ToTensor`
            does, too.
    """

    moved: tuple[int, ...]
    ahead: int
    pixels: int
    reshaping: tuple[bool, ...]
    cut: int
    simple: bool
    in_rows: bool
    gray_in_rows: bool


@lru_cache(maxsize=1024)
def order_of(kinds: tuple[type, ...], *, moves: bool = True) -> StepOrder:
    moved, ahead = _arranged(kinds) if moves else (tuple(range(len(kinds))), 0)
    kinds = tuple(kinds[number] for number in moved)
    pixels, cut, flips, tables = 0, 0, 0, 0
    reshaping = []
    for kind in kinds:
        if getattr(kind, "makes_tensor", False):
            break
        pixels += 1
        reshaping.append(bool(getattr(kind, "changes_shape", True)))
        if getattr(kind, "narrows", True):
            cut, flips, tables = pixels, 0, 0
        else:
            flips += issubclass(kind, (HFlip, VFlip))
            tables += issubclass(kind, TableOperation)
    converts = pixels < len(kinds)
    in_rows = converts and issubclass(kinds[pixels], PilToTensor)
    simple = flips < 2 and tables < 2
    return StepOrder(moved if ahead else (), ahead, pixels, tuple(reshaping), cut, simple, in_rows, converts)


def sums_gray(steps: Sequence[Step], shape: ImageShape, order: StepOrder) -> bool:
    """True if the contrast of a gray tensor is changed: torch adds up its elements in the order of memory.

    So a crop before has to leave a window of the tensor, as torchvision's does.
    """
    converted = order.pixels - order.ahead
    if not any(map(_changes_contrast, steps[converted:])):
        return False
    for step in steps[:converted]:
        shape = step.output_shape(shape)
    return shape.channels == 1


def _changes_contrast(step: Step) -> bool:
    return isinstance(step, AdjustContrast) or (isinstance(step, TensorOperation) and step.name == "adjust_contrast")


def _arranged(kinds: tuple[type, ...]) -> tuple[tuple[int, ...], int]:
    """The order in which steps run, and the number of steps that move ahead of the conversion to a tensor."""
    start = next((number for number, kind in enumerate(kinds) if getattr(kind, "makes_tensor", False)), len(kinds))
    ahead, kept = [], [start] if start < len(kinds) else []
    number = start + 1
    while number < len(kinds):
        if getattr(kinds[number], "moves_ahead", False):
            ahead.append(number)
        elif issubclass(kinds[number], ToPureTensor):
            kept.append(number)
        else:
            break
        number += 1
    return (*range(start), *ahead, *kept, *range(number, len(kinds))), len(ahead)
