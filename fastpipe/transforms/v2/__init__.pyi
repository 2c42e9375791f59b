# ruff: noqa
"""Types for type checkers; written by tests/typing_stubs.py."""

from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any, Literal, TypeAlias, TypeVar

import PIL.Image
import torch
from torchvision import tv_tensors
from torchvision.transforms import AutoAugmentPolicy as _TorchvisionPolicy
from torchvision.transforms import InterpolationMode as _TorchvisionMode

from fastpipe.ops.interpolation import InterpolationMode as InterpolationMode
from fastpipe.transforms.autoaugment import AutoAugmentPolicy as AutoAugmentPolicy
from fastpipe.types import Array, Image

_Image = TypeVar("_Image", bound=Image)
_Interpolation: TypeAlias = InterpolationMode | _TorchvisionMode | int
_Policy: TypeAlias = AutoAugmentPolicy | _TorchvisionPolicy
_Function: TypeAlias = Callable[..., Any]
from fastpipe.transforms.v2 import functional as functional

class Transform(torch.nn.Module):
    def __call__(self, *inputs: Any) -> Any: ...
    def forward(self, *inputs: Any) -> Any: ...
    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]: ...
    def transform(self, inpt: Any, params: dict[str, Any]) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...

class AugMix(Transform):
    def __init__(
        self,
        severity: int = ...,
        mixture_width: int = ...,
        chain_depth: int = ...,
        alpha: float = ...,
        all_ops: bool = ...,
        interpolation: str | _Interpolation | int = ...,
        fill: int
        | float
        | Sequence[int]
        | Sequence[float]
        | None
        | dict[type | str, int | float | Sequence[int] | Sequence[float] | None] = ...,
    ) -> None: ...

class AutoAugment(Transform):
    def __init__(
        self,
        policy: _Policy = ...,
        interpolation: str | _Interpolation | int = ...,
        fill: int
        | float
        | Sequence[int]
        | Sequence[float]
        | None
        | dict[type | str, int | float | Sequence[int] | Sequence[float] | None] = ...,
    ) -> None: ...

class CenterCrop(Transform):
    def __init__(self, size: int | Sequence[int]) -> None: ...

class ClampBoundingBoxes(Transform):
    def __init__(self, clamping_mode: str | None = ...) -> None: ...

class ClampKeyPoints(Transform):
    def __init__(self) -> None: ...

class ColorJitter(Transform):
    def __init__(
        self,
        brightness: float | Sequence[float] | None = ...,
        contrast: float | Sequence[float] | None = ...,
        saturation: float | Sequence[float] | None = ...,
        hue: float | Sequence[float] | None = ...,
    ) -> None: ...

class Compose(Transform):
    def __init__(self, transforms: Sequence[_Function]) -> None: ...
    transforms: Any

class ConvertBoundingBoxFormat(Transform):
    def __init__(self, format: str | tv_tensors.BoundingBoxFormat) -> None: ...

class ConvertImageDtype(Transform):
    def __init__(self, dtype: torch.dtype = ...) -> None: ...

class CutMix(Transform):
    def __init__(self, *, alpha: float = ..., num_classes: int | None = ..., labels_getter: Any = ...) -> None: ...

class ElasticTransform(Transform):
    def __init__(
        self,
        alpha: float | Sequence[float] = ...,
        sigma: float | Sequence[float] = ...,
        interpolation: str | _Interpolation | int = ...,
        fill: int
        | float
        | Sequence[int]
        | Sequence[float]
        | None
        | dict[type | str, int | float | Sequence[int] | Sequence[float] | None] = ...,
    ) -> None: ...

class FiveCrop(Transform):
    def __init__(self, size: int | Sequence[int]) -> None: ...

class GaussianBlur(Transform):
    def __init__(self, kernel_size: int | Sequence[int], sigma: int | float | Sequence[float] = ...) -> None: ...

class GaussianNoise(Transform):
    def __init__(self, mean: float = ..., sigma: float = ..., clip: Any = ...) -> None: ...

class Grayscale(Transform):
    def __init__(self, num_output_channels: int = ...) -> None: ...

class Identity(Transform):
    def __init__(self) -> None: ...

class JPEG(Transform):
    def __init__(self, quality: int | Sequence[int]) -> None: ...

class Lambda(Transform):
    def __init__(self, lambd: _Function, *types: type) -> None: ...

class LinearTransformation(Transform):
    def __init__(self, transformation_matrix: torch.Tensor, mean_vector: torch.Tensor) -> None: ...

class MixUp(Transform):
    def __init__(self, *, alpha: float = ..., num_classes: int | None = ..., labels_getter: Any = ...) -> None: ...

class Normalize(Transform):
    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = ...) -> None: ...

class PILToTensor(Transform):
    def __init__(self) -> None: ...

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

class RGB(Transform):
    def __init__(self) -> None: ...

class RandAugment(Transform):
    def __init__(
        self,
        num_ops: int = ...,
        magnitude: int = ...,
        num_magnitude_bins: int = ...,
        interpolation: str | _Interpolation | int = ...,
        fill: int
        | float
        | Sequence[int]
        | Sequence[float]
        | None
        | dict[type | str, int | float | Sequence[int] | Sequence[float] | None] = ...,
    ) -> None: ...

class RandomAdjustSharpness(Transform):
    def __init__(self, sharpness_factor: float, p: float = ...) -> None: ...

class RandomAffine(Transform):
    def __init__(
        self,
        degrees: Number | Sequence[Any],
        translate: Sequence[float] | None = ...,
        scale: Sequence[float] | None = ...,
        shear: int | float | Sequence[float] | None = ...,
        interpolation: str | _Interpolation | int = ...,
        fill: int
        | float
        | Sequence[int]
        | Sequence[float]
        | None
        | dict[type | str, int | float | Sequence[int] | Sequence[float] | None] = ...,
        center: float | Sequence[float] | None = ...,
    ) -> None: ...

class RandomApply(Transform):
    def __init__(self, transforms: Sequence[_Function] | torch.nn.ModuleList, p: float = ...) -> None: ...
    transforms: Any

class RandomAutocontrast(Transform):
    def __init__(self, p: float = ...) -> None: ...

class RandomChannelPermutation(Transform):
    def __init__(self) -> None: ...

class RandomChoice(Transform):
    def __init__(self, transforms: Sequence[_Function], p: float | Sequence[float] | None = ...) -> None: ...
    transforms: Any

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

class RandomEqualize(Transform):
    def __init__(self, p: float = ...) -> None: ...

class RandomErasing(Transform):
    def __init__(
        self,
        p: float = ...,
        scale: Sequence[float] = ...,
        ratio: Sequence[float] = ...,
        value: float = ...,
        inplace: bool = ...,
    ) -> None: ...

class RandomGrayscale(Transform):
    def __init__(self, p: float = ...) -> None: ...

class RandomHorizontalFlip(Transform):
    def __init__(self, p: float = ...) -> None: ...

class RandomInvert(Transform):
    def __init__(self, p: float = ...) -> None: ...

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

class RandomOrder(Transform):
    def __init__(self, transforms: Sequence[_Function]) -> None: ...
    transforms: Any

class RandomPerspective(Transform):
    def __init__(
        self,
        distortion_scale: float = ...,
        p: float = ...,
        interpolation: str | _Interpolation | int = ...,
        fill: int
        | float
        | Sequence[int]
        | Sequence[float]
        | None
        | dict[type | str, int | float | Sequence[int] | Sequence[float] | None] = ...,
    ) -> None: ...

class RandomPhotometricDistort(Transform):
    def __init__(
        self,
        brightness: tuple[float, float] = ...,
        contrast: tuple[float, float] = ...,
        saturation: tuple[float, float] = ...,
        hue: tuple[float, float] = ...,
        p: float = ...,
    ) -> None: ...

class RandomPosterize(Transform):
    def __init__(self, bits: int, p: float = ...) -> None: ...

class RandomResize(Transform):
    def __init__(
        self,
        min_size: int,
        max_size: int,
        interpolation: str | _Interpolation | int = ...,
        antialias: bool | None = ...,
    ) -> None: ...

class RandomResizedCrop(Transform):
    def __init__(
        self,
        size: int | Sequence[int],
        scale: tuple[float, float] = ...,
        ratio: tuple[float, float] = ...,
        interpolation: str | _Interpolation | int = ...,
        antialias: bool | None = ...,
    ) -> None: ...

class RandomRotation(Transform):
    def __init__(
        self,
        degrees: Number | Sequence[Any],
        interpolation: str | _Interpolation | int = ...,
        expand: bool = ...,
        center: float | Sequence[float] | None = ...,
        fill: int
        | float
        | Sequence[int]
        | Sequence[float]
        | None
        | dict[type | str, int | float | Sequence[int] | Sequence[float] | None] = ...,
    ) -> None: ...

class RandomShortestSize(Transform):
    def __init__(
        self,
        min_size: int | Sequence[int] | tuple[int] | int,
        max_size: int | None = ...,
        interpolation: str | _Interpolation | int = ...,
        antialias: bool | None = ...,
    ) -> None: ...

class RandomSolarize(Transform):
    def __init__(self, threshold: float, p: float = ...) -> None: ...

class RandomVerticalFlip(Transform):
    def __init__(self, p: float = ...) -> None: ...

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

class Resize(Transform):
    def __init__(
        self,
        size: int | Sequence[int] | None,
        interpolation: str | _Interpolation | int = ...,
        max_size: int | None = ...,
        antialias: bool | None = ...,
    ) -> None: ...

class SanitizeBoundingBoxes(Transform):
    def __init__(
        self, min_size: float = ..., min_area: float = ..., labels_getter: _Function | str | None = ...
    ) -> None: ...

class SanitizeKeyPoints(Transform):
    def __init__(self, labels_getter: _Function | str | None = ...) -> None: ...

class ScaleJitter(Transform):
    def __init__(
        self,
        target_size: tuple[int, int],
        scale_range: tuple[float, float] = ...,
        interpolation: str | _Interpolation | int = ...,
        antialias: bool | None = ...,
    ) -> None: ...

class SetClampingMode(Transform):
    def __init__(self, clamping_mode: str | None) -> None: ...

class TenCrop(Transform):
    def __init__(self, size: int | Sequence[int], vertical_flip: bool = ...) -> None: ...

class ToDtype(Transform):
    def __init__(self, dtype: torch.dtype | dict[type | str, torch.dtype | None], scale: bool = ...) -> None: ...

class ToImage(Transform):
    def __init__(self) -> None: ...

class ToPILImage(Transform):
    def __init__(self, mode: str | None = ...) -> None: ...

class ToPureTensor(Transform):
    def __init__(self) -> None: ...

class ToTensor(Transform):
    def __init__(self) -> None: ...

class TrivialAugmentWide(Transform):
    def __init__(
        self,
        num_magnitude_bins: int = ...,
        interpolation: str | _Interpolation | int = ...,
        fill: int
        | float
        | Sequence[int]
        | Sequence[float]
        | None
        | dict[type | str, int | float | Sequence[int] | Sequence[float] | None] = ...,
    ) -> None: ...

class UniformTemporalSubsample(Transform):
    def __init__(self, num_samples: int) -> None: ...

def check_type(obj: object, types_or_checks: object) -> bool: ...
def get_bounding_boxes(flat_inputs: list[Any]) -> tv_tensors.BoundingBoxes: ...
def get_keypoints(flat_inputs: list[Any]) -> tv_tensors.KeyPoints: ...
def has_all(flat_inputs: list[Any], *types_or_checks: object) -> bool: ...
def has_any(flat_inputs: list[Any], *types_or_checks: object) -> bool: ...
def query_chw(flat_inputs: list[Any]) -> tuple[int, int, int]: ...
def query_size(flat_inputs: list[Any]) -> tuple[int, int]: ...
