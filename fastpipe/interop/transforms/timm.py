"""Plans timm's transforms, which draw from Python's, numpy's and torch's generators and compute with Pillow.

Each class draws the same as timm's class of that name, in the same order, from an image's size alone; it was written
for the code whose fingerprint is in `ENTRIES`. This module is imported for an object of timm's, so timm is imported.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence

import numpy as np
import timm
import torch
from timm.data import auto_augment as theirs
from timm.data import random_erasing
from timm.data import transforms as crops

from fastpipe import ops
from fastpipe.interop import Foreign
from fastpipe.interop.transforms.base import Drawing
from fastpipe.interop.transforms.known_code import KnownCode, by_code
from fastpipe.interop.transforms.pillow_ops import (
    AsNumpy,
    LightenBelow,
    MixChains,
    PosterizeByPillow,
)
from fastpipe.interop.transforms.torchvision_v1 import GUARDED_PIL_TO_TENSOR, GUARDED_TO_TENSOR
from fastpipe.ops.interpolation import InterpolationMode, interpolation_of
from fastpipe.rng import numpy_of, stream_of
from fastpipe.transforms.geometry import largest_crop
from fastpipe.types import Generators, ImageShape, PythonRandom, Step

# -- crops


class RandomResizedCropAndInterpolation(Drawing):
    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        python = generators.python
        box = _resized_crop_box(shape.height, shape.width, self.scale, self.ratio, python)
        return ops.Crop(*box), _resize(tuple(self.size), _one_of(self.interpolation, python))


def _resized_crop_box(
    height: int, width: int, scale: Sequence[float], ratio: Sequence[float], python: PythonRandom
) -> tuple[int, int, int, int]:
    area = width * height
    for _ in range(10):
        target_area = python.uniform(*scale) * area
        log_ratio = (math.log(ratio[0]), math.log(ratio[1]))
        aspect_ratio = math.exp(python.uniform(*log_ratio))
        target_w = round(math.sqrt(target_area * aspect_ratio))
        target_h = round(math.sqrt(target_area / aspect_ratio))
        if target_w <= width and target_h <= height:
            i = python.randint(0, height - target_h)
            j = python.randint(0, width - target_w)
            return i, j, target_h, target_w
    return largest_crop(height, width, ratio)


def _one_of(interpolation: Foreign, python: PythonRandom) -> Foreign:
    """timm's choice of a filter, random if several are given."""
    return python.choice(interpolation) if isinstance(interpolation, (tuple, list)) else interpolation


def _resize(size: tuple[int, int], interpolation: InterpolationMode) -> ops.Operation:
    """The operation for timm's antialiased resize."""
    operation: ops.Operation = ops.interned_once(_resize_to, *size, interpolation)
    return operation


def _resize_to(height: int, width: int, interpolation: InterpolationMode) -> ops.Resize:
    return ops.Resize([height, width], interpolation_of(interpolation), None, True)


# -- the operations of the policies


def _affine(matrix: tuple[float, ...], given: Foreign, python: PythonRandom) -> tuple[Step, ...]:
    return (ops.AffineBy(matrix, _resampling(given, python), given.get("fillcolor")),)


def _posterized(bits: int) -> tuple[Step, ...]:
    if bits >= 8:
        return ()
    return (ops.Posterize(bits) if bits >= 1 else PosterizeByPillow(bits),)


def _resampling(given: Foreign, python: PythonRandom) -> InterpolationMode:
    return interpolation_of(int(_one_of(given.get("resample", theirs._DEFAULT_INTERPOLATION), python)))


_AUTOCONTRAST, _EQUALIZE, _INVERT = map(ops.interned_once, (ops.Autocontrast, ops.Equalize, ops.Invert))
_OPERATIONS: dict[object, Callable[..., tuple[Step, ...]]] = {
    theirs.auto_contrast: lambda shape, given, python: (_AUTOCONTRAST,),
    theirs.brightness: lambda shape, given, python, factor: (ops.AdjustBrightness(factor),),
    theirs.color: lambda shape, given, python, factor: (ops.AdjustSaturation(factor),),
    theirs.contrast: lambda shape, given, python, factor: (ops.AdjustContrast(factor),),
    theirs.desaturate: lambda shape, given, python, factor: (ops.AdjustSaturation(min(1.0, max(0.0, 1.0 - factor))),),
    theirs.equalize: lambda shape, given, python: (_EQUALIZE,),
    theirs.gaussian_blur: lambda shape, given, python, factor: (ops.PillowGaussianBlur(factor),),
    theirs.gaussian_blur_rand: lambda shape, given, python, factor: (
        ops.PillowGaussianBlur(python.uniform(0.1, 2.0 * factor)),
    ),
    theirs.invert: lambda shape, given, python: (_INVERT,),
    theirs.posterize: lambda shape, given, python, bits: _posterized(bits),
    theirs.rotate: lambda shape, given, python, degrees: (
        ops.Rotate(degrees, _resampling(given, python), fill=given.get("fillcolor")),
    ),
    theirs.sharpness: lambda shape, given, python, factor: (ops.AdjustSharpness(factor),),
    theirs.shear_x: lambda shape, given, python, factor: _affine((1, factor, 0, 0, 1, 0), given, python),
    theirs.shear_y: lambda shape, given, python, factor: _affine((1, 0, 0, factor, 1, 0), given, python),
    theirs.solarize: lambda shape, given, python, thresh: (ops.Solarize(thresh),),
    theirs.solarize_add: lambda shape, given, python, add: (LightenBelow(128, add),),
    theirs.translate_x_abs: lambda shape, given, python, pixels: _affine((1, 0, pixels, 0, 1, 0), given, python),
    theirs.translate_x_rel: lambda shape, given, python, share: _affine(
        (1, 0, share * shape.width, 0, 1, 0), given, python
    ),
    theirs.translate_y_abs: lambda shape, given, python, pixels: _affine((1, 0, 0, 0, 1, pixels), given, python),
    theirs.translate_y_rel: lambda shape, given, python, share: _affine(
        (1, 0, 0, 0, 1, share * shape.height), given, python
    ),
}
"""For each of timm's functions on images, a function that makes its steps of its arguments after the image."""

_NEGATED: dict[object, Callable[[float, Foreign], float]] = {
    theirs._rotate_level_to_arg: lambda level, hparams: (level / theirs._LEVEL_DENOM) * 30.0,
    theirs._shear_level_to_arg: lambda level, hparams: (level / theirs._LEVEL_DENOM) * 0.3,
    theirs._translate_abs_level_to_arg: lambda level, hparams: (
        (level / theirs._LEVEL_DENOM) * float(hparams["translate_const"])
    ),
    theirs._translate_rel_level_to_arg: lambda level, hparams: (
        (level / theirs._LEVEL_DENOM) * hparams.get("translate_pct", 0.45)
    ),
}
"""The level functions whose result gets a random sign; the other ones depend on the level alone."""
_LEVELS = frozenset(theirs.LEVEL_TO_ARG.values())


def _arguments(level_fn: Foreign, level: float, hparams: Foreign, python: PythonRandom) -> tuple[Foreign, ...]:
    if level_fn is None:
        return ()
    if level_fn in _NEGATED:
        value = _NEGATED[level_fn](level, hparams)
        return (-value if python.random() > 0.5 else value,)
    if level_fn is theirs._enhance_increasing_level_to_arg:
        value = (level / theirs._LEVEL_DENOM) * 0.9
        return (max(0.1, 1.0 + (-value if python.random() > 0.5 else value)),)
    arguments: tuple[Foreign, ...] = level_fn(level, hparams)
    return arguments


class AugmentOp(Drawing):
    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        return _draw_op(self, shape, generators.python)

    def _can_draw(self) -> bool:
        return _is_known(self)


def _draw_op(op: Foreign, shape: ImageShape, python: PythonRandom) -> tuple[Step, ...]:
    if op.prob < 1.0 and python.random() > op.prob:
        return ()
    magnitude = op.magnitude
    if op.magnitude_std > 0:
        if op.magnitude_std == float("inf"):
            magnitude = python.uniform(0, magnitude)
        elif op.magnitude_std > 0:
            magnitude = python.gauss(magnitude, op.magnitude_std)
    magnitude = max(0.0, min(magnitude, op.magnitude_max or theirs._LEVEL_DENOM))
    arguments = _arguments(op.level_fn, magnitude, op.hparams, python)
    return _OPERATIONS[op.aug_fn](shape, op.kwargs, python, *arguments)


def _is_known(op: Foreign) -> bool:
    """True if an operation is one of timm's, with timm's functions."""
    known = type(op) in (theirs.AugmentOp, AugmentOp)
    return known and op.aug_fn in _OPERATIONS and op.level_fn in _LEVELS and set(op.kwargs) <= {"fillcolor", "resample"}


def _drawn_ops(chosen: Foreign, shape: ImageShape, python: PythonRandom) -> tuple[Step, ...]:
    return tuple(step for op in chosen for step in _draw_op(op, shape, python))


class AutoAugment(Drawing):
    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        return _drawn_ops(generators.python.choice(self.policy), shape, generators.python)

    def _can_draw(self) -> bool:
        return all(_is_known(op) for chosen in self.policy for op in chosen)


class RandAugment(Drawing):
    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        weights, numpy = self.choice_weights, numpy_of(generators)
        if weights is None:  # the same as `choice` with replacement, which takes twice as long
            places = numpy.randint(0, len(self.ops), self.num_layers)
        else:
            places = numpy.choice(len(self.ops), self.num_layers, replace=False, p=weights)
        return _drawn_ops([self.ops[place] for place in places.tolist()], shape, generators.python)

    def _can_draw(self) -> bool:
        return all(map(_is_known, self.ops))


_AUGMIX: Foreign = theirs.AugMixAugment


class AugMixAugment(Drawing):
    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        numpy, python = numpy_of(generators), generators.python
        weights = np.float32(numpy.dirichlet([self.alpha] * self.width))
        share = np.float32(numpy.beta(self.alpha, self.alpha))
        if self.blended:
            weights = _AUGMIX._calc_blended_weights(self, weights, share)
        chains = []
        for _ in weights:
            depth = self.depth if self.depth > 0 else numpy.randint(1, 4)
            places = numpy.randint(0, len(self.ops), depth)
            chains.append(_drawn_ops([self.ops[place] for place in places.tolist()], shape, python))
        return (MixChains(weights, tuple(chains), None if self.blended else float(share)),)

    def _can_draw(self) -> bool:
        return all(map(_is_known, self.ops))


# -- tensors


class RandomErasing(Drawing):
    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        python = generators.python
        if python.random() > self.probability:
            return ()
        height, width, channels = shape
        area = height * width
        count = self.min_count if self.min_count == self.max_count else python.randint(self.min_count, self.max_count)
        steps = []
        for _ in range(count):
            for _ in range(10):
                target_area = python.uniform(self.min_area, self.max_area) * area / count
                aspect_ratio = math.exp(python.uniform(*self.log_aspect_ratio))
                h = round(math.sqrt(target_area * aspect_ratio))
                w = round(math.sqrt(target_area / aspect_ratio))
                if w < width and h < height:
                    top, left = python.randint(0, height - h), python.randint(0, width - w)
                    steps.append(ops.Erase(top, left, h, w, self._values(channels, h, w, generators)))
                    break
        return tuple(steps)

    def _values(self, channels: int, height: int, width: int, generators: Generators) -> torch.Tensor:
        if self.per_pixel:
            return stream_of(generators).randn([channels, height, width])
        if self.rand_color:
            return stream_of(generators).randn([channels, 1, 1])
        return torch.zeros((channels, 1, 1))

    def _can_draw(self) -> bool:
        return str(self.device) == "cpu"


class ToNumpy(Drawing):
    _draws_from_python = False

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        return ops.interned_once(ops.PilToTensor), AsNumpy()


# -- the table

_POLICIES = (
    *(function for name, function in sorted(theirs.NAME_TO_OP.items())),
    *(theirs._check_args_tf, theirs._interpolation, theirs._randomly_negate, theirs._minmax_level_to_arg),
    *(value for name, value in sorted(theirs.LEVEL_TO_ARG.items()) if inspect.isfunction(value)),
    theirs.AugmentOp,
)
"""The code behind each operation of a policy."""
ENTRIES = [
    KnownCode(theirs, "AugMixAugment", "288d788d9ecf8aa5", AugMixAugment, _POLICIES),
    KnownCode(theirs, "AugmentOp", "cb3d820cc7b6259b", AugmentOp, _POLICIES),
    KnownCode(theirs, "AutoAugment", "03627ad6e839b735", AutoAugment, _POLICIES),
    KnownCode(crops, "MaybePILToTensor", "1ac62437836fad3e", GUARDED_PIL_TO_TENSOR),
    KnownCode(crops, "MaybeToTensor", "61e1330a24c3d99d", GUARDED_TO_TENSOR),
    KnownCode(theirs, "RandAugment", "ce54e6534f3e4b49", RandAugment, _POLICIES),
    KnownCode(random_erasing, "RandomErasing", "511fea0ce727a49b", RandomErasing, (random_erasing._get_pixels,)),
    KnownCode(crops, "RandomResizedCropAndInterpolation", "35bfaf5c9a2531b3", RandomResizedCropAndInterpolation),
    KnownCode(crops, "ToNumpy", "1f5e3a320a8e5470", ToNumpy),
]
"""The code for which the classes were written: timm 1.0.3 to 1.0.31; for AugMix, the last of these."""

TABLE, OTHERS = by_code(ENTRIES)
"""The class that draws for each class of timm's; and timm's classes whose code differs, which aren't planned."""


def why_not(kind: type) -> str:
    """Why an object of a class of timm's isn't planned."""
    if kind.__name__ == "Patchify":
        return "it cuts the finished tensor into patches"
    if kind in TABLE:
        return "it has an operation or an option that fastpipe doesn't know"
    if kind in OTHERS:
        return f"this timm, {timm.__version__}, has another {kind.__name__} than the one that fastpipe knows"
    return "fastpipe doesn't know this class of timm's"
