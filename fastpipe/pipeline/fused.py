"""Steps that the planner puts in the place of several: from the uint8 image straight to the tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from fastpipe.transforms.kernels import conversion
from fastpipe.transforms.steps import Call
from fastpipe.types import ImageShape, Step

__all__ = ["ToNormalizedTensor", "ToPlanarTensor", "fuse_conversion"]


@dataclass(frozen=True, slots=True)
class ToPlanarTensor:
    """``PILToTensor``: ``(H, W, C)`` uint8 to a contiguous ``(C, H, W)`` uint8 tensor of its own."""

    def apply(self, image: Any) -> torch.Tensor:
        return conversion.array_to_tensor(image)

    def output_shape(self, shape: ImageShape) -> ImageShape:
        return shape

    def __str__(self) -> str:
        return "pil_to_tensor"


@dataclass(frozen=True, slots=True)
class ToNormalizedTensor:
    """``ToTensor`` and ``Normalize`` in one look-up: 256 possible values a channel, each worked out once.

    Attributes:
        mean: one number a channel, as given to `Normalize`.
        std: one number a channel, not zero.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def apply(self, image: Any) -> torch.Tensor:
        return conversion.to_normalized_tensor(image, _table(self.mean, self.std))

    def output_shape(self, shape: ImageShape) -> ImageShape:
        return shape

    def __str__(self) -> str:
        return f"to_tensor+normalize(mean={list(self.mean)}, std={list(self.std)})"


@lru_cache(maxsize=64)
def _table(mean: tuple[float, ...], std: tuple[float, ...]) -> np.ndarray[Any, Any]:
    return conversion.normalization_table(mean, std)


def _is_to_float(step: Step) -> bool:
    return isinstance(step, Call) and step.op == "convert_image_dtype" and dict(step.args)["dtype"] is torch.float32


def fuse_conversion(steps: Sequence[Step], channels: int) -> tuple[Step, ...]:
    """The steps with the first conversion to a tensor, and the `Normalize` right after it, made one step.

    Up to that conversion the image is a uint8 array, so ``ToTensor`` and ``PILToTensor →
    ConvertImageDtype(float32)`` are the same values: each is ``x / 255`` in float32.

    Args:
        steps: a chain that starts from a uint8 array ``(H, W, C)``.
        channels: the channels of the image where it becomes a tensor.
    """
    for index, step in enumerate(steps):
        if not isinstance(step, Call) or step.op not in ("to_tensor", "pil_to_tensor"):
            continue
        behind = list(steps[index + 1 :])
        fused: Step = step
        if step.op == "pil_to_tensor":
            if behind and _is_to_float(behind[0]):
                fused, behind = Call("to_tensor"), behind[1:]
            else:
                fused = ToPlanarTensor()
        if isinstance(fused, Call) and behind and (normalized := _normalized(behind[0], channels)):
            fused, behind = normalized, behind[1:]
        return (*steps[:index], fused, *behind)
    return tuple(steps)


def _normalized(step: Step, channels: int) -> ToNormalizedTensor | None:
    """The fused step for this `Normalize`, or None where its arguments ask for torchvision's error."""
    if not isinstance(step, Call) or step.op != "normalize":
        return None
    mean, std = (_numbers(step[name]) for name in ("mean", "std"))
    if len(mean) not in (1, channels) or len(std) not in (1, channels) or 0.0 in std:
        return None
    spread = channels if len(mean) == 1 else 1
    return ToNormalizedTensor(mean * spread, std * (channels if len(std) == 1 else 1))


def _numbers(values: Any) -> tuple[float, ...]:
    return tuple(torch.as_tensor(values, dtype=torch.float32).reshape(-1).tolist())
