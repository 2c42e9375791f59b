"""timm's crops and resizes to a sequence of patches (NaFlex), whose own functions draw from an image's size."""

from __future__ import annotations

from typing import Any

from fastpipe import ops
from fastpipe.interop.transforms.base import Drawing, KnownCode
from fastpipe.interop.transforms.timm_crops import center_crop_or_pad, crop_or_pad, one_of, resize
from fastpipe.rng import as_globals
from fastpipe.transforms.sized_image import SizedImage
from fastpipe.types import Generators, ImageShape, Step

try:
    from timm.data import naflex_transforms as theirs
except ImportError:  # older versions lack them
    theirs: Any = None  # type: ignore[no-redef]


class ResizeToSequence(Drawing):
    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        size = _size_for(self, shape, self.max_seq_len, self.max_ratio)
        return (resize(size, one_of(self.interpolation, generators.python)),)


def _size_for(transform: Any, shape: ImageShape, most: int, max_ratio: Any) -> Any:
    patches = transform.patch_size, most, transform.divisible_by_patch
    return theirs.get_image_size_for_seq(shape.size, *patches, max_ratio)[1]


class ResizeKeepRatioToSequence(Drawing):
    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        with as_globals(generators, with_torch=False):
            size = theirs.ResizeKeepRatioToSequence.get_params(
                SizedImage(shape),
                self.patch_size,
                self.max_sequence_len,
                self.divisible_by_patch,
                self.longest,
                self.random_scale_prob,
                self.random_scale_range,
                self.random_scale_area,
                self.random_aspect_prob,
                self.random_aspect_range,
                self.max_ratio,
            )
        return (resize(tuple(size), one_of(self.interpolation, generators.python)),)


class CenterCropToSequence(Drawing):
    _draws_from_python = False

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        size = _size_for(self, shape, self.max_seq_len, None)
        return center_crop_or_pad(shape, size, self.fill, self.padding_mode)


class RandomCropToSequence(Drawing):
    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        size = _size_for(self, shape, self.max_sequence_len, 1.0)
        with as_globals(generators, with_torch=False):
            top, left = theirs.RandomCropToSequence.get_params(SizedImage(shape), size)
        return crop_or_pad(shape, (top, left, *size), self.fill, self.padding_mode)


class RandomResizedCropToSequence(Drawing):
    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        with as_globals(generators, with_torch=False):
            box, size, interpolation = theirs.RandomResizedCropToSequence.get_params(
                SizedImage(shape),
                scale=self.scale,
                ratio=self.ratio,
                crop_attempts=self.attempts,
                patch_h=self.patch_h,
                patch_w=self.patch_w,
                divisible_by_patch=self.divisible_by_patch,
                max_seq_len=self.max_seq_len,
                final_scale_range=self.final_scale_range,
                interpolation=self.interpolation,
            )
        return ops.Crop(*box), resize(size, interpolation)


_BEHIND = tuple(getattr(theirs, name, None) for name in ("get_image_size_for_seq", "crop_or_pad", "center_crop_or_pad"))
ENTRIES = [
    KnownCode(theirs, "CenterCropToSequence", "1b0985408ead7c00", CenterCropToSequence, _BEHIND),
    KnownCode(theirs, "RandomCropToSequence", "b0a40d09b22b14ab", RandomCropToSequence, _BEHIND),
    KnownCode(theirs, "RandomResizedCropToSequence", "a5aabc2a853facce", RandomResizedCropToSequence, _BEHIND),
    KnownCode(theirs, "ResizeKeepRatioToSequence", "43df75dfc55ef463", ResizeKeepRatioToSequence, _BEHIND),
    KnownCode(theirs, "ResizeToSequence", "7b4a6d6a2c37fe18", ResizeToSequence, _BEHIND),
]
"""The classes for sequences; `Patchify` cuts a tensor, which is made by then: it runs as it is."""
