"""torchvision's classes, but fastpipe's for those whose pixels are documented as other than torchvision's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from PIL import Image

from fastpipe import transforms as fastpipe_transforms
from fastpipe.ops import WARP, Contract, ElasticTransform, GaussianBlur
from fastpipe.program import to_pil
from fastpipe.reporting.pictures import arrays_of, same_size
from fastpipe.rng import GeneratorStates
from fastpipe.tools.verify_result import FLOAT_NOISE, Difference
from fastpipe.types import Generators, ImageShape

DOCUMENTED: Mapping[str, Contract] = MappingProxyType(
    {"GaussianBlur": GaussianBlur.contract, "ElasticTransform": ElasticTransform.contract}
)
"""The classes whose pixels may differ from torchvision's, and what is documented of them."""


def with_documented(module: Any, broken: list[str]) -> Any:
    """``torchvision.transforms`` with `DocumentedStep` for the classes in `DOCUMENTED`.

    Args:
        module: ``torchvision.transforms``.
        broken: gets a sentence for each step that doesn't keep its contract on an image.
    """

    def factory(name: str) -> Callable[..., DocumentedStep]:
        theirs, ours = getattr(module, name), getattr(fastpipe_transforms, name)

        @functools.wraps(theirs)
        def make(**arguments: Any) -> DocumentedStep:
            return DocumentedStep(name, ours(**arguments), theirs(**arguments), broken)

        return make

    return SimpleNamespace(**{**vars(module), **{name: factory(name) for name in DOCUMENTED}})


class DocumentedStep(torch.nn.Module):
    """Gives what fastpipe makes of a PIL image, and holds it to its contract with what torchvision makes of it.

    Tensors go through torch's own functions in both libraries: there it gives torchvision's result.
    """

    def __init__(self, name: str, ours: Any, theirs: Any, broken: list[str]) -> None:
        super().__init__()
        self.name, self.ours, self.theirs, self.broken = name, ours, theirs, broken

    def forward(self, image: Any) -> Any:
        start = GeneratorStates.of()
        expected = self.theirs(image)
        if not isinstance(image, Image.Image):
            return expected
        start.restore()
        made = np.asarray(image)
        for step in self.ours.draw(ImageShape(image.height, image.width, len(image.getbands())), Generators()):
            made = step.apply(made)
        apart = _difference(made, expected)
        contract = DOCUMENTED[self.name]
        limit = 1.0 if contract.limit is None else contract.limit
        if apart is None:
            self.broken.append(f"{self.name} gives another size")
        elif apart.max > limit + FLOAT_NOISE:
            said = f"{self.name} is {apart.max:.3g}/255 from torchvision's, where {limit:g} is documented"
            if contract is not WARP:
                self.broken.append(said)
            elif not self._as_near(apart, image, start, expected):
                self.broken.append(f"{said}, or torchvision's own tensor backend's mean")
        return to_pil(made)

    def _as_near(self, apart: Difference, image: Image.Image, start: GeneratorStates, expected: Any) -> bool:
        """Whether the mean difference is at most that of torchvision's tensor backend."""
        end = GeneratorStates.of()
        start.restore()
        tensor = torch.from_numpy(np.array(image)).reshape(image.height, image.width, -1).permute(2, 0, 1)
        backend = _difference(self.theirs(tensor), expected)
        end.restore()
        return backend is not None and apart.mean <= backend.mean


def _difference(one: Any, other: Any) -> Difference | None:
    """The difference of two results; None where they aren't of one size."""
    ours, theirs = arrays_of(one), arrays_of(other)
    if not same_size(ours, theirs):
        return None
    found = Difference()
    for pair in zip(ours, theirs, strict=True):
        found.add(*pair)
    return found
