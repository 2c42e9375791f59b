"""The twin of an elastic transform, the one operation whose pixels may differ from torchvision's."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from PIL import Image

from fastpipe import transforms as fastpipe_transforms
from fastpipe.program import to_pil
from fastpipe.reporting.pictures import arrays_of, same_size
from fastpipe.rng import GeneratorStates
from fastpipe.tools.verify_result import FLOAT_NOISE, Difference
from fastpipe.types import Generators, ImageShape


def with_elastic_twin(module: Any, broken: list[str]) -> Any:
    """``torchvision.transforms`` with `ElasticTwin` for its ``ElasticTransform``.

    Args:
        module: ``torchvision.transforms``.
        broken: gets a sentence for each image on which fastpipe's pixels are further off than documented.
    """

    @functools.wraps(module.ElasticTransform)
    def make(**arguments: Any) -> ElasticTwin:
        ours, theirs = fastpipe_transforms.ElasticTransform(**arguments), module.ElasticTransform(**arguments)
        return ElasticTwin(ours, theirs, broken)

    return SimpleNamespace(**{**vars(module), "ElasticTransform": make})


class ElasticTwin(torch.nn.Module):
    """Gives what fastpipe makes of a PIL image, and holds it to what is documented, beside torchvision's result.

    Each value may be 1/255 off, or the mean difference at most that of torchvision's own tensor backend. Tensors go
    through torch's functions in both libraries: there it gives torchvision's result.
    """

    def __init__(self, ours: Any, theirs: Any, broken: list[str]) -> None:
        super().__init__()
        self.ours, self.theirs, self.broken = ours, theirs, broken

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
        if apart is None:
            self.broken.append("ElasticTransform gives another size")
        elif apart.max > 1 + FLOAT_NOISE and not self._as_near(apart, image, start, expected):
            self.broken.append(
                f"ElasticTransform is {apart.max:.3g}/255 from torchvision's, where 1 is documented, or torchvision's "
                "own tensor backend's mean"
            )
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
