"""Steps that the planner puts in the place of several, with the same values: look-ups and conversions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any

import numpy as np
import torch

from fastpipe.transforms.kernels import color, conversion
from fastpipe.transforms.steps import Call
from fastpipe.types import ImageShape, Step

__all__ = ["LookUp", "ToNormalizedTensor", "ToPlanarTensor", "fuse_conversion", "fuse_tables"]

_CONVERSIONS = ("to_tensor", "pil_to_tensor")


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
        return conversion.to_normalized_tensor(image, self.table())

    def apply_into(self, image: Any, out: torch.Tensor) -> torch.Tensor:
        """Writes to a contiguous float32 tensor ``(C, H, W)``, such as one slot of a batch."""
        return conversion.to_normalized_tensor(image, self.table(), out)

    def table(self) -> np.ndarray[Any, Any]:
        """What becomes of each pixel value: float32 ``(C, 256)``."""
        return _table(self.mean, self.std)

    def output_shape(self, shape: ImageShape) -> ImageShape:
        return shape

    def __str__(self) -> str:
        mean, std = (", ".join(f"{value:.6g}" for value in values) for values in (self.mean, self.std))
        return f"to_tensor+normalize(mean=[{mean}], std=[{std}])"


def normalization(channels: int) -> ToNormalizedTensor:
    """``ToTensor`` alone in the same form: subtracting 0 and dividing by 1 changes no bit."""
    return ToNormalizedTensor((0.0,) * channels, (1.0,) * channels)


@lru_cache(maxsize=64)
def _table(mean: tuple[float, ...], std: tuple[float, ...]) -> np.ndarray[Any, Any]:
    return conversion.normalization_table(mean, std)


def _is_to_float(step: Step) -> bool:
    return isinstance(step, Call) and step.op == "convert_image_dtype" and dict(step.args)["dtype"] is torch.float32


@dataclass(frozen=True, slots=True)
class LookUp:
    """Consecutive operations that each map a value to a value: one look-up in their composed table.

    Attributes:
        calls: the operations, in order.
    """

    calls: tuple[Call, ...]

    def apply(self, image: Any) -> Any:
        return color.apply_table(
            image, color.compose_tables([_TABLES[call.op](**dict(call.args)) for call in self.calls])
        )

    def output_shape(self, shape: ImageShape) -> ImageShape:
        return shape

    def __str__(self) -> str:
        return "+".join(map(str, self.calls))


_TABLES: dict[str, Callable[..., np.ndarray[Any, Any]]] = {
    "adjust_brightness": lambda brightness_factor: color.brightness_table(brightness_factor),
    "adjust_gamma": lambda gamma, gain=1: color.gamma_table(gamma, gain),
    "invert": color.invert_table,
    "posterize": lambda bits: color.posterize_table(bits),
    "solarize": lambda threshold: color.solarize_table(threshold),
}


def _is_look_up(step: Step) -> bool:
    """Whether the step maps values to values by arguments that its function accepts; else that raises its error."""
    if not isinstance(step, Call) or step.op not in _TABLES:
        return False
    arguments = dict(step.args)
    accepted = 1 <= arguments.get("bits", 1) <= 8 and arguments.get("brightness_factor", 0) >= 0
    return accepted and bool(arguments.get("gamma", 0) >= 0)


def fuse_tables(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps with each run of look-ups made one, up to where the image stops being a uint8 array."""
    steps = list(steps)
    end = next((i for i, s in enumerate(steps) if isinstance(s, Call) and s.op in _CONVERSIONS), len(steps))
    fused: list[Step] = []
    for are_look_ups, group in groupby(steps[:end], _is_look_up):
        run = list(group)
        if are_look_ups and len(run) > 1:
            fused.append(LookUp(tuple(call for call in run if isinstance(call, Call))))
        else:
            fused += run
    return (*fused, *steps[end:])


def fuse_conversion(steps: Sequence[Step], channels: int) -> tuple[Step, ...]:
    """The steps with the first conversion to a tensor, and the `Normalize` right after it, made one step.

    Up to that conversion the image is a uint8 array, so ``ToTensor`` and ``PILToTensor →
    ConvertImageDtype(float32)`` are the same values: each is ``x / 255`` in float32.

    Args:
        steps: a chain that starts from a uint8 array ``(H, W, C)``.
        channels: the channels of the image where it becomes a tensor.
    """
    for index, step in enumerate(steps):
        if not isinstance(step, Call) or step.op not in _CONVERSIONS:
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
