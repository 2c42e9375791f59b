"""Random numbers as torchvision draws them, under the names of torch's functions.

Each makes torch's calls in torchvision's order with its rounding: from torch's global generator, from one that is
given, or from an `MT19937Stream` of one. TorchScript compiles them as part of ``forward``, without the streams.
"""

import functools
import math
from collections.abc import Callable

import torch

from fastpipe.rng.float32 import float32
from fastpipe.rng.mt19937 import AnyGenerator, MT19937Stream

# TorchScript knows this function by itself, whatever its name, and leaves out what stands in a block of its own
# behind ``if not is_scripting():``, but compiles the rest of a longer condition: hence the nested ones below.
is_scripting: Callable[[], bool] = torch.jit.is_scripting  # type: ignore[attr-defined]


def bernoulli(p: float, generator: AnyGenerator = None) -> bool:
    """``torch.rand(1) < p``, compared in float32 as a tensor with a number is."""
    if not is_scripting():  # noqa: SIM102 - TorchScript must not see the inner one
        if isinstance(generator, MT19937Stream):
            return generator.rand() < float32(p)
    return bool(torch.rand([1], generator=generator) < p)


def bernoulli_float64(p: float, generator: AnyGenerator = None) -> bool:
    """``torch.rand(1).item() < p``, compared in float64: torchvision has both kinds."""
    return rand(generator) < p


def rand(generator: AnyGenerator = None) -> float:
    """``torch.rand(1).item()``."""
    if not is_scripting():  # noqa: SIM102 - TorchScript must not see the inner one
        if isinstance(generator, MT19937Stream):
            return generator.rand()
    return float(torch.rand([1], generator=generator).item())


def uniform(low: float, high: float, generator: AnyGenerator = None) -> float:
    """A float32 from ``[low, high)``, as a Python float."""
    if not is_scripting():  # noqa: SIM102 - TorchScript must not see the inner one
        if isinstance(generator, MT19937Stream):
            return generator.uniform(low, high)
    return float(torch.empty([1]).uniform_(low, high, generator=generator).item())


def rectangle_sides(area: float, log_low: float, log_high: float, generator: AnyGenerator = None) -> tuple[int, int]:
    """Two sides of a rectangle, in whole pixels; the logarithm of first / second is uniform."""
    if not is_scripting():  # noqa: SIM102 - TorchScript must not see the inner one
        if isinstance(generator, MT19937Stream):
            return generator.rectangle_sides(area, log_low, log_high)
    ratio = float(torch.exp(torch.empty([1]).uniform_(log_low, log_high, generator=generator)).item())
    # ``int(round(…))``, here and in other draws: TorchScript's round gives a float.
    return int(round(math.sqrt(area * ratio))), int(round(math.sqrt(area / ratio)))  # noqa: RUF046


@functools.lru_cache(maxsize=64)
def cached_log_ratio(ratio: tuple[float, ...], dtype: torch.dtype) -> list[float]:
    """The logarithms in float32 (torch's default ``dtype``, which is part of the key), as torchvision rounds them."""
    logarithms: list[float] = torch.log(torch.tensor(ratio)).tolist()
    return logarithms


def randint(low: int, high: int, generator: AnyGenerator = None) -> int:
    """An integer from ``[low, high)``."""
    if not is_scripting():  # noqa: SIM102 - TorchScript must not see the inner one
        if isinstance(generator, MT19937Stream):
            return generator.randint(low, high)
    return int(torch.randint(low, high, [1], generator=generator).item())


def randperm(n: int, generator: AnyGenerator = None) -> list[int]:
    """The numbers from 0 to ``n - 1``, a handful, in random order."""
    if isinstance(generator, MT19937Stream):
        return generator.randperm(n)
    order: list[int] = torch.randperm(n, generator=generator).tolist()
    return order


def randn(size: list[int], generator: AnyGenerator = None) -> torch.Tensor:
    """A tensor of float32 normal numbers, which torch alone can draw."""
    if not is_scripting():
        generator = torch_generator(generator)
    return torch.empty(size, dtype=torch.float32).normal_(generator=generator)


def random_seed(generator: AnyGenerator = None) -> int:
    """A seed for another library's generator: an integer from ``[0, 2**63)``."""
    return randint(0, 2**63 - 1, generator)


def torch_generator(generator: AnyGenerator) -> torch.Generator | None:
    """The generator itself, where a stream of it is given, at the state that its draws have led to."""
    return generator.generator() if isinstance(generator, MT19937Stream) else generator
