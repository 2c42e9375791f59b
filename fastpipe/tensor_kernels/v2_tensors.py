"""torchvision's v2 functions on tensors ``(..., C, H, W)`` in main memory, by the core: the same bytes.

`KERNELS` maps torchvision's names to functions with its arguments for uint8 tensors, `FLOAT_KERNELS` for others; `run`
calls them. A batch of images is one call. The result is None for inputs that the core doesn't take (other dtypes and
memory formats, arguments that torchvision checks itself); then torchvision does the work. `fused`, `resizes_natively`
and `samples_affine` find out once how this torch rounds.
"""

from __future__ import annotations

import functools
import importlib
import types
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from fastpipe import core
from fastpipe.core import Filter, Kind, PassOrder, TensorRounding
from fastpipe.core import planes as native
from fastpipe.environment import installed
from fastpipe.kernels import trials
from fastpipe.plain_way import plainly
from fastpipe.tensor_kernels import floats, planes
from fastpipe.tensor_kernels.filters import blurred_as_v2
from fastpipe.tensor_kernels.grids import products_are_sums
from fastpipe.torch_modes import computes_by_default
from fastpipe.types import Fill

_LARGEST_FACTOR = 1e30
_LARGE = 1 << 16  # pixels: from here on float32 may not hold the sum of gray values exactly
NEAREST, BILINEAR = 0, 2
"""Pillow's integers for two modes, which every torchvision takes."""
FILTERS = {"bilinear": Filter.BILINEAR, "bicubic": Filter.BICUBIC}
SAMPLE_FILTERS = {"bilinear": Filter.BILINEAR, "nearest": Filter.NEAREST}
Kernel: TypeAlias = "Callable[..., Tensor | None]"


def functional(name: str) -> Any:
    """A function of torchvision's v2 by its name; imports torchvision at the first call."""
    return getattr(importlib.import_module("torchvision.transforms.v2.functional"), name)


def _geometry() -> types.ModuleType:
    return importlib.import_module("torchvision.transforms.v2.functional._geometry")


def mode_of(interpolation: object) -> Any:
    """torchvision's mode for a mode, one of Pillow's integers or, where torchvision takes names, a mode's name.

    Raises:
        ValueError: torchvision's.
    """
    return _geometry()._check_interpolation(interpolation)


# -- how this torch rounds


def fused() -> int | None:
    """The flags with which the core's blends equal torch's, as it computes at the moment; None if no flags do."""
    return _fused() if computes_by_default() else None


@functools.cache
def _fused() -> int | None:
    if not core.available():
        return None
    colors = torch.randint(0, 256, (3, 64, 256), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    asked = [(Kind.TENSOR_SATURATION, "adjust_saturation", factor) for factor in (0.1, 0.37, 1.19, 1.9)]
    asked += [(Kind.TENSOR_SHARPNESS, "adjust_sharpness", factor) for factor in (0.1, 0.37, 1.19, 1.9)]
    asked += [(Kind.TENSOR_CONTRAST, "adjust_contrast", factor) for factor in (0.1, 0.73, 1.9)]
    known = [functional(name)(colors, factor) for _, name, factor in asked]
    gray = functional("rgb_to_grayscale")(colors)
    for flags in (int(TensorRounding.FUSED), 0):
        asked_of_core = [(Kind.TENSOR_GRAY, 1.0), *((kind, factor) for kind, _, factor in asked)]
        results = [planes.changed(kind, colors, factor, flags) for kind, factor in asked_of_core]
        pairs = zip(results, [gray, *known], strict=True)
        if all(found is not None and torch.equal(found, expected) for found, expected in pairs):
            return flags
    trials.refuse(
        "This torchvision blends the colours of tensors in another way than fastpipe knows, and does it itself."
    )
    return None


@functools.cache
def samples_affine() -> bool:
    """True if the core computes the same points of an affine grid as this torch, and the same values there."""
    rounding = planes.rounding()
    return rounding is not None and products_are_sums() and bool(rounding) == bool(_fused())


@functools.cache
def resizes_natively(mode: str) -> bool:
    """True if torchvision resizes uint8 tensors in this mode by torch's integer arithmetic, which the core has.

    (On processors without AVX2, and before 0.24 on those with AVX-512, torchvision computes with floats.)
    """
    if mode not in FILTERS or not core.available():
        return False
    image = torch.randint(0, 256, (3, 61, 83), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    for size in ((23, 40), (97, 64), (61, 12)):
        with plainly():
            known = functional("resize")(
                image, [*size], interpolation=functional("InterpolationMode")(mode), antialias=True
            )
        resized = _resized(image, size, mode)
        if resized is None or not torch.equal(resized, known):
            trials.refuse(
                f"This torchvision, {installed('torchvision')}, resizes bytes in floats on this processor ({mode}): "
                "tensors of bytes gain less."
            )
            return False
    return True


# -- colours


class Color(NamedTuple):
    """One of torchvision's colour functions, as the core has it.

    Attributes:
        kind: the core's operation.
        argument: the name of the function's argument; empty if it has none.
        default: the argument's default; None if it is required.
        takes: tells if both torchvision and the core accept a value.
        rounds: whether the operation needs the flags of `fused`.
        pointwise: each pixel of the result depends on the same pixel of the input alone.
        to_planes: torchvision stacks or gathers, so that its result is contiguous.
    """

    kind: Kind
    argument: str = ""
    default: float | None = 1
    takes: Callable[[float], bool] = (1).__eq__
    rounds: bool = False
    pointwise: bool = False
    to_planes: bool = False


def _is_factor(value: float) -> bool:
    return 0 <= value <= _LARGEST_FACTOR


COLORS: Mapping[str, Color] = MappingProxyType(
    {
        "adjust_contrast": Color(Kind.TENSOR_CONTRAST, "contrast_factor", None, _is_factor, rounds=True),
        "adjust_hue": Color(
            Kind.TENSOR_HUE, "hue_factor", None, lambda value: -0.5 <= value <= 0.5, pointwise=True, to_planes=True
        ),
        "adjust_saturation": Color(
            Kind.TENSOR_SATURATION, "saturation_factor", None, _is_factor, rounds=True, pointwise=True
        ),
        "adjust_sharpness": Color(Kind.TENSOR_SHARPNESS, "sharpness_factor", None, _is_factor, rounds=True),
        "autocontrast": Color(Kind.TENSOR_AUTOCONTRAST),
        "equalize": Color(Kind.EQUALIZE, to_planes=True),
        "rgb_to_grayscale": Color(
            Kind.TENSOR_GRAY, "num_output_channels", 1, (1, 3).__contains__, rounds=True, pointwise=True, to_planes=True
        ),
    }
)
"""The colour functions by torchvision's name."""


def color_call(name: str, *args: float, **given: float) -> tuple[Kind, float, int] | None:
    """The core's operation for one of `COLORS`, its factor or number of channels, and its flags.

    None for arguments that torchvision refuses, and if torchvision rounds otherwise than the core.
    """
    kind, argument, value, takes, rounds, *_ = COLORS[name]
    if len(args) + len(given) == 1 and argument:
        value = args[0] if args else given.get(argument)
    elif args or given:
        return None
    flags = fused() if rounds else 0
    return None if value is None or flags is None or not takes(value) else (kind, value, flags)


def _color(name: str) -> Kernel:
    def kernel(image: Tensor, *args: float, **given: float) -> Tensor | None:
        call = color_call(name, *args, **given)
        if call is None:
            return None
        kind, value, flags = call
        if kind is Kind.TENSOR_GRAY:
            gray = planes.changed(kind, image, 1.0, flags)
            return gray if gray is None or value == 1 else gray.expand(image.shape)
        return planes.changed(kind, image, value, flags)

    return kernel


_contrast = _color("adjust_contrast")


def _adjust_contrast(image: Tensor, contrast_factor: float) -> Tensor | None:
    """The blend; for large images a look-up in a table that is made with torch's own mean of all pixels.

    None if torch rounds some values in two ways: see ``FPC_UNSURE``.
    """
    blended, flags = _contrast(image, contrast_factor), fused()
    large = image.ndim == 3 and image.shape[0] == 3 and image.shape[1] * image.shape[2] > _LARGE
    if blended is not None or not large or contrast_factor < 0 or flags is None:
        return blended
    gray = planes.changed(Kind.TENSOR_GRAY, image, 1.0, flags)
    table = None if gray is None else contrast_table(gray.float(), contrast_factor)
    return None if table is None else planes.looked_up(image, lambda _: table)


def contrast_table(gray: Tensor, contrast_factor: float) -> Tensor | None:
    """The look-up table of torch's ``adjust_contrast``, uint8 ``(1, 1, 256)``; None if torch rounds in two ways.

    Args:
        gray: the gray image: integers as float32 ``(1, H, W)``.
        contrast_factor: the function's argument.
    """
    mean = torch.mean(gray, dim=(-3, -2, -1), keepdim=True)
    scaled, rest = planes.LEVELS.mul(float(contrast_factor)), 1.0 - float(contrast_factor)
    sums = scaled.add(mean, alpha=rest), scaled + mean * rest
    table, other = (one.clamp_(0, 255).to(torch.uint8) for one in sums)
    return table if torch.equal(table, other) else None


def _adjust_hue(image: Tensor, *args: float, **given: float) -> Tensor | None:
    call = color_call("adjust_hue", *args, **given)
    return None if call is None else floats.hue_adjusted(image, call[1])


def _by_table(name: str) -> Kernel:
    def kernel(image: Tensor, *args: object, **kwargs: object) -> Tensor | None:
        return planes.looked_up(image, functional(name), *args, **kwargs)

    return kernel


# -- geometry


def _resize(
    image: Tensor,
    size: object,
    interpolation: object = BILINEAR,
    max_size: int | None = None,
    antialias: object = True,
) -> Tensor | None:
    known = mode_of(interpolation)
    mode = known.value
    if not antialias or not planes.takes(image):
        return None
    if not resizes_natively(mode):
        can_resize = floats.takes(image.dtype, mode)
        return _own_resize()(image, size, known, max_size, antialias) if can_resize else None
    before = tuple(image.shape[-2:])
    height, width = _geometry()._compute_resized_output_size(before, size=size, max_size=max_size)
    if (height, width) == before or height < 1 or width < 1:
        return None
    return _resized(image, (height, width), mode)


def _resized(image: Tensor, size: tuple[int, int], mode: str) -> Tensor | None:
    def add(job: core.Job) -> None:
        job.resize(None, (0, 0), size, (0, 0, *size), FILTERS[mode], PassOrder.TORCH_PASSES)

    return planes.by_job(image, add, size)


def _resized_crop(
    image: Tensor,
    top: int,
    left: int,
    height: int,
    width: int,
    size: object,
    interpolation: object = BILINEAR,
    antialias: object = True,
) -> Tensor | None:
    if not planes.takes(image):
        return None
    cut = functional("crop")(image, top, left, height, width).contiguous()
    return _resize(cut, size, interpolation, None, antialias)


@functools.cache
def _own_resize() -> Kernel:
    """torchvision's resize of tensors, which has the core interpolate what it can."""
    theirs = _geometry().resize_image
    interpolate = theirs.__globals__["interpolate"]

    def ours(batch: Tensor, size: list[int], mode: str, align_corners: bool | None, antialias: bool) -> Tensor:
        resized = floats.resized(batch, size, mode, antialias)
        if resized is not None:
            return resized
        plain: Tensor = interpolate(batch, size=size, mode=mode, align_corners=align_corners, antialias=antialias)
        return plain

    globals_ = {**theirs.__globals__, "interpolate": ours}
    return types.FunctionType(theirs.__code__, globals_, "resize_image", theirs.__defaults__)


def _resize_floats(image: Tensor, *args: object, **kwargs: object) -> Tensor | None:
    return _own_resize()(image, *args, **kwargs) if image.dtype == torch.float32 else None


def _resized_crop_floats(
    image: Tensor, top: int, left: int, height: int, width: int, *args: object, **kwargs: object
) -> Tensor | None:
    if image.dtype != torch.float32:
        return None
    return _resize_floats(functional("crop")(image, top, left, height, width), *args, **kwargs)


class Warp(NamedTuple):
    """An affine warp.

    Attributes:
        theta: torchvision's matrix after its division by half the image's size, in float32, as the core takes it.
        size: height and width of the result.
        mode: the interpolation's name.
        fill: the value outside of the image: a number, or one for each channel; None for black.
    """

    theta: list[float]
    size: tuple[int, int]
    mode: str
    fill: Fill


def affine(
    size: tuple[int, int],
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: float | Sequence[float],
    interpolation: object = NEAREST,
    fill: Fill = None,
    center: Sequence[float] | None = None,
) -> Warp:
    """The warp of torchvision's ``affine`` for a tensor of this height and width."""
    geometry = _geometry()
    mode = mode_of(interpolation)
    angle, translate, shear, center = geometry._affine_parse_args(angle, translate, scale, shear, mode, center)
    shift, middle = [float(way) for way in translate], _from_middle(center, size)
    matrix = geometry._get_inverse_affine_matrix(middle, angle, shift, scale, shear)
    return Warp(_theta(matrix, size), size, mode.value, fill)


def quarter_turns(angle: float, center: Sequence[float] | None) -> int | None:
    """The number of quarter turns, 0 to 3, if torchvision's ``rotate`` only moves a tensor's pixels; else None."""
    turns = angle % 360 / 90
    return int(turns) if center is None and turns in (0, 1, 2, 3) else None


def rotated_size(
    size: tuple[int, int], angle: float, expand: bool = False, center: Sequence[float] | None = None, **_: object
) -> tuple[int, int]:
    """The height and width of the result of torchvision's ``rotate`` for a tensor of this height and width."""
    if not expand:
        return size
    warp = rotation(size, angle, expand=True, center=center)
    if warp is not None:
        return warp.size
    return size if angle % 180 == 0 else (size[1], size[0])


def rotation(
    size: tuple[int, int],
    angle: float,
    interpolation: object = NEAREST,
    expand: bool = False,
    center: Sequence[float] | None = None,
    fill: Fill = None,
) -> Warp | None:
    """The warp of torchvision's ``rotate`` for a tensor of this height and width; None for quarter turns."""
    if quarter_turns(angle, center) is not None:
        return None
    angle = angle % 360
    geometry = _geometry()
    mode = mode_of(interpolation)
    matrix = geometry._get_inverse_affine_matrix(_from_middle(center, size), -angle, [0.0, 0.0], 1.0, [0.0, 0.0])
    height, width = size
    if expand:
        width, height = geometry._compute_affine_output_size(matrix, width, height)
    return Warp(_theta(matrix, size), (height, width), mode.value, fill)


def _from_middle(center: Sequence[float] | None, size: tuple[int, int]) -> list[float]:
    if center is None:
        return [0.0, 0.0]
    return [place - side * 0.5 for place, side in zip(center, reversed(size), strict=True)]


def _theta(matrix: list[float], size: tuple[int, int]) -> list[float]:
    height, width = size
    theta = np.array(matrix, np.float32).reshape(2, 3).T / np.array([0.5 * width, 0.5 * height], np.float32)
    numbers: list[float] = theta.ravel().tolist()
    return numbers


def _warped(warp_of: Callable[..., Warp | None]) -> Kernel:
    def kernel(image: Tensor, *args: object, **kwargs: object) -> Tensor | None:
        if not planes.takes(image) or not samples_affine():
            return None
        warp = warp_of(tuple(image.shape[-2:]), *args, **kwargs)
        if warp is None:
            return None
        theta = torch.tensor(warp.theta, dtype=torch.float32, device="cpu").view(1, 3, 2)
        return planes.sampled(image, warp.size, warp.mode, warp.fill, theta, native.V2)

    return kernel


def _perspective(
    image: Tensor,
    startpoints: object,
    endpoints: object,
    interpolation: object = BILINEAR,
    fill: Fill = None,
    coefficients: object = None,
) -> Tensor | None:
    if not planes.takes(image):
        return None
    geometry = _geometry()
    found = geometry._perspective_coefficients(startpoints, endpoints, coefficients)
    height, width = image.shape[-2:]
    grid = geometry._perspective_grid(found, ow=width, oh=height, dtype=torch.float32, device=image.device)
    mode = mode_of(interpolation).value
    return planes.sampled(image, (height, width), mode, fill, grid, native.V2)


KERNELS: Mapping[str, Kernel] = MappingProxyType(
    {
        **{name: _color(name) for name in COLORS},
        "adjust_brightness": _by_table("adjust_brightness"),
        "adjust_contrast": _adjust_contrast,
        "adjust_gamma": _by_table("adjust_gamma"),
        "adjust_hue": _adjust_hue,
        "affine": _warped(affine),
        "gaussian_blur": blurred_as_v2,
        "perspective": _perspective,
        "resize": _resize,
        "resized_crop": _resized_crop,
        "rotate": _warped(rotation),
        "solarize": _by_table("solarize"),
    }
)
"""The kernels by torchvision's name, with the arguments of torchvision's functions."""
FLOAT_KERNELS: Mapping[str, Kernel] = MappingProxyType(
    {
        "adjust_hue": _adjust_hue,
        "gaussian_blur": blurred_as_v2,
        "resize": _resize_floats,
        "resized_crop": _resized_crop_floats,
    }
)
"""The same for tensors that aren't uint8."""


def run(name: str, image: Tensor, *args: object, **kwargs: object) -> Tensor | None:
    """Runs torchvision's function of that name by the core; None if torchvision has to do it.

    Raises:
        Exception: the arguments are ones that torchvision refuses, too; or a bug in fastpipe.
    """
    kernel = (KERNELS if image.dtype == torch.uint8 else FLOAT_KERNELS).get(name)
    if kernel is None or not core.available():
        return None
    return kernel(image, *args, **kwargs)
