"""Transforms that do one operation, with a probability."""

from fastpipe.ops import Operation
from fastpipe.transforms._base import Transform, draw_chance_exact
from fastpipe.transforms.functional._types import Image
from fastpipe.types import Generators, ImageShape, Step


class WithChance(Transform):
    """The base of those: a subclass says what it does as a function, which TorchScript compiles, and as an operation.

    Args:
        p: the probability.
    """

    _shown = "p={0.p}"

    _chance = staticmethod(draw_chance_exact)

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def _changed(self, img: Image) -> Image:
        raise NotImplementedError

    def _operation(self) -> Operation:
        raise NotImplementedError

    def forward(self, img: Image) -> Image:
        """The changed image, or ``img`` itself."""
        if self._chance(float(self.p)):
            return self._changed(img)
        return img

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        return (self._operation(),) if self._chance(float(self.p), generators.words) else ()
