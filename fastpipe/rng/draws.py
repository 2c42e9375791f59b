"""Random numbers as torchvision draws them, under the names of torch's functions.

Each makes torch's calls in torchvision's order with its rounding, from torch's global generator or from one that is
given; or calls a method of an `MT19937Stream`. TorchScript compiles torch's calls alone, as part of ``forward``.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from fastpipe.rng.mt19937 import AnyGenerator, MT19937Stream

Draw = TypeVar("Draw", bound=Callable[..., Any])


def _scripted_as(torchs: Callable[..., Any]) -> Callable[[Draw], Draw]:
    """Has TorchScript compile torch's calls in the place of a function that also takes streams."""

    def mark(function: Draw) -> Draw:
        function.__prepare_scriptable__ = lambda: torchs  # type: ignore[attr-defined]
        return function

    return mark


def _torch_bernoulli(p: float, generator: AnyGenerator = None) -> bool:
    return bool(torch.rand([1], generator=generator) < p)


@_scripted_as(_torch_bernoulli)
def bernoulli(p: float, generator: AnyGenerator = None) -> bool:
    """``torch.rand(1) < p``, compared in float32 as a tensor with a number is."""
    return generator.bernoulli(p) if type(generator) is MT19937Stream else _torch_bernoulli(p, generator)


def _torch_exceeds(p: float, generator: AnyGenerator = None) -> bool:
    return bool(torch.rand([1], generator=generator) > p)


@_scripted_as(_torch_exceeds)
def exceeds(p: float, generator: AnyGenerator = None) -> bool:
    """``torch.rand(1) > p``, compared in float32."""
    return generator.exceeds(p) if type(generator) is MT19937Stream else _torch_exceeds(p, generator)


def _torch_rand(generator: AnyGenerator = None) -> float:
    return float(torch.rand([1], generator=generator).item())


@_scripted_as(_torch_rand)
def rand(generator: AnyGenerator = None) -> float:
    """``torch.rand(1).item()``."""
    return generator.rand() if type(generator) is MT19937Stream else _torch_rand(generator)


def bernoulli_float64(p: float, generator: AnyGenerator = None) -> bool:
    """``torch.rand(1).item() < p``, compared in float64: torchvision has both kinds."""
    return rand(generator) < p


def _torch_uniform(low: float, high: float, generator: AnyGenerator = None) -> float:
    return float(torch.empty([1]).uniform_(low, high, generator=generator).item())


@_scripted_as(_torch_uniform)
def uniform(low: float, high: float, generator: AnyGenerator = None) -> float:
    """A float32 from ``[low, high)``, as a Python float."""
    return generator.uniform(low, high) if type(generator) is MT19937Stream else _torch_uniform(low, high, generator)


def _torch_sides(area: float, log_low: float, log_high: float, generator: AnyGenerator = None) -> tuple[int, int]:
    ratio = float(torch.exp(torch.empty([1]).uniform_(log_low, log_high, generator=generator)).item())
    # ``int(round(…))``, here and in other draws: TorchScript's round gives a float.
    return int(round(math.sqrt(area * ratio))), int(round(math.sqrt(area / ratio)))  # noqa: RUF046


@_scripted_as(_torch_sides)
def rectangle_sides(area: float, log_low: float, log_high: float, generator: AnyGenerator = None) -> tuple[int, int]:
    """Two sides of a rectangle, in whole pixels; the logarithm of first / second is uniform."""
    if type(generator) is MT19937Stream:
        return generator.rectangle_sides(area, log_low, log_high)
    return _torch_sides(area, log_low, log_high, generator)


@functools.lru_cache(maxsize=64)
def cached_log_ratio(ratio: tuple[float, ...], dtype: torch.dtype) -> list[float]:
    """The logarithms in float32 (torch's default ``dtype``, which is part of the key), as torchvision rounds them."""
    logarithms: list[float] = torch.log(torch.tensor(ratio)).tolist()
    return logarithms


def _torch_randint(low: int, high: int, generator: AnyGenerator = None) -> int:
    return int(torch.randint(low, high, [1], generator=generator).item())


@_scripted_as(_torch_randint)
def randint(low: int, high: int, generator: AnyGenerator = None) -> int:
    """An integer from ``[low, high)``."""
    return generator.randint(low, high) if type(generator) is MT19937Stream else _torch_randint(low, high, generator)


def randperm(n: int, generator: AnyGenerator = None) -> list[int]:
    """The numbers from 0 to ``n - 1``, a handful, in random order. Not for TorchScript."""
    if type(generator) is MT19937Stream:
        return generator.randperm(n)
    order: list[int] = torch.randperm(n, generator=generator).tolist()
    return order


def _torch_randn(size: list[int], generator: AnyGenerator = None) -> torch.Tensor:
    return torch.empty(size, dtype=torch.float32).normal_(generator=generator)


@_scripted_as(_torch_randn)
def randn(size: list[int], generator: AnyGenerator = None) -> torch.Tensor:
    """A tensor of float32 normal numbers, which torch alone can draw."""
    return _torch_randn(size, torch_generator(generator))


def random_seed(generator: AnyGenerator = None) -> int:
    """A seed for another library's generator: an integer from ``[0, 2**63)``."""
    return randint(0, 2**63 - 1, generator)


def torch_generator(generator: AnyGenerator) -> torch.Generator | None:
    """The generator itself, where a stream of it is given, at the state that its draws have led to."""
    return generator.generator() if isinstance(generator, MT19937Stream) else generator
