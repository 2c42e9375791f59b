"""Images that have a size and no pixels: torchvision's own transforms run on them, and what they do is written down.

torchvision's v2 dispatches each function by the class of its input. For the three classes here the kernels are ours:
they add an operation to the image's list, and give an image of the size that the result would have. Everything else,
draws, boxes, masks and checks, is torchvision's own code.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias, TypeVar

import PIL.Image
import torch
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F
from torchvision.transforms.v2.functional._utils import _KERNEL_REGISTRY, _register_kernel_internal

from fastpipe import ops
from fastpipe.ops.interpolation import interpolation_of
from fastpipe.ops.warps import PerspectiveBy
from fastpipe.types import ImageShape, Step

_Class = TypeVar("_Class", bound=type)


class Untraceable(Exception):
    """A transform wants pixels while there are none."""


def named(stand_in: _Class) -> _Class:
    """A class of stand-ins with the name of what it stands for, which torchvision's errors tell."""
    real: Any = stand_in.stands_for  # type: ignore[attr-defined]
    stand_in.__module__, stand_in.__name__, stand_in.__qualname__ = real.__module__, real.__name__, real.__qualname__
    return stand_in


@named
class PilStandIn(PIL.Image.Image):
    """In place of a PIL image.

    Attributes:
        shape: of the image.
        steps: what was done to get here.
        stands_for: the class, of this and the other stand-ins.
    """

    stands_for = PIL.Image.Image

    def __init__(self, shape: ImageShape, steps: tuple[Step, ...] = ()) -> None:
        super().__init__()
        self._size = shape.width, shape.height
        self._mode = "L" if shape.channels == 1 else "RGB"
        self.shape = shape
        self.steps = steps

    def then(self, *operations: Step) -> PilStandIn:
        """The image behind some more steps."""
        shape = self.shape
        for operation in operations:
            shape = operation.output_shape(shape)
        return PilStandIn(shape, (*self.steps, *operations))

    def load(self) -> Any:
        raise Untraceable("this transform looks at pixels, and there are none yet")

    def convert(self, mode: str | None = None, *args: Any, **kwargs: Any) -> Any:
        """Nothing to do for the mode that it has."""
        return self if mode == self.mode and not args and not kwargs else self.load()

    def copy(self) -> Any:
        return self

    def tobytes(self, *args: Any, **kwargs: Any) -> Any:
        return self.load()


@named
class TensorStandIn(tv_tensors.Image):  # type: ignore[misc]
    """In place of a ``tv_tensors.Image``: a tensor without memory."""

    stands_for = tv_tensors.Image
    steps: tuple[Step, ...]


@named
class PureStandIn(torch.Tensor):
    """In place of a plain tensor."""

    stands_for = torch.Tensor
    steps: tuple[Step, ...]


StandIn: TypeAlias = "PilStandIn | TensorStandIn | PureStandIn"


def stand_in(shape: ImageShape, steps: tuple[Step, ...] = ()) -> StandIn:
    """An image of that shape: a PIL image, or the tensor that a `TensorShape` says."""
    if not isinstance(shape, ops.TensorShape):
        return PilStandIn(shape, steps)
    empty = torch.empty((shape.channels, shape.height, shape.width), dtype=shape.dtype, device="meta")
    made: Any = empty.as_subclass(PureStandIn if shape.pure else TensorStandIn)
    made.steps = steps
    return made  # type: ignore[no-any-return]


def shape_of(image: StandIn) -> ImageShape:
    """The shape that `stand_in` makes such an image of."""
    if isinstance(image, PilStandIn):
        return image.shape
    channels, height, width = image.shape
    return ops.TensorShape.of((height, width, channels), image.dtype, isinstance(image, PureStandIn))


# -- what a function does to a PIL image


def resized(image: Any, size: Any, max_size: Any) -> tuple[int, int]:
    """The ``(height, width)`` that ``resize`` gives."""
    height, width = F.get_size(image)
    height, width = F._geometry._compute_resized_output_size((height, width), size=size, max_size=max_size)
    return height, width


def _resize(image: Any, size: Any, interpolation: Any = "bilinear", max_size: Any = None, antialias: Any = True) -> Any:
    if antialias is False:
        warnings.warn(
            "Anti-alias option is always applied for PIL Image input. Argument antialias is ignored.", stacklevel=2
        )
    height, width = resized(image, size, max_size)
    if (height, width) == image.shape.size:
        return image
    if height < 1 or width < 1:
        raise Untraceable("an image of no pixels")
    return image.then(ops.Resize([height, width], interpolation_of(interpolation)))


def _crop(image: Any, top: int, left: int, height: int, width: int) -> Any:
    return image.then(ops.Crop(top, left, height, width))


def _resized_crop(
    image: Any,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    interpolation: Any = "bilinear",
    antialias: Any = True,
) -> Any:
    return _resize(_crop(image, top, left, height, width), size, interpolation, None, antialias)


def _pad(image: Any, padding: Any, fill: Any = None, padding_mode: str = "constant") -> Any:
    left, right, top, bottom = F._geometry._parse_pad_padding(padding)
    colour = _whole(fill, image.shape.channels)
    if colour is None:
        return None
    return image.then(ops.Pad([left, top, right, bottom], colour, padding_mode))


def _whole(fill: Any, channels: int) -> Any:
    """A colour as the integers that Pillow makes of it; None where it says what is wrong."""
    values = [0] if fill is None else list(fill) if isinstance(fill, (list, tuple)) else [fill]
    if len(values) not in (1, channels) or not all(isinstance(value, (int, float)) for value in values):
        return None
    integers = [int(value) for value in values]
    return tuple(integers * channels if len(integers) == 1 else integers) if channels > 1 else integers[0]


def _affine(
    image: Any,
    angle: float,
    translate: Any,
    scale: float,
    shear: Any,
    interpolation: Any = "nearest",
    fill: Any = None,
    center: Any = None,
) -> Any:
    checked = F._geometry._affine_parse_args(angle, translate, scale, shear, F.InterpolationMode.NEAREST, center)
    angle, translate, shear, center = checked
    return image.then(ops.Affine(angle, translate, scale, shear, interpolation_of(interpolation), fill, center))


def _rotate(
    image: Any,
    angle: float,
    interpolation: Any = "nearest",
    expand: bool = False,
    center: Any = None,
    fill: Any = None,
) -> Any:
    return image.then(ops.Rotate(angle, interpolation_of(interpolation), expand, center, fill))


def _perspective(
    image: Any,
    startpoints: Any,
    endpoints: Any,
    interpolation: Any = "bilinear",
    fill: Any = None,
    coefficients: Any = None,
) -> Any:
    found = F._geometry._perspective_coefficients(startpoints, endpoints, coefficients)
    return image.then(PerspectiveBy(list(found), interpolation_of(interpolation), fill))


def _permute_channels(image: Any, permutation: Any) -> Any:
    order = tuple(int(channel) for channel in permutation)
    if sorted(order) != list(range(image.shape.channels)):
        return None
    return image if order == tuple(range(len(order))) else image.then(ops.PermuteChannels(order))


def _simple(operation: Callable[..., Step]) -> Callable[..., Any]:
    return lambda image, *args, **kwargs: image.then(operation(*args, **kwargs))


def _to_rgb(image: Any) -> Any:
    return image if image.shape.channels == 3 else None


_ON_PIL: dict[str, Callable[..., Any]] = {
    "adjust_brightness": _simple(ops.AdjustBrightness),
    "adjust_contrast": _simple(ops.AdjustContrast),
    "adjust_gamma": _simple(lambda gamma, gain=1: ops.AdjustGamma(gamma, gain)),
    "adjust_hue": _simple(ops.AdjustHue),
    "adjust_saturation": _simple(ops.AdjustSaturation),
    "adjust_sharpness": _simple(ops.AdjustSharpness),
    "affine": _affine,
    "autocontrast": _simple(ops.Autocontrast),
    "center_crop": _simple(lambda output_size: ops.CenterCrop(output_size)),
    "crop": _crop,
    "equalize": _simple(ops.Equalize),
    "grayscale_to_rgb": _to_rgb,
    "horizontal_flip": _simple(ops.HFlip),
    "invert": _simple(ops.Invert),
    "pad": _pad,
    "permute_channels": _permute_channels,
    "perspective": _perspective,
    "posterize": _simple(ops.Posterize),
    "resize": _resize,
    "resized_crop": _resized_crop,
    "rgb_to_grayscale": _simple(lambda num_output_channels=1: ops.RgbToGrayscale(num_output_channels)),
    "rotate": _rotate,
    "solarize": _simple(ops.Solarize),
    "vertical_flip": _simple(ops.VFlip),
}
_KEEPS_SHAPE = {"elastic", "erase", "gaussian_blur", "grayscale_to_rgb", "jpeg", "pad", "permute_channels"}


def _on_pil(name: str, image: PilStandIn, /, *args: Any, **kwargs: Any) -> Any:
    made = _ON_PIL[name](image, *args, **kwargs) if name in _ON_PIL else None
    if made is not None:
        return made
    if name not in _KEEPS_SHAPE or name in ("pad", "grayscale_to_rgb"):
        raise Untraceable(f"{name} isn't known ahead")
    return image.then(ops.PilOperation(name, given_by_name(name, args, kwargs), image.shape))


def given_by_name(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name."""
    if not args:
        return kwargs
    names = list(inspect.signature(getattr(F, name)).parameters)[1:]
    return {**dict(zip(names, args, strict=False)), **kwargs}


# -- what it does to a tensor

_BY_PIXEL = {
    "adjust_brightness",
    "adjust_gamma",
    "adjust_hue",
    "adjust_saturation",
    "invert",
    "permute_channels",
    "posterize",
    "solarize",
    "to_dtype",
}
_SAME_SIZE = _BY_PIXEL | {
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


def _on_tensor(name: str, image: Any, /, *args: Any, **kwargs: Any) -> Any:
    given = given_by_name(name, args, kwargs)
    special = _ON_TENSOR.get(name)
    return special(image, **given) if special is not None else _plainly(name, image, given)


def _plainly(
    name: str, image: Any, given: dict[str, Any], like: Any = None, same: bool = False, by_pixel: Any = None
) -> Any:
    shape = shape_of(image)
    if like is not None:
        height, width, channels = like.output_shape(ImageShape(*shape))
    elif name in _SAME_SIZE:
        height, width, channels = shape
    else:  # torchvision's own kernel says
        channels, height, width = getattr(F, name)(image.as_subclass(torch.Tensor), **given).shape
    by_pixel = name in _BY_PIXEL if by_pixel is None else by_pixel
    return _after(image, ops.TensorOperation(name, given, (height, width, channels), like, same, by_pixel))


def _after(image: Any, operation: Step) -> Any:
    return stand_in(operation.output_shape(shape_of(image)), (*_steps(image), operation))


def _steps(image: Any) -> tuple[Step, ...]:
    steps = getattr(image, "steps", None)
    if steps is None:  # made by a function of torch's, not of torchvision's
        raise Untraceable("this transform calculates with a tensor, and there is none yet")
    return steps  # type: ignore[no-any-return]


def _tensor_resize(
    image: Any, size: Any, interpolation: Any = "bilinear", max_size: Any = None, antialias: Any = True
) -> Any:
    height, width = resized(image, size, max_size)
    if (height, width) == tuple(image.shape[-2:]):
        return image
    if height < 1 or width < 1:
        raise Untraceable("an image of no pixels")
    like = ops.Resize([height, width], interpolation_of(interpolation))
    given = {"size": [height, width], "interpolation": interpolation, "antialias": antialias}
    return _plainly("resize", image, given, like)


def _tensor_crop(image: Any, top: int, left: int, height: int, width: int) -> Any:
    given = {"top": top, "left": left, "height": height, "width": width}
    return _plainly("crop", image, given, ops.Crop(top, left, height, width))


def _tensor_resized_crop(
    image: Any,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    interpolation: Any = "bilinear",
    antialias: Any = True,
) -> Any:
    return _tensor_resize(_tensor_crop(image, top, left, height, width), size, interpolation, None, antialias)


def _tensor_pad(image: Any, padding: Any, fill: Any = None, padding_mode: str = "constant") -> Any:
    left, right, top, bottom = F._geometry._parse_pad_padding(padding)
    given = {"padding": [left, top, right, bottom], "fill": fill, "padding_mode": padding_mode}
    zero = fill in (None, 0, 0.0) or (isinstance(fill, (list, tuple)) and not any(fill))
    like = ops.Pad([left, top, right, bottom], 0, padding_mode) if zero else None
    return _plainly("pad", image, given, like)


def _tensor_center_crop(image: Any, output_size: Any) -> Any:
    return _plainly("center_crop", image, {"output_size": output_size}, ops.CenterCrop(output_size))


def _tensor_normalize(image: Any, mean: Any, std: Any, inplace: bool = False) -> Any:
    if not image.is_floating_point():
        raise TypeError(f"Input tensor should be a float tensor. Got {image.dtype}.")
    return _after(image, ops.Normalize(_frozen(mean), _frozen(std)))


def _frozen(numbers: Any) -> Any:
    return tuple(numbers) if isinstance(numbers, list) else numbers


def _tensor_to_dtype(image: Any, dtype: torch.dtype = torch.float, scale: bool = False) -> Any:
    return image if image.dtype == dtype else _after(image, ops.ToDtype(dtype, scale))


def _tensor_erase(image: Any, i: int, j: int, h: int, w: int, v: Any, inplace: bool = False) -> Any:
    return _after(image, ops.Erase(i, j, h, w, v))


def _tensor_permute_channels(image: Any, permutation: Any) -> Any:
    order = tuple(int(channel) for channel in permutation)
    if sorted(order) != list(range(image.shape[0])):
        raise Untraceable("as many channels as numbers are wanted")
    same = ops.PermuteChannels(order)
    return _plainly("permute_channels", image, {"permutation": list(order)}, same, same=True, by_pixel=True)


def _look_up(name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
    """A function that maps each value of uint8 to another, to the same one as on pixels."""

    def record(image: Any, **given: Any) -> Any:
        like = operation(**given) if image.dtype == torch.uint8 else None
        if like is not None and like.table() is None:
            like = None
        return _plainly(name, image, given, like, same=like is not None, by_pixel=True)

    return record


def _as_torch_compares(number: float) -> float:
    """The number that torch compares integers with: of the default dtype, where Pillow's is a double."""
    return torch.tensor(number, dtype=torch.get_default_dtype()).item()


_ON_TENSOR: dict[str, Callable[..., Any]] = {
    "adjust_brightness": _look_up("adjust_brightness", ops.AdjustBrightness),
    "center_crop": _tensor_center_crop,
    "crop": _tensor_crop,
    "erase": _tensor_erase,
    "horizontal_flip": lambda image: _plainly("horizontal_flip", image, {}, ops.HFlip()),
    "invert": _look_up("invert", ops.Invert),
    "normalize": _tensor_normalize,
    "pad": _tensor_pad,
    "permute_channels": _tensor_permute_channels,
    "posterize": _look_up("posterize", ops.Posterize),
    "resize": _tensor_resize,
    "resized_crop": _tensor_resized_crop,
    "solarize": _look_up("solarize", lambda threshold: ops.Solarize(_as_torch_compares(threshold))),
    "to_dtype": _tensor_to_dtype,
    "vertical_flip": lambda image: _plainly("vertical_flip", image, {}, ops.VFlip()),
}


def _refuse(name: str, image: Any, /, *args: Any, **kwargs: Any) -> Any:
    raise Untraceable(f"{name} isn't known ahead")


_ASKS = ("get_",)  # functions that ask for sizes, which torchvision's kernels read off these images, too
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
