"""The transforms of torchvision's weights (``weights.transforms()``), as the steps that their code calls.

They are of torchvision's private API, which may change: a class is known by the fingerprint of its code.
"""

from __future__ import annotations

from typing import Any

import torch
from torchvision.transforms import _presets as theirs

from fastpipe import ops
from fastpipe.ops.interpolation import interpolation_of
from fastpipe.recipes.base import adapter_class
from fastpipe.recipes.pillow_ops import PilToTensorOnce
from fastpipe.recipes.source_code import fingerprint
from fastpipe.types import Generators, ImageShape, Step


class _Preset:
    """The base of classes that share the attributes of torchvision's objects."""

    mean: Any
    std: Any
    resize_size: Any
    crop_size: Any
    interpolation: Any
    antialias: Any

    def _resize(self) -> Step:
        step: Step = ops.resize_to(self.resize_size, interpolation_of(self.interpolation), None, self.antialias)
        return step

    def _normalize(self) -> Step:
        step: Step = ops.interned_once(ops.Normalize, tuple(self.mean), tuple(self.std))
        return step


class ImageClassification(_Preset):
    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        return self._resize(), ops.center_crop_to(self.crop_size), *_TO_FLOAT, self._normalize()


class ObjectDetection(_Preset):
    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        return _TO_FLOAT


class SemanticSegmentation(_Preset):
    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        resize = (self._resize(),) if isinstance(self.resize_size, list) else ()
        return *resize, *_TO_FLOAT, self._normalize()


_TO_FLOAT: tuple[Step, ...] = (
    ops.interned(PilToTensorOnce()),
    ops.interned_once(ops.ConvertImageDtype, torch.float32),
)
_KNOWN = {
    "ImageClassification": "8b5637849dbe83a4",
    "ObjectDetection": "58a89e31dc30b371",
    "SemanticSegmentation": "b2be714fc0f8e24e",
}
"""Fingerprints of the code that the classes here were written after."""


def _classes() -> dict[type, Any]:
    known = {}
    for draws in (ImageClassification, ObjectDetection, SemanticSegmentation):
        name = draws.__name__
        kind = getattr(theirs, name, None)
        try:
            if kind is not None and fingerprint((kind,)) == _KNOWN[name]:
                known[kind] = adapter_class(draws)
        except (OSError, TypeError, SyntaxError):
            continue  # there is no source code
    return known


TABLE = _classes()
"""The class that draws for each of torchvision's."""
