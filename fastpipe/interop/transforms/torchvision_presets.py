"""Plans the transforms of torchvision's weights (``weights.transforms()``) as the steps that their code calls.

They belong to torchvision's private API, which may change, so a class is recognised by the fingerprint of its code.
"""

from __future__ import annotations

import torch
from torchvision.transforms import _presets as theirs

from fastpipe import ops
from fastpipe.interop.transforms.base import Drawing
from fastpipe.interop.transforms.known_code import KnownCode, by_code
from fastpipe.interop.transforms.pillow_ops import PilToTensorOnce
from fastpipe.interop.transforms.torchvision_v1 import why_not as why_not
from fastpipe.ops.interpolation import interpolation_of
from fastpipe.types import Generators, ImageShape, Step


class _Preset(Drawing):
    _draws_from_python = False

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
ENTRIES = [
    KnownCode(theirs, "ImageClassification", "8b5637849dbe83a4", ImageClassification),
    KnownCode(theirs, "ObjectDetection", "58a89e31dc30b371", ObjectDetection),
    KnownCode(theirs, "SemanticSegmentation", "b2be714fc0f8e24e", SemanticSegmentation),
]
TABLE, _ = by_code(ENTRIES)
"""Our class that draws for each class of torchvision's."""
