"""timm's crops, pads and resizes; see `fastpipe.interop.transforms.timm`."""

from __future__ import annotations

import math
from typing import Any

from fastpipe import ops
from fastpipe.interop.transforms.base import Drawing
from fastpipe.ops.interpolation import InterpolationMode, interpolation_of
from fastpipe.types import Fill, Generators, ImageShape, Step


class RandomResizedCropAndInterpolation(Drawing):
    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        python = generators.python
        box = _resized_crop_box(shape.height, shape.width, self.scale, self.ratio, python)
        return ops.Crop(*box), resize(tuple(self.size), one_of(self.interpolation, python))


def _resized_crop_box(height: int, width: int, scale: Any, ratio: Any, python: Any) -> tuple[int, int, int, int]:
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
    in_ratio = width / height
    if in_ratio < min(ratio):
        target_w, target_h = width, round(width / min(ratio))
    elif in_ratio > max(ratio):
        target_w, target_h = round(height * max(ratio)), height
    else:
        target_w, target_h = width, height
    return (height - target_h) // 2, (width - target_w) // 2, target_h, target_w


def one_of(interpolation: InterpolationMode, python: Any) -> Any:
    """timm's random filter."""
    return python.choice(interpolation) if isinstance(interpolation, (tuple, list)) else interpolation


def resize(size: tuple[int, int], interpolation: InterpolationMode) -> ops.Operation:
    """The operation of timm's resizes, with antialiasing."""
    made: ops.Operation = ops.interned_once(_resize_to, *size, interpolation)
    return made


def _resize_to(height: int, width: int, interpolation: InterpolationMode) -> ops.Resize:
    return ops.Resize([height, width], interpolation_of(interpolation), None, True)


class ResizeKeepRatio(Drawing):
    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        python = generators.python
        size = self._draw_size(shape, python)
        return (resize(size, one_of(self.interpolation, python)),)

    def _draw_size(self, shape: ImageShape, python: Any) -> tuple[int, int]:
        target_h, target_w = self.size
        ratio_h, ratio_w = shape.height / target_h, shape.width / target_w
        ratio = max(ratio_h, ratio_w) * self.longest + min(ratio_h, ratio_w) * (1.0 - self.longest)
        factors = (1.0, 1.0)
        if self.random_scale_prob > 0 and python.random() < self.random_scale_prob:
            factor = python.uniform(self.random_scale_range[0], self.random_scale_range[1])
            if self.random_scale_area:
                factor = 1.0 / math.sqrt(factor)
            factors = (factor, factor)
        if self.random_aspect_prob > 0 and python.random() < self.random_aspect_prob:
            low, high = self.random_aspect_range[0], self.random_aspect_range[1]
            aspect = math.sqrt(math.exp(python.uniform(math.log(low), math.log(high))))
            factors = (factors[0] / aspect, factors[1] * aspect)
        return round(shape.height * factors[0] / ratio), round(shape.width * factors[1] / ratio)


class CenterCropOrPad(Drawing):
    _draws_from_python = False

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        return center_crop_or_pad(shape, self.size, self.fill, self.padding_mode)


def center_crop_or_pad(shape: ImageShape, size: Any, fill: Fill, padding_mode: str) -> tuple[Step, ...]:
    """The steps of timm's function of this name."""
    crop_height, crop_width = size
    across, down = max(crop_width - shape.width, 0), max(crop_height - shape.height, 0)
    steps: list[Step] = []
    if across or down:
        padding = [across // 2, down // 2, (across + 1) // 2, (down + 1) // 2]
        steps.append(ops.Pad(padding, _fill(fill), padding_mode))
        shape = steps[0].output_shape(shape)
        if (crop_height, crop_width) == shape.size:
            return tuple(steps)
    top, left = round((shape.height - crop_height) / 2.0), round((shape.width - crop_width) / 2.0)
    return (*steps, ops.Crop(top, left, crop_height, crop_width))


def _fill(fill: Fill) -> Any:
    return list(fill) if isinstance(fill, (list, tuple)) else fill


class RandomCropOrPad(Drawing):
    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        python = generators.python
        height, width = self.size
        delta_height, delta_width = shape.height - height, shape.width - width
        top = int(math.copysign(python.randint(0, abs(delta_height)), delta_height))
        left = int(math.copysign(python.randint(0, abs(delta_width)), delta_width))
        return crop_or_pad(shape, (top, left, height, width), self.fill, self.padding_mode)


def crop_or_pad(shape: ImageShape, place: tuple[int, int, int, int], fill: Fill, padding_mode: str) -> tuple[Step, ...]:
    """The steps of timm's function of this name; a place is top, left, height and width."""
    top, left, height, width = place
    right, bottom = left + width, top + height
    steps: list[Step] = []
    if left < 0 or top < 0 or right > shape.width or bottom > shape.height:
        padding = [
            max(-left + min(0, right), 0),
            max(-top + min(0, bottom), 0),
            max(right - max(shape.width, left), 0),
            max(bottom - max(shape.height, top), 0),
        ]
        steps.append(ops.Pad(padding, _fill(fill), padding_mode))
    return (*steps, ops.Crop(max(top, 0), max(left, 0), height, width))


class RandomPad(Drawing):
    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        python = generators.python
        across, down = max(self.input_size[1] - shape.width, 0), max(self.input_size[0] - shape.height, 0)
        left, top = python.randint(0, across), python.randint(0, down)
        return (ops.Pad([left, top, across - left, down - top], _fill(self.fill)),)


class TrimBorder(Drawing):
    _draws_from_python = False

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        border, (height, width) = self.border_size, shape.size
        size = max(0, height - 2 * border), max(0, width - 2 * border)
        return (ops.Crop(min(border, height), min(border, height), *size),)
