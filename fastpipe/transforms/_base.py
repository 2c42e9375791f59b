"""Base classes of transforms, checks of their arguments, and whether a transform can be drawn."""

import inspect
import numbers
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from fastpipe.errors import PlanError
from fastpipe.ops import Operation
from fastpipe.ops.interpolation import InterpolationMode, interpolation_from_int
from fastpipe.plain_lookup import (
    ByClass,
    attribute_of_class,
    bases_of,
    class_attribute,
    module_of,
    own_attributes,
)
from fastpipe.rng import Stream, StreamGenerators, TorchStream, stream_of
from fastpipe.tensor_kernels.torchscript import Fill, Floats, Image, Ints
from fastpipe.transforms.adapters import planned
from fastpipe.transforms.named_arrays import call_with_image, named_arrays_of
from fastpipe.transforms.replaced_methods import is_as_its_library_has_it
from fastpipe.types import Generators, ImageShape, ImageTransform, Step

if TYPE_CHECKING:
    from typing_extensions import TypeIs

# A subclass may add or replace these methods and still be drawn by its base: they don't affect images.
_HARMLESS = frozenset({"__init__", "__repr__", "__str__", "extra_repr"})
_CALLS = frozenset({"__call__", "__getattr__", "__getattribute__", "_call_impl", "forward"})


def drawable(transform: object) -> bool:
    """True if a transform's parameters can be drawn from an image's size alone, by its ``draw``.

    True if the class defines ``draw(self, shape, generators)``, no subclass of that class replaces a method that takes
    part in its forward (``forward``, ``get_params``, …), no hook is registered on the module, and, for composites, all
    members are drawable. So a user's subclass that changes what happens to an image is never planned with the draw of
    its base, unless it defines its own.

    A class of yours becomes drawable by defining ``draw``: from an `ImageShape` and `Generators` to a tuple of steps.
    A transform of another library is drawable if its recipe has an adapter for it.
    """
    if not is_as_its_library_has_it(type(transform)):
        return False
    transform = planned(transform)
    own_answer = own_method(transform, "_plans_itself")  # v2's classes, which derive from torchvision's
    if own_answer is not None:
        return bool(own_answer(transform))
    cls = type(transform)
    methods = methods_to_keep(cls)
    if methods is None or not methods.isdisjoint(own := own_attributes(transform)):
        return False
    if own.get("_forward_hooks") or own.get("_forward_pre_hooks"):
        return False
    # Only a composite's instance knows whether its members are drawable.
    can_draw = own_method(transform, "_can_draw")
    return can_draw is None or bool(can_draw(transform))


def own_method(transform: object, name: str) -> Callable[..., bool] | None:
    """A method of fastpipe's that a transform's class has under a name; a class of the user's may have another."""
    method = class_attribute(transform, name)
    return method if isinstance(method, FunctionType) and _is_of_fastpipe(method) else None


@ByClass
def methods_to_keep(cls: type) -> frozenset[str] | None:
    """The methods that an instance may not replace, so that it stays drawable; None if the class isn't drawable."""
    lineage = bases_of(cls)
    draws = ("draw" in own_attributes(base) or (_is_ours(base) and hasattr(base, "draw")) for base in lineage)
    position = next((number for number, found in enumerate(draws) if found), None)
    if position is None or not _draws_from_shape(lineage[position]):
        return None
    owner = lineage[position]
    own = {name for base in lineage[position:] if base is owner or _is_ours(base) for name in own_attributes(base)}
    methods = {name for name in own if _is_method(attribute_of_class(owner, name)) and not re.fullmatch("__.*__", name)}
    methods = (methods | _CALLS) - _HARMLESS
    replaced = {name for base in lineage[:position] for name in own_attributes(base)}
    return frozenset(methods) if methods.isdisjoint(replaced) else None


def _is_method(value: object) -> bool:
    return callable(value) or type(value) is classmethod


def _draws_from_shape(cls: type) -> bool:
    """True if ``draw`` has fastpipe's parameters; a foreign class may have a ``draw`` with another meaning."""
    draw = attribute_of_class(cls, "draw")
    return inspect.isfunction(draw) and list(inspect.signature(draw).parameters)[1:] == ["shape", "generators"]


def _is_ours(base: type) -> bool:
    return module_of(base).startswith("fastpipe.transforms.")


def draws_from_stream(transform: object) -> bool:
    """True if a transform's ``draw`` is fastpipe's own, which may draw from an `MT19937Stream`."""
    draw = class_attribute(transform, "draw")
    return isinstance(draw, FunctionType) and _is_of_fastpipe(draw)


def _is_of_fastpipe(function: FunctionType) -> bool:
    return (function.__module__ or "").startswith("fastpipe.")


def draw_steps(transform: object, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
    """``transform.draw(shape, generators)``, with plain generators for a class that isn't fastpipe's."""
    own = planned(transform)
    if isinstance(generators, StreamGenerators) and not draws_from_stream(own):
        generators = generators.plain()
    return (own.draw if draws_from_stream(own) else UsersDraw(own))(shape, generators)


@dataclass(frozen=True, slots=True)
class UsersDraw:
    """The ``draw`` of a transform that isn't fastpipe's; its steps are checked.

    Raises:
        PlanError: it returns anything but steps; names the transform.
    """

    transform: Any

    def __call__(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        drawn = self.transform.draw(shape, generators)
        name = f"{type(self.transform).__name__}.draw"
        if not isinstance(drawn, (tuple, list)):
            raise PlanError(
                f"{name} returned {drawn!r:.80}: return a tuple of steps, such as (fastpipe.ops.HFlip(),), or () for "
                "an image that stays as it is."
            )
        for step in drawn:
            if not all(callable(getattr(type(step), method, None)) for method in ("apply", "output_shape")):
                raise PlanError(
                    f"{name} returned {step!r:.80} among its steps: a step is an operation of fastpipe.ops, or an "
                    "object with apply(image) and output_shape(shape)."
                )
            if not isinstance(step, Operation):
                shape = step.output_shape(shape)
                if not isinstance(shape, ImageShape):
                    raise PlanError(
                        f"{type(step).__name__}.output_shape, a step of {name}, returned {shape!r:.80}: return an "
                        "ImageShape(height, width, channels)."
                    )
            elif step.changes_shape:
                shape = step.output_shape(shape)
        return tuple(drawn)


def draw_all(transforms: Iterable[object], shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
    """The steps of consecutive transforms, each drawn for the shape of the previous result."""
    steps: list[Step] = []
    for transform in transforms:
        drawn = draw_steps(transform, shape, generators)
        for step in drawn:
            shape = step.output_shape(shape)
        steps += drawn
    return tuple(steps)


def call(transform: ImageTransform, image: object) -> Any:
    """Calls a transform; one with named arrays, such as albumentations', is called with ``image=``."""
    recipe = named_arrays_of(transform)
    return transform(image) if recipe is None else call_with_image(recipe, transform, image)


class ReprMixin:
    """Prints a transform as torchvision does: its name, and its attributes formatted by `_repr_format`."""

    _repr_format = ""

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self._repr_format.format(self)})"


class Transform(ReprMixin, torch.nn.Module):
    """The base of transforms that TorchScript compiles."""

    # Declared because TorchScript would take a mode's type from `__class__`, which is torchvision's class if loaded.
    interpolation: InterpolationMode


class RandomOp(Transform):
    """The base of transforms that apply one operation with a probability.

    A subclass defines the operation twice: as a function, which TorchScript compiles, and as an `Operation`.
    torchvision compares some probabilities in float64, as here, and others in float32.

    Args:
        p: the probability.
    """

    _repr_format = "p={0.p}"

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def _happens(self, stream: Stream) -> bool:
        return stream.rand() < float(self.p)

    def _changed(self, img: Image) -> Image:
        raise NotImplementedError

    def _operation(self) -> Operation:
        raise NotImplementedError

    def forward(self, img: Image) -> Image:
        """The changed image, or ``img`` itself."""
        if self._happens(TorchStream()):
            return self._changed(img)
        return img

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        return (self._operation(),) if self._happens(stream_of(generators)) else ()


class Filled(Transform):
    """The base of transforms that fill pixels outside of the image with ``self.fill``."""

    if TYPE_CHECKING:  # TorchScript would take an annotation for the attribute's type
        fill: Fill

    def _filling(self, img: Image, channels: int) -> Fill | None:
        """The fill as the functionals take it: for tensors one number a channel."""
        fill = self.fill
        if not isinstance(img, torch.Tensor):
            return fill
        if isinstance(fill, (int, float)):
            return [float(fill)] * channels
        elif fill is not None:  # noqa: RET505 (TorchScript compiles only the branch of the attribute's type)
            return [float(f) for f in fill]
        else:
            return None

    def _fill_as_key(self) -> float | tuple[float, ...] | None:
        """The fill as a hashable value, for caches of operations."""
        return tuple(self.fill) if isinstance(self.fill, Sequence) else self.fill


def is_number(value: object) -> "TypeIs[int | float]":
    """True for an int, a float, or a number of numpy's."""
    return isinstance(value, numbers.Number)


def setup_size(size: Ints, error_msg: str) -> Sequence[int]:
    """``(height, width)`` from one number, a sequence of one, or a sequence of two (which is returned as it is).

    Raises:
        ValueError: a sequence of another length, with ``error_msg``.
    """
    if is_number(size):
        return int(size), int(size)
    if isinstance(size, Sequence) and len(size) == 1:
        return size[0], size[0]
    if len(size) != 2:
        raise ValueError(error_msg)
    return size


def check_length(x: object, name: str, req_sizes: tuple[int, ...]) -> None:
    """Raises TypeError unless ``x`` is a sequence, and ValueError unless its length is one of ``req_sizes``."""
    message = f"{name} should be a sequence of length {' or '.join(str(size) for size in req_sizes)}."
    if not isinstance(x, Sequence):
        raise TypeError(message)
    if len(x) not in req_sizes:
        raise ValueError(message)


def setup_angle(x: Floats, name: str, req_sizes: tuple[int, ...] = (2,)) -> list[float]:
    """Checks a range of degrees: ``[-x, x]`` for a number ``x``, else the sequence as floats.

    Raises:
        TypeError: ``x`` is neither a number nor a sequence.
        ValueError: ``x`` is a negative number, or its length isn't in ``req_sizes``.
    """
    if is_number(x):
        if x < 0:
            raise ValueError(f"If {name} is a single number, it must be positive.")
        return [float(-x), float(x)]
    check_length(x, name, req_sizes)
    return [float(d) for d in x]


def check_interpolation(interpolation: InterpolationMode | int) -> InterpolationMode:
    """Converts one of Pillow's integers, or torchvision's mode, to an `InterpolationMode`; returns others unchanged."""
    if isinstance(interpolation, int):
        return interpolation_from_int(interpolation)
    return InterpolationMode.adopt(interpolation)


def check_fill(fill: Fill) -> float | Sequence[float]:
    """Checks a fill; returns 0 for None, and others unchanged.

    Raises:
        TypeError: the fill is neither None, a number nor a sequence.
    """
    if fill is None:
        return 0
    if not isinstance(fill, Sequence | numbers.Number):
        raise TypeError("Fill should be either a sequence or a number.")
    return fill


def check_scale_and_ratio(scale: object, ratio: object) -> None:
    """Raises TypeError unless both are sequences; warns if bounds are in the wrong order."""
    if not isinstance(scale, Sequence):
        raise TypeError("Scale should be a sequence")
    if not isinstance(ratio, Sequence):
        raise TypeError("Ratio should be a sequence")
    if (scale[0] > scale[1]) or (ratio[0] > ratio[1]):
        warnings.warn("Scale and ratio should be of kind (min, max)", stacklevel=3)
