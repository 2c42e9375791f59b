"""Conversions from pixels to tensors, and the floating-point operations after them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile
from typing import ClassVar, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from fastpipe.kernels import conversion as kernels
from fastpipe.ops.base import Operation, register
from fastpipe.types import Floats, Step

Arithmetic: TypeAlias = "tuple[tuple[float, ...] | None, tuple[float, ...] | None, bool]"


class _Conversion(Operation):
    __slots__ = ()
    pointwise: ClassVar[bool] = True


@register
class ToTensor(_Conversion):
    """``(H, W, C)`` in 0…255 to ``(C, H, W)`` in 0…1."""

    op: ClassVar[str] = "to_tensor"
    phrase: ClassVar[str] = "to a float tensor"
    makes_tensor: ClassVar[bool] = True


@register
class PilToTensor(_Conversion):
    """``(H, W, C)`` to ``(C, H, W)``, uint8."""

    op: ClassVar[str] = "pil_to_tensor"
    phrase: ClassVar[str] = "to a uint8 tensor"
    makes_tensor: ClassVar[bool] = True


@register
class ConvertImageDtype(_Conversion):
    """A tensor of another dtype, with its values scaled to that dtype's range."""

    op: ClassVar[str] = "convert_image_dtype"
    dtype: torch.dtype = torch.float32

    def words(self) -> str:
        return f"converted to {str(self.dtype).removeprefix('torch.')}"


@register
class Normalize(_Conversion):
    """``(x - mean) / std``, channel by channel."""

    op: ClassVar[str] = "normalize"
    phrase: ClassVar[str] = "normalised"
    mean: Floats
    std: Floats


@register
class Erase(Operation):
    """A rectangle of a tensor written over."""

    op: ClassVar[str] = "erase"
    phrase: ClassVar[str] = "erased {h}x{w} at row {i}, column {j}"
    moves: ClassVar[bool] = False
    i: int
    j: int
    h: int
    w: int
    v: torch.Tensor


@dataclass(frozen=True, slots=True, eq=False)
class ToPlanarTensor(_Conversion):
    """`PilToTensor` of a uint8 array ``(H, W, C)``: a contiguous ``(C, H, W)`` uint8 tensor of its own."""

    op: ClassVar[str] = "pil_to_tensor"
    makes_tensor: ClassVar[bool] = True
    dtype: ClassVar[torch.dtype] = torch.uint8
    arithmetic: ClassVar[Arithmetic] = (None, None, False)

    def apply(self, image: NDArray[np.uint8], out: torch.Tensor | None = None) -> torch.Tensor:
        """Writes to a contiguous uint8 tensor ``(C, H, W)``, where one is given."""
        return kernels.array_to_tensor(image, out)

    def __str__(self) -> str:
        return self.op


@dataclass(frozen=True, slots=True, eq=False)
class ToNormalizedTensor(_Conversion):
    """`ToTensor` and `Normalize` of a uint8 array: 256 possible values a channel, each worked out once.

    Attributes:
        mean: one number a channel.
        std: one number a channel, not zero.
        plain: `ToTensor` alone: subtracting 0 and dividing by 1 changes no bit.
        multiplied: by 1 / 255, as v2's ``ToDtype(scale=True)`` does, and not divided by 255.
    """

    op: ClassVar[str] = "to_tensor"
    makes_tensor: ClassVar[bool] = True
    dtype: ClassVar[torch.dtype] = torch.float32
    mean: tuple[float, ...]
    std: tuple[float, ...]
    plain: bool = False
    multiplied: bool = False
    arithmetic: Arithmetic = field(init=False, repr=False)
    """The mean and std that the core normalises with, Nones if it doesn't; and whether it multiplies."""

    def __post_init__(self) -> None:
        spread = 3 // len(self.mean)  # the core takes three numbers, of which gray has use for one
        both = (None, None) if self.plain else (self.mean * spread, self.std * spread)
        object.__setattr__(self, "arithmetic", (*both, self.multiplied))  # frozen

    def apply(self, image: NDArray[np.uint8], out: torch.Tensor | None = None) -> torch.Tensor:
        """Writes to a float32 tensor ``(C, H, W)``, where one is given, such as one slot of a batch."""
        mean, std = (None, None) if self.plain else (self.mean, self.std)
        return kernels.to_tensor(image, out, mean, std, self.multiplied)

    def __str__(self) -> str:
        first = "to_dtype" if self.multiplied else "to_tensor"
        if self.plain:
            return f"{first}()"
        mean, std = (", ".join(f"{value:.6g}" for value in values) for values in (self.mean, self.std))
        return f"{first}+normalize(mean=[{mean}], std=[{std}])"


TensorConversion: TypeAlias = ToPlanarTensor | ToNormalizedTensor
"""A conversion of a uint8 array that ends a program's part on pixels."""


def fused_conversion(steps: Sequence[Step], channels: int) -> tuple[TensorConversion | None, int]:
    """The first operations of the end of a chain, as one conversion of a uint8 array; and how many they are.

    ``ToTensor`` and ``PILToTensor → ConvertImageDtype(float32)`` are the same values there: each is ``x / 255`` in
    float32. (v2's ``ToDtype(float32, scale=True)`` multiplies.) None where the values are others: torch's default dtype
    isn't float32.

    Args:
        steps: what starts with a conversion to a tensor.
        channels: of the image where it becomes a tensor.
    """
    known = tuple(takewhile(lambda step: isinstance(step, _Conversion), steps[:3]))
    return _fused(known, channels, torch.get_default_dtype())


@lru_cache(maxsize=256)
def _fused(steps: tuple[Operation, ...], channels: int, dtype: torch.dtype) -> tuple[TensorConversion | None, int]:
    first, *rest = steps
    used, multiplied = 1, False
    if isinstance(first, PilToTensor):
        if not (rest and isinstance(rest[0], ConvertImageDtype) and rest[0].dtype is torch.float32):
            return ToPlanarTensor(), 1
        scale = getattr(rest[0], "scale", None)  # v2's alone says whether
        if scale is False:
            return ToPlanarTensor(), 1
        used, rest, multiplied = 2, rest[1:], scale is True
    elif dtype != torch.float32:
        return None, 0
    if rest and isinstance(rest[0], Normalize):
        numbers = _normalization(rest[0].mean, rest[0].std, channels)
        if numbers is not None:
            return ToNormalizedTensor(*numbers, multiplied=multiplied), used + 1
    return _PLAIN[channels, multiplied], used


_PLAIN = {
    (n, multiplied): ToNormalizedTensor((0.0,) * n, (1.0,) * n, plain=True, multiplied=multiplied)
    for n in (1, 2, 3, 4)
    for multiplied in (False, True)
}


def _normalization(mean: object, std: object, channels: int) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """A number a channel each, or None where `Normalize`'s arguments ask for torchvision's error."""
    means, stds = (tuple(torch.as_tensor(values, dtype=torch.float32).reshape(-1).tolist()) for values in (mean, std))
    if len(means) not in (1, channels) or len(stds) not in (1, channels) or 0.0 in stds:
        return None
    return means * (channels if len(means) == 1 else 1), stds * (channels if len(stds) == 1 else 1)
