"""The operations of AutoAugment and its successors: magnitudes, draws and functional calls."""

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor

from fastpipe import ops
from fastpipe.rng import Stream
from fastpipe.tensor_kernels.torchscript import Fill
from fastpipe.transforms import functional as F
from fastpipe.transforms.functional import InterpolationMode

# The magnitudes of each operation by name, and whether their sign is random.
Space = dict[str, tuple[Tensor, bool]]
# The same as plain numbers; None for an operation without magnitudes.
Listed = tuple[tuple[str, tuple[float, ...] | None, bool], ...]


def _affine_arguments(op_name: str, magnitude: float) -> tuple[list[int], list[float], list[int] | None]:
    """The shift in pixels, the shear in degrees, and the centre (None for the image's) of a shear or a translation."""
    axis = 0 if op_name.endswith("X") else 1
    translate, shear = [0, 0], [0.0, 0.0]
    center: list[int] | None = None
    if op_name.startswith("Shear"):
        shear[axis], center = math.degrees(math.atan(magnitude)), [0, 0]
    else:
        translate[axis] = int(magnitude)
    return translate, shear, center


def apply_op(
    img: Tensor, op_name: str, magnitude: float, interpolation: InterpolationMode, fill: Fill | None
) -> Tensor:
    """Applies one operation of a policy to a tensor.

    Args:
        img: the image, a tensor.
        op_name: the operation's name in the AutoAugment paper, or ``"Identity"``.
        magnitude: shear factor, shift in pixels, angle in degrees, bits, threshold, or factor minus 1.
        interpolation: for the operations that warp.
        fill: for the operations that warp.

    Raises:
        ValueError: ``op_name`` is unknown.
    """
    if op_name in ["ShearX", "ShearY", "TranslateX", "TranslateY"]:
        translate, shear, center = _affine_arguments(op_name, magnitude)
        img = F.affine(img, 0.0, translate, 1.0, shear, interpolation, fill, center)
    elif op_name == "Rotate":
        img = F.rotate(img, magnitude, interpolation=interpolation, fill=fill)
    elif op_name == "Brightness":
        img = F.adjust_brightness(img, 1.0 + magnitude)
    elif op_name == "Color":
        img = F.adjust_saturation(img, 1.0 + magnitude)
    elif op_name == "Contrast":
        img = F.adjust_contrast(img, 1.0 + magnitude)
    elif op_name == "Sharpness":
        img = F.adjust_sharpness(img, 1.0 + magnitude)
    elif op_name == "Posterize":
        img = F.posterize(img, int(magnitude))
    elif op_name == "Solarize":
        img = F.solarize(img, magnitude)
    elif op_name == "AutoContrast":
        img = F.autocontrast(img)
    elif op_name == "Equalize":
        img = F.equalize(img)
    elif op_name == "Invert":
        img = F.invert(img)
    elif op_name == "Identity":
        pass
    else:
        raise ValueError(f"The provided operator {op_name} is not recognized.")
    return img


@functools.lru_cache(maxsize=4096)
def op_calls(
    op_name: str,
    magnitude: float,
    interpolation: InterpolationMode,
    fill: float | tuple[float, ...] | None,
    affine: type[ops.Affine] = ops.Affine,
) -> tuple[ops.Operation, ...]:
    """The operations of `apply_op`, interned (TorchScript can't compile them, nor a look-up by name)."""
    if op_name == "Identity":
        return ()
    if op_name in _PLAIN:
        return (_PLAIN[op_name],)
    magnitude += 0.0  # turns -0.0 into 0.0: equal keys, same pixels
    if op_name == "Rotate":
        return (ops.interned(ops.Rotate(magnitude, interpolation, fill=fill)),)
    if op_name == "Posterize":
        return (ops.interned(ops.Posterize(int(magnitude))),)
    if op_name == "Solarize":
        return (ops.interned(ops.Solarize(magnitude)),)
    if op_name in _ADJUSTED:
        return (ops.interned(_ADJUSTED[op_name](1.0 + magnitude)),)
    translate, shear, center = _affine_arguments(op_name, magnitude)
    return (ops.interned(affine(0.0, translate, 1.0, shear, interpolation, fill, center)),)


_PLAIN: dict[str, ops.Operation] = {
    "AutoContrast": ops.interned_once(ops.Autocontrast),
    "Equalize": ops.interned_once(ops.Equalize),
    "Invert": ops.interned_once(ops.Invert),
}
_ADJUSTED: dict[str, Callable[[float], ops.Operation]] = {
    "Brightness": ops.AdjustBrightness,
    "Color": ops.AdjustSaturation,
    "Contrast": ops.AdjustContrast,
    "Sharpness": ops.AdjustSharpness,
}


def draw_operation(
    op_meta: dict[str, tuple[Tensor, bool]],
    level: int | None,
    levels: int,
    stream: Stream,
) -> tuple[str, float]:
    """Draws the name and magnitude of an operation.

    Args:
        op_meta: the operations with their magnitudes.
        level: the index of the magnitude; None to draw the index, if the operation has magnitudes.
        levels: draw the index from the first ``levels`` magnitudes; 0 for all.
        stream: the random numbers.
    """
    op_name = list(op_meta.keys())[stream.randint(0, len(op_meta))]
    magnitudes, signed = op_meta[op_name]
    magnitude = 0.0
    if magnitudes.ndim > 0:
        if level is None:
            level = stream.randint(0, levels if levels > 0 else len(magnitudes))
        magnitude = float(magnitudes[level].item())
    if signed and stream.randint(0, 2) != 0:
        magnitude *= -1.0
    return op_name, magnitude


def draw_listed(operations: Listed, level: int | None, levels: int, stream: Stream) -> tuple[str, float]:
    """`draw_operation` for a `listed_space`, without tensors."""
    op_name, magnitudes, signed = operations[stream.randint(0, len(operations))]
    magnitude = 0.0
    if magnitudes is not None:
        if level is None:
            level = stream.randint(0, levels if levels > 0 else len(magnitudes))
        magnitude = magnitudes[level]
    if signed and stream.randint(0, 2) != 0:
        magnitude *= -1.0
    return op_name, magnitude


def _warp_space(num_bins: int, shear: float, shift_x: float, shift_y: float, angle: float) -> Space:
    """Shears as factors, shifts in pixels, angles in degrees."""
    return {
        "ShearX": (torch.linspace(0.0, shear, num_bins), True),
        "ShearY": (torch.linspace(0.0, shear, num_bins), True),
        "TranslateX": (torch.linspace(0.0, shift_x, num_bins), True),
        "TranslateY": (torch.linspace(0.0, shift_y, num_bins), True),
        "Rotate": (torch.linspace(0.0, angle, num_bins), True),
    }


def _adjust_space(num_bins: int, most: float) -> Space:
    """Magnitudes of adjustments: factors minus 1."""
    return {
        "Brightness": (torch.linspace(0.0, most, num_bins), True),
        "Color": (torch.linspace(0.0, most, num_bins), True),
        "Contrast": (torch.linspace(0.0, most, num_bins), True),
        "Sharpness": (torch.linspace(0.0, most, num_bins), True),
    }


def _table_space(num_bins: int, bits: int, fewer: int) -> Space:
    """Bits from ``bits`` down to ``bits - fewer``, thresholds, and the operations without magnitudes."""
    return {
        "Posterize": (bits - (torch.arange(num_bins) / ((num_bins - 1) / fewer)).round().int(), False),
        "Solarize": (torch.linspace(255.0, 0.0, num_bins), False),
        "AutoContrast": (torch.tensor(0.0), False),
        "Equalize": (torch.tensor(0.0), False),
    }


def auto_augment_space(num_bins: int, image_size: tuple[int, int]) -> Space:
    space = rand_augment_space(num_bins, image_size)
    space["Invert"] = space.pop("Identity")
    return space


def rand_augment_space(num_bins: int, image_size: tuple[int, int]) -> Space:
    space = {"Identity": (torch.tensor(0.0), False)}
    space.update(_warp_space(num_bins, 0.3, 150.0 / 331.0 * image_size[1], 150.0 / 331.0 * image_size[0], 30.0))
    space.update(_adjust_space(num_bins, 0.9))
    space.update(_table_space(num_bins, 8, 4))
    return space


def trivial_augment_space(num_bins: int) -> Space:
    space = {"Identity": (torch.tensor(0.0), False)}
    space.update(_warp_space(num_bins, 0.99, 32.0, 32.0, 135.0))
    space.update(_adjust_space(num_bins, 0.99))
    space.update(_table_space(num_bins, 8, 6))
    return space


def aug_mix_space(num_bins: int, image_size: tuple[int, int], all_ops: bool) -> Space:
    space = _warp_space(num_bins, 0.3, image_size[1] / 3.0, image_size[0] / 3.0, 30.0)
    space.update(_table_space(num_bins, 4, 4))
    if all_ops:
        space.update(_adjust_space(num_bins, 0.9))
    return space


def space_for(build: Callable[..., Space], *args: object) -> Space:
    """The space that ``build(*args)`` makes, in a new dict.

    Cached by image size, because building a space takes far longer than drawing from it.
    """
    return dict(_cached_space(build, torch.get_default_dtype(), args))


@functools.lru_cache(maxsize=128)
def _cached_space(build: Callable[..., Space], default_dtype: torch.dtype, args: tuple[object, ...]) -> Space:
    return build(*args)


def listed_space(build: Callable[..., Space], *args: object) -> Listed:
    """The space that ``build(*args)`` makes, in the form that is fastest to draw from; cached as in `space_for`."""
    return _cached_list(build, torch.get_default_dtype(), args)


@functools.lru_cache(maxsize=128)
def _cached_list(build: Callable[..., Space], default_dtype: torch.dtype, args: tuple[object, ...]) -> Listed:
    return tuple(
        (name, tuple(map(float, magnitudes.tolist())) if magnitudes.ndim > 0 else None, signed)
        for name, (magnitudes, signed) in _cached_space(build, default_dtype, args).items()
    )
