"""Plans torchvision's v1 transforms by fastpipe's own, which have the same attributes, draws and pixels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import torch
import torchvision
from torchvision.transforms import functional as F
from torchvision.transforms import transforms as theirs

from fastpipe import ops
from fastpipe.interop.transforms.base import adapter_class
from fastpipe.interop.transforms.pillow_ops import PilToTensorOnce, ToTensorOnce
from fastpipe.kernels.arrays import through_pillow
from fastpipe.ops.interpolation import InterpolationMode
from fastpipe.transforms import transforms
from fastpipe.transforms._attributes import Attribute
from fastpipe.types import Generators, ImageShape, Step


@dataclass(frozen=True, slots=True, eq=False)
class OnPil(ops.PilOperation):
    """Calls torchvision's v1 function on a PIL image or tensor, where ours may round differently, or accepts more."""

    op = "v1_on_pil"

    def apply(self, image: Any) -> Any:
        function = partial(getattr(F, self.name), **self.given)
        return function(image) if isinstance(image, torch.Tensor) else through_pillow(image, function)


def _by_torchvision(ours: Any) -> type:
    """A class that draws as `ours`, and whose steps call torchvision's own function."""

    def draw(self: Any, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        steps = ours.draw(self, shape, generators)
        if isinstance(self, transforms.RandomPosterize) and self.bits in range(1, 9):
            return tuple(steps)
        return tuple(OnPil(step.op, step.arguments(), shape) for step in steps)

    return adapter_class(ours, draw=draw)


def classes_of(ours: ModuleType) -> dict[type, type]:
    """Our class that draws for each class of torchvision's that a module of ours has, by the same name."""
    adapters = {}
    for name, kind in vars(ours).items():
        theirs = getattr(torchvision.transforms, name, None)
        if isinstance(theirs, type) and isinstance(kind, type) and hasattr(kind, "draw"):
            # The interpolation is converted to our enum, the only one that the core knows.
            adapters[theirs] = adapter_class(kind, interpolation=Attribute(InterpolationMode.adopt))
    return adapters


def _classes() -> dict[type, type]:
    adapters = classes_of(transforms)
    for name in ("ElasticTransform", "RandomPosterize"):
        if hasattr(theirs, name):
            adapters[getattr(theirs, name)] = _by_torchvision(getattr(transforms, name))
    return adapters


TABLE = _classes()
"""Our class that draws for each class of torchvision's."""


def _guarded(ours: Any, step: ops.Operation) -> type:
    """A class for a conversion that returns tensors unchanged."""
    kept = (ops.interned(step),)

    def draw(self: object, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        return kept

    return adapter_class(ours, draw=draw)


GUARDED_TO_TENSOR = _guarded(transforms.ToTensor, ToTensorOnce())
GUARDED_PIL_TO_TENSOR = _guarded(transforms.PILToTensor, PilToTensorOnce())


def why_not(kind: type) -> str:
    """Why an object of a class of torchvision's isn't planned."""
    return "fastpipe doesn't know this class of torchvision's"
