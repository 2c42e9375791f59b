# ruff: noqa
"""Types for type checkers; written by tests/typing_stubs.py."""

from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any, Literal, TypeVar

import numpy as np
import PIL.Image
import torch

from fastpipe.ops.interpolation import InterpolationMode as InterpolationMode
from fastpipe.transforms.autoaugment import AutoAugmentPolicy as AutoAugmentPolicy
from fastpipe.transforms.v2 import functional as functional

class Transform(torch.nn.Module):
    def __call__(self, *inputs: Any) -> Any: ...
    def forward(self, *inputs: Any) -> Any: ...
    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]: ...
    def transform(self, inpt: Any, params: dict[str, Any]) -> Any: ...

class AugMix(Transform):
    def __init__(
        self,
        severity: int = ...,
        mixture_width: int = ...,
        chain_depth: int = ...,
        alpha: float = ...,
        all_ops: bool = ...,
        interpolation: str | InterpolationMode | Any | int = ...,
        fill: int
        | float
        | Sequence[int]
        | Sequence[float]
        | None
        | dict[type | str, int | float | Sequence[int] | Sequence[float] | None] = ...,
    ) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class AutoAugment(Transform):
    def __init__(
        self,
        policy: Any = ...,
        interpolation: str | InterpolationMode | Any | int = ...,
        fill: int
        | float
        | Sequence[int]
        | Sequence[float]
        | None
        | dict[type | str, int | float | Sequence[int] | Sequence[float] | None] = ...,
    ) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class CenterCrop(Transform):
    def __init__(self, size: int | Sequence[int]) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class ClampBoundingBoxes(Transform):
    def __init__(self, clamping_mode: str | None = ...) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class ClampKeyPoints(Transform):
    def __init__(self) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class ColorJitter(Transform):
    def __init__(
        self,
        brightness: float | Sequence[float] | None = ...,
        contrast: float | Sequence[float] | None = ...,
        saturation: float | Sequence[float] | None = ...,
        hue: float | Sequence[float] | None = ...,
    ) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class Compose(Transform):
    def __init__(self, transforms: Sequence[Callable[..., Any]]) -> None: ...
    transforms: Any
    def __getattr__(self, name: str) -> Any: ...

class ConvertBoundingBoxFormat(Transform):
    def __init__(self, format: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class ConvertImageDtype(Transform):
    def __init__(self, dtype: torch.dtype = ...) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class CutMix(Transform):
    def __init__(self, *, alpha: float = ..., num_classes: int | None = ..., labels_getter: Any = ...) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class ElasticTransform(Transform):
    def __init__(
        self,
        alpha: float | Sequence[float] = ...,
        sigma: float | Sequence[float] = ...,
        interpolation: str | InterpolationMode | Any | int = ...,
        fill: int
        | float
        | Sequence[int]
        | Sequence[float]
        | None
        | dict[type | str, int | float | Sequence[int] | Sequence[float] | None] = ...,
    ) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class FiveCrop(Transform):
    def __init__(self, size: int | Sequence[int]) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class GaussianBlur(Transform):
    def __init__(self, kernel_size: int | Sequence[int], sigma: int | float | Sequence[float] = ...) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class GaussianNoise(Transform):
    def __init__(self, mean: float = ..., sigma: float = ..., clip: Any = ...) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class Grayscale(Transform):
    def __init__(self, num_output_channels: int = ...) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class Identity(Transform):
    def __init__(self) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class JPEG(Transform):
    def __init__(self, quality: int | Sequence[int]) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class Lambda(Transform):
    def __init__(self, lambd: Callable[..., Any], *types: type) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class LinearTransformation(Transform):
    def __init__(self, transformation_matrix: torch.Tensor, mean_vector: torch.Tensor) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class MixUp(Transform):
    def __init__(self, *, alpha: float = ..., num_classes: int | None = ..., labels_getter: Any = ...) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class Normalize(Transform):
    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = ...) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class PILToTensor(Transform):
    def __init__(self) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class Pad(Transform):
    def __init__(
        self,
        padding: int | Sequence[int],
        fill: int
        | float
        | Sequence[int]
        | Sequence[float]
        | None
        | dict[type | str, int | float | Sequence[int] | Sequence[float] | None] = ...,
        padding_mode: Literal["constant", "edge", "reflect", "symmetric"] = ...,
    ) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class RGB(Transform):
    def __init__(self) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class RandAugment(Transform):
    def __init__(
        self,
        num_ops: int = ...,
        magnitude: int = ...,
        num_magnitude_bins: int = ...,
        interpolation: str | InterpolationMode | Any | int = ...,
        fill: int
        | float
        | Sequence[int]
        | Sequence[float]
        | None
        | dict[type | str, int | float | Sequence[int] | Sequence[float] | None] = ...,
    ) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class RandomAdjustSharpness(Transform):
    def __init__(self, sharpness_factor: float, p: float = ...) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class RandomAffine(Transform):
    def __init__(
        self,
        degrees: Number | Sequence[Any],
        translate: Sequence[float] | None = ...,
        scale: Sequence[float] | None = ...,
        shear: int | float | Sequence[float] | None = ...,
        interpolation: str | InterpolationMode | Any | int = ...,
        fill: int
        | float
        | Sequence[int]
        | Sequence[float]
        | None
        | dict[type | str, int | float | Sequence[int] | Sequence[float] | None] = ...,
        center: float | Sequence[float] | None = ...,
    ) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class RandomApply(Transform):
    def __init__(self, transforms: Any, p: float = ...) -> None: ...
    transforms: Any
    def __getattr__(self, name: str) -> Any: ...

class RandomAutocontrast(Transform):
    def __init__(self, p: Any = ...) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class RandomChannelPermutation(Transform):
    def __init__(self) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class RandomChoice(Transform):
    def __init__(self, transforms: Sequence[Callable[..., Any]], p: float | Sequence[float] | None = ...) -> None: ...
    transforms: Any
    def __getattr__(self, name: str) -> Any: ...

class RandomCrop(Transform):
    def __init__(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = ...,
        pad_if_needed: bool = ...,
        fill: int
        | float
        | Sequence[int]
        | Sequence[float]
        | None
        | dict[type | str, int | float | Sequence[int] | Sequence[float] | None] = ...,
        padding_mode: Literal["constant", "edge", "reflect", "symmetric"] = ...,
    ) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class RandomEqualize(Transform):
    def __init__(self, p: Any = ...) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class RandomErasing(Transform):
    def __init__(
        self,
        p: float = ...,
        scale: Sequence[float] = ...,
        ratio: Sequence[float] = ...,
        value: float = ...,
        inplace: bool = ...,
    ) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class RandomGrayscale(Transform):
    def __init__(self, p: float = ...) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class RandomHorizontalFlip(Transform):
    def __init__(self, p: Any = ...) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class RandomInvert(Transform):
    def __init__(self, p: Any = ...) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class RandomIoUCrop(Transform):
    def __init__(
        self,
        min_scale: float = ...,
        max_scale: float = ...,
        min_aspect_ratio: float = ...,
        max_aspect_ratio: float = ...,
        sampler_options: float | Sequence[float] | None = ...,
        trials: int = ...,
    ) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class RandomOrder(Transform):
    def __init__(self, transforms: Sequence[Callable[..., Any]]) -> None: ...
    transforms: Any
    def __getattr__(self, name: str) -> Any: ...

class RandomPerspective(Transform):
    def __init__(
        self,
        distortion_scale: float = ...,
        p: float = ...,
        interpolation: str | InterpolationMode | Any | int = ...,
        fill: int
        | float
        | Sequence[int]
        | Sequence[float]
        | None
        | dict[type | str, int | float | Sequence[int] | Sequence[float] | None] = ...,
    ) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class RandomPhotometricDistort(Transform):
    def __init__(
        self,
        brightness: tuple[float, float] = ...,
        contrast: tuple[float, float] = ...,
        saturation: tuple[float, float] = ...,
        hue: tuple[float, float] = ...,
        p: float = ...,
    ) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class RandomPosterize(Transform):
    def __init__(self, bits: int, p: float = ...) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class RandomResize(Transform):
    def __init__(
        self,
        min_size: int,
        max_size: int,
        interpolation: str | InterpolationMode | Any | int = ...,
        antialias: bool | None = ...,
    ) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class RandomResizedCrop(Transform):
    def __init__(
        self,
        size: int | Sequence[int],
        scale: tuple[float, float] = ...,
        ratio: tuple[float, float] = ...,
        interpolation: str | InterpolationMode | Any | int = ...,
        antialias: bool | None = ...,
    ) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class RandomRotation(Transform):
    def __init__(
        self,
        degrees: Number | Sequence[Any],
        interpolation: str | InterpolationMode | Any | int = ...,
        expand: bool = ...,
        center: float | Sequence[float] | None = ...,
        fill: int
        | float
        | Sequence[int]
        | Sequence[float]
        | None
        | dict[type | str, int | float | Sequence[int] | Sequence[float] | None] = ...,
    ) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class RandomShortestSize(Transform):
    def __init__(
        self,
        min_size: int | Sequence[int] | tuple[int] | int,
        max_size: int | None = ...,
        interpolation: str | InterpolationMode | Any | int = ...,
        antialias: bool | None = ...,
    ) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class RandomSolarize(Transform):
    def __init__(self, threshold: float, p: float = ...) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class RandomVerticalFlip(Transform):
    def __init__(self, p: Any = ...) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class RandomZoomOut(Transform):
    def __init__(
        self,
        fill: int
        | float
        | Sequence[int]
        | Sequence[float]
        | None
        | dict[type | str, int | float | Sequence[int] | Sequence[float] | None] = ...,
        side_range: Sequence[float] = ...,
        p: float = ...,
    ) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class Resize(Transform):
    def __init__(
        self,
        size: int | Sequence[int] | None,
        interpolation: str | InterpolationMode | Any | int = ...,
        max_size: int | None = ...,
        antialias: bool | None = ...,
    ) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class SanitizeBoundingBoxes(Transform):
    def __init__(
        self, min_size: float = ..., min_area: float = ..., labels_getter: Callable[..., Any] | str | None = ...
    ) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class SanitizeKeyPoints(Transform):
    def __init__(self, labels_getter: Callable[..., Any] | str | None = ...) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class ScaleJitter(Transform):
    def __init__(
        self,
        target_size: tuple[int, int],
        scale_range: tuple[float, float] = ...,
        interpolation: str | InterpolationMode | Any | int = ...,
        antialias: bool | None = ...,
    ) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class SetClampingMode(Transform):
    def __init__(self, clamping_mode: str | None) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class TenCrop(Transform):
    def __init__(self, size: int | Sequence[int], vertical_flip: bool = ...) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class ToDtype(Transform):
    def __init__(self, dtype: torch.dtype | dict[type | str, torch.dtype | None], scale: bool = ...) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class ToImage(Transform):
    def __init__(self) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class ToPILImage(Transform):
    def __init__(self, mode: str | None = ...) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class ToPureTensor(Transform):
    def __init__(self) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class ToTensor(Transform):
    def __init__(self) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class TrivialAugmentWide(Transform):
    def __init__(
        self,
        num_magnitude_bins: int = ...,
        interpolation: str | InterpolationMode | Any | int = ...,
        fill: int
        | float
        | Sequence[int]
        | Sequence[float]
        | None
        | dict[type | str, int | float | Sequence[int] | Sequence[float] | None] = ...,
    ) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class UniformTemporalSubsample(Transform):
    def __init__(self, num_samples: int) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

def check_type(obj: Any, types_or_checks: Any) -> Any: ...
def get_bounding_boxes(flat_inputs: Any) -> Any: ...
def get_keypoints(flat_inputs: Any) -> Any: ...
def has_all(flat_inputs: Any, *types_or_checks: Any) -> Any: ...
def has_any(flat_inputs: Any, *types_or_checks: Any) -> Any: ...
def query_chw(flat_inputs: Any) -> Any: ...
def query_size(flat_inputs: Any) -> Any: ...
