"""Conversions from pixels to tensors, and the floating-point operations that follow them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile
from typing import ClassVar, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray

from fastpipe.kernels import conversion as kernels
from fastpipe.ops.base import OWN, Contract, Operation, register
from fastpipe.types import Floats, Step

Arithmetic: TypeAlias = (
    "tuple[tuple[float, ...] | None, tuple[float, ...] | None, bool] | "
    "tuple[tuple[float, ...], tuple[float, ...], bool, bool]"
)


class _Conversion(Operation):
    __slots__ = ()
    pointwise: ClassVar[bool] = True


@register
class ToTensor(_Conversion):
    """Converts ``(H, W, C)`` in 0…255 to ``(C, H, W)`` in 0…1."""

    op: ClassVar[str] = "to_tensor"
    phrase: ClassVar[str] = "to a float tensor"
    makes_tensor: ClassVar[bool] = True


@register
class PilToTensor(_Conversion):
    """Converts ``(H, W, C)`` to ``(C, H, W)``, uint8."""

    op: ClassVar[str] = "pil_to_tensor"
    phrase: ClassVar[str] = "to a uint8 tensor"
    makes_tensor: ClassVar[bool] = True


@register
class ConvertImageDtype(_Conversion):
    """Converts a tensor to another dtype and scales its values to that dtype's range."""

    op: ClassVar[str] = "convert_image_dtype"
    dtype: torch.dtype = torch.float32

    def words(self) -> str:
        return f"converted to {str(self.dtype).removeprefix('torch.')}"


@register
class Normalize(_Conversion):
    """Computes ``(x - mean) / std``, channel by channel."""

    op: ClassVar[str] = "normalize"
    phrase: ClassVar[str] = "normalised"
    mean: Floats
    std: Floats


@register
class Erase(Operation):
    """Overwrites a rectangle of a tensor."""

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
    """`PilToTensor` of a uint8 array ``(H, W, C)``: makes a new contiguous uint8 tensor ``(C, H, W)``."""

    op: ClassVar[str] = "pil_to_tensor"
    makes_tensor: ClassVar[bool] = True
    dtype: ClassVar[torch.dtype] = torch.uint8
    arithmetic: ClassVar[Arithmetic] = (None, None, False)

    def apply(self, image: NDArray[np.uint8], out: torch.Tensor | None = None) -> torch.Tensor:
        """Converts an image; writes to ``out``, a contiguous uint8 tensor ``(C, H, W)``, if it is given."""
        return kernels.array_to_tensor(image, out)

    def __str__(self) -> str:
        return self.op


@dataclass(frozen=True, slots=True, eq=False)
class ToNormalizedTensor(_Conversion):
    """`ToTensor` and `Normalize` of a uint8 array.

    Attributes:
        mean: one number a channel.
        std: one number a channel, not zero.
        plain: only `ToTensor`, as mean 0 and std 1 change no bit.
        multiplied: multiply by 1 / 255, as v2's ``ToDtype(scale=True)`` does, instead of dividing by 255.
    """

    op: ClassVar[str] = "to_tensor"
    makes_tensor: ClassVar[bool] = True
    dtype: ClassVar[torch.dtype] = torch.float32
    mean: tuple[float, ...]
    std: tuple[float, ...]
    plain: bool = False
    multiplied: bool = False
    arithmetic: Arithmetic = field(init=False, repr=False)
    """The core's arguments: mean and std, None for no normalisation; and whether it multiplies."""

    def __post_init__(self) -> None:
        spread = 3 // len(self.mean)  # the core takes three numbers; for gray it uses the first
        both = (None, None) if self.plain else (self.mean * spread, self.std * spread)
        object.__setattr__(self, "arithmetic", (*both, self.multiplied))  # frozen

    def apply(self, image: NDArray[np.uint8] | NDArray[np.float32], out: torch.Tensor | None = None) -> torch.Tensor:
        """Converts an image of bytes, or of floats from 0 to 1.

        Args:
            image: ``(H, W, C)``.
            out: a float32 tensor ``(C, H, W)``, such as a batch's slot, to write into and return; None for a new one.
        """
        mean, std = (None, None) if self.plain else (self.mean, self.std)
        if image.dtype == np.float32:  # from `ResizeAsFloats`
            return kernels.floats_to_tensor(cast("NDArray[np.float32]", image), out, mean, std)
        return kernels.to_tensor(cast("NDArray[np.uint8]", image), out, mean, std, self.multiplied)

    def __str__(self) -> str:
        first = "to_dtype" if self.multiplied else "to_tensor"
        if self.plain:
            return f"{first}()"
        mean, std = (", ".join(f"{value:.6g}" for value in values) for values in (self.mean, self.std))
        return f"{first}+normalize(mean=[{mean}], std=[{std}])"


@dataclass(frozen=True, slots=True, eq=False)
class ToTensorByFactor(_Conversion):
    """albumentations' ``Normalize`` and ``ToTensorV2`` of a uint8 array: ``(pixels - mean) * factor``.

    Attributes:
        mean: three numbers of float32's precision, on the scale of 0 to 255.
        factor: three numbers of float32's precision.
    """

    op: ClassVar[str] = "to_tensor_by_factor"
    makes_tensor: ClassVar[bool] = True
    dtype: ClassVar[torch.dtype] = torch.float32
    contract: ClassVar[Contract] = OWN
    mean: tuple[float, ...]
    factor: tuple[float, ...]
    arithmetic: Arithmetic = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "arithmetic", (self.mean, self.factor, False, True))  # frozen

    def apply(self, image: NDArray[np.uint8], out: torch.Tensor | None = None) -> torch.Tensor:
        """Converts an image ``(H, W, 3)``; writes to ``out``, a float tensor ``(3, H, W)``, if it is given."""
        mean, factor = (np.array(values, np.float32) for values in (self.mean, self.factor))
        tensor = torch.from_numpy(((image.astype(np.float32) - mean) * factor).transpose(2, 0, 1))
        return tensor.contiguous() if out is None else out.copy_(tensor)

    def __str__(self) -> str:
        mean, factor = (", ".join(f"{value:.6g}" for value in values) for values in (self.mean, self.factor))
        return f"normalize_by_factor(mean=[{mean}], factor=[{factor}])"


TensorConversion: TypeAlias = ToPlanarTensor | ToNormalizedTensor | ToTensorByFactor
"""A conversion of a uint8 array to a tensor: the last operation of a program that works on pixels."""


def fused_conversion(steps: Sequence[Step], channels: int) -> tuple[TensorConversion | None, int]:
    """Fuses the first operations of a chain's tail to one conversion of a uint8 array.

    ``ToTensor`` and ``PILToTensor → ConvertImageDtype(float32)`` give the same values: ``x / 255`` in float32. (v2's
    ``ToDtype(float32, scale=True)`` multiplies by 1 / 255.)

    Args:
        steps: the tail of a chain, from its conversion to a tensor on.
        channels: channels of the image at that conversion.

    Returns:
        The conversion and the number of fused operations; None and 0 if torch's default dtype isn't float32.
    """
    known = tuple(takewhile(lambda step: isinstance(step, _Conversion), steps[:3]))
    return _fused(known, channels, torch.get_default_dtype())


@lru_cache(maxsize=256)
def _fused(steps: tuple[Operation, ...], channels: int, dtype: torch.dtype) -> tuple[TensorConversion | None, int]:
    first, *rest = steps
    if isinstance(first, ToTensorByFactor):
        return first, 1
    used, multiplied = 1, False
    if isinstance(first, PilToTensor):
        if not (rest and isinstance(rest[0], ConvertImageDtype) and rest[0].dtype is torch.float32):
            return ToPlanarTensor(), 1
        scale = getattr(rest[0], "scale", None)  # only v2's ToDtype has it
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
    """Mean and std for each channel; None for arguments for which torchvision's `Normalize` raises."""
    means, stds = (tuple(torch.as_tensor(values, dtype=torch.float32).reshape(-1).tolist()) for values in (mean, std))
    if len(means) not in (1, channels) or len(stds) not in (1, channels) or 0.0 in stds:
        return None
    return means * (channels if len(means) == 1 else 1), stds * (channels if len(stds) == 1 else 1)
