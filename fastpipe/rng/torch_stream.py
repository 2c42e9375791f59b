"""Random numbers by torch's own calls, in torchvision's order, with its rounding and its generators."""

import math
from typing import Optional

import torch


class TorchStream:
    """Draws by torch, one call a number; `MT19937Stream` has the same methods and draws the same numbers faster.

    TorchScript compiles this class as a part of a transform's ``forward``.

    Args:
        source: torch's generator; None for the global one.
    """

    def __init__(self, source: Optional[torch.Generator] = None) -> None:  # noqa: UP045 (all that TorchScript reads in a class)
        self.source = source

    def generator(self) -> Optional[torch.Generator]:  # noqa: UP045
        """The generator; None for the global one."""
        return self.source

    def rand(self) -> float:
        """``torch.rand(1).item()``; comparing it with a probability is done in float64, unlike `bernoulli`."""
        return float(torch.rand([1], generator=self.source).item())

    def bernoulli(self, p: float) -> bool:
        """``torch.rand(1) < p``, compared in float32, as tensors are; torchvision uses both kinds of comparison."""
        return bool(torch.rand([1], generator=self.source) < p)

    def exceeds(self, p: float) -> bool:
        """``torch.rand(1) > p``, compared in float32."""
        return bool(torch.rand([1], generator=self.source) > p)

    def uniform(self, low: float, high: float) -> float:
        """A float32 from ``[low, high)``, as a Python float."""
        return float(torch.empty([1]).uniform_(low, high, generator=self.source).item())

    def rectangle_sides(self, area: float, log_low: float, log_high: float) -> tuple[int, int]:
        """Two sides of a rectangle, in whole pixels; the logarithm of first / second is uniformly distributed."""
        ratio = float(torch.exp(torch.empty([1]).uniform_(log_low, log_high, generator=self.source)).item())
        # ``int(round(…))``, here and in other draws: TorchScript's round gives a float.
        return int(round(math.sqrt(area * ratio))), int(round(math.sqrt(area / ratio)))  # noqa: RUF046

    def randint(self, low: int, high: int) -> int:
        """An integer from ``[low, high)``."""
        return int(torch.randint(low, high, [1], generator=self.source).item())

    def randperm(self, n: int) -> list[int]:
        """The numbers from 0 to ``n - 1`` in random order, for a small ``n``."""
        order: list[int] = torch.randperm(n, generator=self.source).tolist()
        return order

    def randn(self, size: list[int]) -> torch.Tensor:
        """A tensor of float32 normal numbers."""
        return torch.empty(size, dtype=torch.float32).normal_(generator=self.source)
