"""Stand-ins for images, with a size and no pixels, on which torchvision's transforms run while their steps are
recorded.

torchvision's v2 dispatches each function by the class of its input. fastpipe registers kernels for the three classes
here: they add an operation to the stand-in's steps, and return a stand-in with the size of the result. Everything else,
such as draws, boxes, masks and checks, is torchvision's own code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Any, NoReturn, TypeAlias, TypeVar

import PIL.Image
import torch
from torch.utils._pytree import tree_leaves
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F
from torchvision.transforms.v2.functional._utils import _KERNEL_REGISTRY, _register_kernel_internal

from fastpipe import ops
from fastpipe.ops.base import Arguments
from fastpipe.ops.interpolation import interpolation_of
from fastpipe.ops.tensor_function import MOVES
from fastpipe.ops.warps import PerspectiveBy
from fastpipe.tensor_kernels.v2_tensors import BILINEAR, NEAREST, mode_of, rotated_size
from fastpipe.transforms.sized_image import SizedImage, Untraceable
from fastpipe.types import Fill, Floats, ImageShape, Step

_Class = TypeVar("_Class", bound=type)
_Made = TypeVar("_Made")


def named(stand_in: _Class) -> _Class:
    """Gives a stand-in class the name of the class that it stands for, for torchvision's error messages."""
    real = stand_in.stands_for  # type: ignore[attr-defined]
    stand_in.__module__, stand_in.__name__, stand_in.__qualname__ = real.__module__, real.__name__, real.__qualname__
    return stand_in


@named
class PilStandIn(SizedImage):
    """A stand-in for a PIL image.

    Attributes:
        shape: the image's shape.
        steps: the steps that led to this image.
        stands_for: the class that is stood in for (an attribute of all stand-in classes).
    """

    stands_for = PIL.Image.Image

    def __init__(self, shape: ImageShape, steps: tuple[Step, ...] = ()) -> None:
        super().__init__(shape)
        self.shape = shape
        self.steps = steps


@named
class TensorStandIn(tv_tensors.Image):  # type: ignore[misc]
    """A stand-in for a ``tv_tensors.Image``: a tensor without memory."""

    stands_for = tv_tensors.Image
    steps: tuple[Step, ...]
    ahead: bool


@named
class PureStandIn(torch.Tensor):
    """A stand-in for a plain tensor."""

    stands_for = torch.Tensor
    steps: tuple[Step, ...]
    ahead: bool


TensorLike: TypeAlias = "TensorStandIn | PureStandIn"
StandIn: TypeAlias = "PilStandIn | TensorLike"
STAND_INS = (PilStandIn, TensorStandIn, PureStandIn)


def stand_in(shape: ImageShape, steps: tuple[Step, ...] = ()) -> StandIn:
    """Makes a stand-in for an image of that shape: a PIL image, or for a `TensorShape` a tensor."""
    if not isinstance(shape, ops.TensorShape):
        return PilStandIn(shape, steps)
    empty = torch.empty((shape.channels, shape.height, shape.width), dtype=shape.dtype, device="meta")
    tensor: Any = empty.as_subclass(PureStandIn if shape.pure else TensorStandIn)
    tensor.steps, tensor.ahead = steps, shape.ahead
    return tensor  # type: ignore[no-any-return]


def stand_in_shape(image: StandIn) -> ImageShape:
    """The shape from which `stand_in` makes such an image."""
    if isinstance(image, PilStandIn):
        return image.shape
    channels, height, width = image.shape
    pure, ahead = isinstance(image, PureStandIn), getattr(image, "ahead", False)
    return ops.TensorShape.of((height, width, channels), image.dtype, pure, ahead)


def after(image: StandIn, *operations: Step) -> StandIn:
    """The stand-in for the image after further steps."""
    shape = stand_in_shape(image)
    for operation in operations:
        shape = operation.output_shape(shape)
    return stand_in(shape, (*_steps(image), *operations))


def _steps(image: StandIn) -> tuple[Step, ...]:
    steps: tuple[Step, ...] | None = getattr(image, "steps", None)
    if steps is None:  # made by a function of torch's, not torchvision's
        raise Untraceable("this transform calculates with a tensor, and there is none yet")
    return steps


def image_steps(sample: object) -> tuple[Step, ...]:
    """The steps of the one image in a sample that torchvision's code made.

    Raises:
        Untraceable: the sample has no or several images, or another value that depends on pixels.
    """
    leaves = tree_leaves(sample)
    images = [leaf for leaf in leaves if isinstance(leaf, STAND_INS)]
    if len(images) != 1:
        raise Untraceable("the image isn't in the sample once")
    if any(isinstance(leaf, torch.Tensor) and leaf.is_meta and not hasattr(leaf, "steps") for leaf in leaves):
        raise Untraceable("something was calculated from pixels")
    return _steps(images[0])


# -- operations of functions, from the functions' arguments


def given_by_name(name: str, args: tuple[object, ...], kwargs: Arguments) -> Arguments:
    """Positional and keyword arguments as one dict by name."""
    return {**dict(zip(_parameters(name), args, strict=False)), **kwargs} if args else kwargs


@lru_cache(maxsize=128)
def _parameters(name: str) -> tuple[str, ...]:
    """The names of a function's arguments after the image."""
    return tuple(inspect.signature(getattr(F, name)).parameters)[1:]


def cropped_first(on: Callable[..., _Made], image: object, given: Arguments) -> _Made:
    """``resized_crop`` as ``crop`` and ``resize``, each applied by ``on``."""
    place = {key: given[key] for key in ("top", "left", "height", "width")}
    rest = {key: value for key, value in given.items() if key not in place}
    return on("resize", on("crop", image, **place), **rest)


def resize_of(
    before: tuple[int, int], size: object, interpolation: object = BILINEAR, max_size: object = None
) -> ops.Resize | None:
    """The operation of ``resize`` for an image of that ``(height, width)``; None if the size doesn't change."""
    height, width = F._geometry._compute_resized_output_size(before, size=size, max_size=max_size)
    if (height, width) == before:
        return None
    if height < 1 or width < 1:
        raise Untraceable("an image of no pixels")
    return ops.resize_to([height, width], interpolation_of(mode_of(interpolation)))


def pad_of(padding: object, fill: Fill = 0, padding_mode: str = "constant") -> ops.Pad:
    """The operation of ``pad``; ``fill`` as operations take it."""
    left, right, top, bottom = F._geometry._parse_pad_padding(padding)
    return ops.Pad([left, top, right, bottom], fill, padding_mode)


def _affine(
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: float | Sequence[float],
    interpolation: object = NEAREST,
    fill: Fill = None,
    center: Sequence[int] | None = None,
) -> ops.AffineOfV2:
    checked = F._geometry._affine_parse_args(angle, translate, scale, shear, F.InterpolationMode.NEAREST, center)
    angle, translate, shear, center = checked
    return ops.AffineOfV2(angle, translate, scale, shear, interpolation_of(mode_of(interpolation)), fill, center)


def _rotate(
    angle: float,
    interpolation: object = NEAREST,
    expand: bool = False,
    center: Sequence[int] | None = None,
    fill: Fill = None,
) -> ops.Rotate:
    return ops.Rotate(angle, interpolation_of(mode_of(interpolation)), expand, center, fill)


def _perspective(
    startpoints: list[list[int]],
    endpoints: list[list[int]],
    interpolation: object = BILINEAR,
    fill: Fill = None,
    coefficients: Sequence[float] | None = None,
) -> PerspectiveBy:
    solved = F._geometry._perspective_coefficients(startpoints, endpoints, coefficients)
    return PerspectiveBy(list(solved), interpolation_of(mode_of(interpolation)), fill)


OPERATIONS: dict[str, Callable[..., ops.Operation]] = {
    **MOVES,
    "adjust_brightness": ops.AdjustBrightness,
    "adjust_contrast": ops.AdjustContrast,
    "adjust_gamma": ops.AdjustGamma,
    "adjust_hue": ops.AdjustHue,
    "adjust_saturation": ops.AdjustSaturation,
    "adjust_sharpness": ops.AdjustSharpness,
    "affine": _affine,
    "autocontrast": partial(ops.interned_once, ops.Autocontrast),
    "equalize": partial(ops.interned_once, ops.Equalize),
    "gaussian_blur": ops.GaussianBlurOfV2,
    "invert": partial(ops.interned_once, ops.Invert),
    "perspective": _perspective,
    "posterize": ops.Posterize,
    "rgb_to_grayscale": ops.RgbToGrayscale,
    "rotate": _rotate,
    "solarize": ops.Solarize,
}


# -- functions on stand-ins for PIL images


_PIXEL = PIL.Image.new("L", (1, 1))


def _resize(image: PilStandIn, antialias: object = True, **given: object) -> StandIn:
    resize = resize_of(image.shape.size, **given)
    return image if resize is None else after(image, resize)


def _pad(image: PilStandIn, padding: object, fill: Fill = None, padding_mode: str = "constant") -> StandIn:
    colour = whole_colour(fill, image.shape.channels)
    if colour is None:
        raise Untraceable("pad isn't known ahead")
    return after(image, pad_of(padding, colour, padding_mode))


def whole_colour(fill: object, channels: int) -> int | tuple[int, ...] | None:
    """A fill as integers, as Pillow converts it; None if torchvision has to raise."""
    if type(fill) is int:
        return (fill,) * channels if channels > 1 else fill
    values = [0] if fill is None else list(fill) if isinstance(fill, (list, tuple)) else [fill]
    integers = [int(value) for value in values if isinstance(value, (int, float))]
    if len(values) not in (1, channels) or len(integers) < len(values):
        return None
    return tuple(integers * channels if len(integers) == 1 else integers) if channels > 1 else integers[0]


def _order(permutation: Iterable[int], channels: int) -> tuple[int, ...] | None:
    """The order of the channels, if each channel occurs once; else None."""
    order = tuple(int(channel) for channel in permutation)
    return order if sorted(order) == list(range(channels)) else None


def _permute_channels(image: PilStandIn, permutation: Iterable[int]) -> StandIn:
    order = _order(permutation, image.shape.channels)
    if order is None:
        return after(image, ops.PilOperation("permute_channels", {"permutation": permutation}, image.shape))
    return after(image, ops.PermuteChannels(order))


def _to_rgb(image: PilStandIn) -> StandIn:
    if image.shape.channels != 3:
        raise Untraceable("grayscale_to_rgb isn't known ahead")
    return after(image, ops.WholeCrop(0, 0, *image.shape.size))  # as Pillow's ``convert`` gives


_ON_PIL: dict[str, Callable[..., StandIn]] = {
    "grayscale_to_rgb": _to_rgb,
    "pad": _pad,
    "permute_channels": _permute_channels,
    "resize": _resize,
}
_KEEPS_SHAPE = {"elastic", "erase", "jpeg"}


def _on_pil(name: str, image: PilStandIn, /, *args: object, **kwargs: object) -> StandIn:
    given = given_by_name(name, args, kwargs)
    if given.get("antialias") is False:  # torchvision warns, in a line of its own
        place = {"top": 0, "left": 0, "height": 1, "width": 1} if name == "resized_crop" else {}
        getattr(F, name)(_PIXEL, **place, size=[1, 1], antialias=False)
    if name == "resized_crop":
        return cropped_first(_on_pil, image, {**given, "antialias": True})
    if name in _ON_PIL:
        return _ON_PIL[name](image, **given)
    if name in OPERATIONS:
        return after(image, OPERATIONS[name](**given))
    if name not in _KEEPS_SHAPE:
        raise Untraceable(f"{name} isn't known ahead")
    return after(image, ops.PilOperation(name, given, image.shape))


# -- functions on stand-ins for tensors

_SAME_SIZE = ops.BY_PIXEL | {
    "adjust_contrast",
    "adjust_sharpness",
    "affine",
    "autocontrast",
    "elastic",
    "equalize",
    "erase",
    "gaussian_blur",
    "jpeg",
    "perspective",
}


def _on_tensor(name: str, image: TensorLike, /, *args: object, **kwargs: object) -> StandIn:
    given = given_by_name(name, args, kwargs)
    if name == "resized_crop":
        return cropped_first(_on_tensor, image, given)
    if name in _ON_TENSOR:
        return _ON_TENSOR[name](image, **given)
    return _plainly(name, image, given)


def _plainly(name: str, image: TensorLike, given: Arguments) -> StandIn:
    shape = stand_in_shape(image)
    assert isinstance(shape, ops.TensorShape)
    return after(image, ops.tensor_operation(name, given, shape, _size_after(name, image, given)))


def _size_after(name: str, image: TensorLike, given: Arguments) -> tuple[int, int, int] | None:
    """Height, width and channels of a function's result; None if `tensor_operation` knows them."""
    if name in _SAME_SIZE or name in _SIZED:
        return None
    channels, height, width = image.shape
    if name == "rotate":
        return *rotated_size((height, width), **given), channels
    if name == "rgb_to_grayscale" and (colors := given.get("num_output_channels", 1)) in (1, 3):
        return height, width, colors
    # torchvision's kernel runs without pixels, which takes milliseconds.
    channels, height, width = getattr(F, name)(image.as_subclass(torch.Tensor), **given).shape
    return height, width, channels


_SIZED = frozenset({*MOVES, "pad", "resize"})
"""Functions for which `tensor_operation` knows the result's size."""


def _tensor_resize(image: TensorLike, antialias: object = True, **given: object) -> StandIn:
    like = resize_of(tuple(image.shape[-2:]), **given)
    if like is None:
        F.resize(image.as_subclass(torch.Tensor), antialias=antialias, **given)  # refuses some interpolations
        return image
    interpolation = given.get("interpolation", BILINEAR)
    return _plainly("resize", image, {"size": like.size, "interpolation": interpolation, "antialias": antialias})


def _tensor_pad(image: TensorLike, padding: object, fill: Fill = None, padding_mode: str = "constant") -> StandIn:
    sides = pad_of(padding, 0, padding_mode).padding
    return _plainly("pad", image, {"padding": sides, "fill": fill, "padding_mode": padding_mode})


def _tensor_normalize(image: TensorLike, mean: Floats, std: Floats, inplace: bool = False) -> StandIn:
    if not image.is_floating_point():
        raise TypeError(f"Input tensor should be a float tensor. Got {image.dtype}.")
    return after(image, ops.Normalize(_frozen(mean), _frozen(std)))


def _frozen(numbers: Floats) -> Floats:
    return tuple(numbers) if isinstance(numbers, list) else numbers


def _tensor_to_dtype(image: TensorLike, dtype: torch.dtype = torch.float, scale: bool = False) -> StandIn:
    return image if image.dtype == dtype else after(image, ops.ToDtype(dtype, scale))


def _tensor_erase(image: TensorLike, i: int, j: int, h: int, w: int, v: torch.Tensor, inplace: bool = False) -> StandIn:
    return after(image, ops.Erase(i, j, h, w, v))


def _tensor_permute_channels(image: TensorLike, permutation: Iterable[int]) -> StandIn:
    order = _order(permutation, image.shape[0])
    if order is None:
        raise Untraceable("as many channels as numbers are wanted")
    return _plainly("permute_channels", image, {"permutation": list(order)})


_ON_TENSOR: dict[str, Callable[..., StandIn]] = {
    "erase": _tensor_erase,
    "normalize": _tensor_normalize,
    "pad": _tensor_pad,
    "permute_channels": _tensor_permute_channels,
    "resize": _tensor_resize,
    "to_dtype": _tensor_to_dtype,
}


def _refuse(name: str, image: object, /, *args: object, **kwargs: object) -> NoReturn:
    raise Untraceable(f"{name} isn't known ahead")


_ASKS = ("get_",)  # names of functions that only read sizes; torchvision's kernels for them work on stand-ins
_NEVER = {"five_crop", "gaussian_noise", "ten_crop", "uniform_temporal_subsample"}


def _register() -> None:
    for functional, kernels in list(_KERNEL_REGISTRY.items()):
        name = functional.__name__
        if name.startswith(_ASKS):
            continue
        on_pil, on_tensor = (_refuse, _refuse) if name in _NEVER else (_on_pil, _on_tensor)
        if PIL.Image.Image in kernels:
            _register_kernel_internal(functional, PilStandIn)(partial(on_pil, name))
        if tv_tensors.Image in kernels:
            _register_kernel_internal(functional, TensorStandIn, tv_tensor_wrapper=False)(partial(on_tensor, name))
        if torch.Tensor in kernels:
            _register_kernel_internal(functional, PureStandIn)(partial(on_tensor, name))


_register()
