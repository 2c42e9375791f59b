"""The base of operations: frozen, typed values that hold all facts about an operation.

A transform draws operations, and a program consists of them. An operation defines the shape of its result, the pixels
of its input that a part of its result needs, where it moves a point, what it promises about its pixels, and its
description in words. Its pixels are computed by the function of `fastpipe.transforms.functional` of the same name, for
any image, or by the core for uint8 arrays, if the core has the operation.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from typing_extensions import dataclass_transform

from fastpipe.kernels.arrays import UInt8Array, by_core, channels, through_pillow
from fastpipe.ops.interpolation import InterpolationMode
from fastpipe.types import Box, ImageShape, new_namedtuple

if TYPE_CHECKING:
    from PIL import Image

    from fastpipe.core import EncodedOps, Job


@dataclass(frozen=True, slots=True)
class Contract:
    """A promise about an operation's pixels.

    Attributes:
        name: the promise in one word.
        text: the promise in a sentence.
    """

    name: str
    text: str


EXACT = Contract("exact", "equals torchvision bit for bit")
OWN = Contract("own", "its own pixels")


NEVER = math.inf
"""A value of `Operation.least_pixels`: the core is slower for any number of pixels."""


Arguments: TypeAlias = dict[str, Any]
"""A function's arguments by name."""

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Bounded(dict[Key, Value]):
    """A dict used as a cache: a new key beyond ``most`` keys clears it first.

    Args:
        most: the most keys.
    """

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def keep(self, key: Key, value: Value) -> Value:
        """Sets a new key and returns the value."""
        if len(self) >= self._most:
            self.clear()
        self[key] = value
        return value


class ImageJob(Protocol):
    """A job of the core on images of one layout: see `fastpipe.program.prepared.Prepared`."""

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype of the resulting tensor; None if the result is an image."""

    def run_on(self, image: Image.Image | NDArray[np.uint8]) -> torch.Tensor | Image.Image | None:
        """The result for an image of the job's layout; None if the core can't make it."""


ImageJobs: TypeAlias = "Bounded[Hashable, ImageJob | Literal[False] | None]"


class Memo:
    """Cached results of an interned operation or program; ignored by comparison and pickling.

    Attributes:
        packed: the encoded operations and the shape of their result; keys are the input's shape, or only its channels
            if the size doesn't matter.
        jobs: whole jobs on images in memory, by the images' layout; False if there can be none. An operation's job is
            made for the second image, so its first value is None. The attribute is None if the work isn't the same for
            all images of a layout.
        on_tensor: the operations that do the same on tensors; see `fastpipe.ops.tensor_function`.
    """

    __slots__ = ("jobs", "on_tensor", "packed")

    def __init__(self, *, has_jobs: bool = True) -> None:
        self.packed: Bounded[ImageShape | int, tuple[EncodedOps, ImageShape]] = Bounded(_KEPT)
        self.jobs: ImageJobs | None = Bounded(_KEPT) if has_jobs else None
        self.on_tensor: Bounded[Hashable, Operation] = Bounded(_KEPT)

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type[Memo], tuple[()]]:
        return Memo, ()  # another process computes its own


_KEPT = 64  # shapes or layouts in each dict of a memo


class Operation:
    """The base of all operations. The fields are the keyword arguments of the functional, in its order.

    Attributes:
        op: the name of the function in `fastpipe.transforms.functional`, and of the operation in `REGISTRY`.
        phrase: the format string of `words`, with the arguments' names in braces; empty for `str`.
        pointwise: each pixel of the result depends on the same pixel of the input alone.
        moves: a label mask has to be transformed, too; a pointwise operation never moves anything.
        contract: the promise about the pixels of uint8 arrays, compared with torchvision on PIL images.
        makes_tensor: the result is a tensor for any input.
        changes_shape: the class overrides `output_shape`.
        narrows: the whole result may need a part of the input only, or other operations: see `required_region`.
        drops_info: the result for a PIL image has no ``info``.
        takes_arrays_alone: `apply` takes no PIL image.
        least: `least_pixels` for RGB and for gray images, unless the class overrides that method.
        moves_ahead: commutes with the conversion to a tensor right before it, bit for bit.
    """

    __slots__ = ("interned",)

    interned: Memo
    """The memo of an interned operation; not set in other operations."""

    op: ClassVar[str]
    phrase: ClassVar[str] = ""
    pointwise: ClassVar[bool] = False
    moves: ClassVar[bool] = True
    contract: ClassVar[Contract] = EXACT
    makes_tensor: ClassVar[bool] = False
    changes_shape: ClassVar[bool] = False
    narrows: ClassVar[bool] = False
    drops_info: ClassVar[bool] = False
    takes_arrays_alone: ClassVar[bool] = False
    least: ClassVar[tuple[float, float]] = (0, 0)
    moves_ahead: ClassVar[bool] = False

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        cls.changes_shape = cls.output_shape is not Operation.output_shape
        if "required_region" in vars(cls) and "narrows" not in vars(cls):
            cls.narrows = True
        # Hashes by the class, as arguments may be lists and tensors. No Python method: caches call this for each image.
        cls.__hash__ = type.__hash__.__get__(cls)  # type: ignore[method-assign]

    def apply(self, image: Any) -> Any:
        """Applies the operation to a PIL image, an ndarray ``(H, W, C)`` or a tensor ``(…, C, H, W)``."""
        return getattr(imported("fastpipe.transforms.functional"), self.op)(image, **self.arguments())

    def output_shape(self, shape: ImageShape) -> ImageShape:
        """The shape of `apply`'s result for an image of this shape, computed without pixels."""
        return shape

    def returns_input(self, shape: ImageShape) -> bool:
        """True if `apply` returns an image of this shape itself, not a copy."""
        return False

    def least_pixels(self, channels: int) -> float:
        """The smallest number of pixels of a PIL image for which one call of the core is faster than Pillow.

        Measured by ``benchmarks/transforms.py``: a call and the new image for its result take 6 µs. Operations that
        move whole rows or pixels are never faster than in Pillow: `NEVER`.
        """
        return self.least[channels != 3]

    def keeps_info(self, shape: ImageShape) -> bool:
        """True if `apply`'s result for a PIL image of this shape keeps the image's ``info``."""
        return not self.drops_info or self.returns_input(shape)

    def required_region(self, region: Box, shape: ImageShape) -> tuple[Box, tuple[Operation, ...]] | None:
        """The part of the input that a region of the result needs.

        Args:
            region: a box inside the result.
            shape: the shape of the whole input.

        Returns:
            The needed box of the input, and the operations that make the region from it, bit for bit. None if the whole
            input is needed; then the whole result is made.
        """
        return (region, (self,)) if self.pointwise else None

    def table(self) -> NDArray[np.uint8] | None:
        """The look-up table ``(256,)`` of an operation that maps each uint8 value to another; None for any other."""
        return None

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        """Adds the operation on a uint8 image of this shape to a job; False if the core doesn't have the operation."""
        return False

    def point_transform(self, shape: ImageShape) -> NDArray[np.float64] | None:
        """How points move: a 3×3 matrix on ``(x, y, 1)``, with pixel edges at integers.

        The identity if nothing moves; None for a motion that is no projection.
        """
        return np.eye(3)

    def on_mask(self) -> Operation | None:
        """The operation for a label mask, without blending or colours; None if the mask stays as it is."""
        if self.pointwise or not self.moves:
            return None
        plain = {"interpolation": InterpolationMode.NEAREST, "fill": 0}
        own: Any = self
        return replace(own, **{name: plain[name] for name in plain.keys() & field_names(self)})  # type: ignore[no-any-return]

    def words(self) -> str:
        """Describes the operation for users, in ASCII and the degree sign: ``"mirrored left-right"``."""
        if self.phrase:
            return self.phrase.format(**self.arguments())
        return str(self).replace("×", "x").replace("→", ">")

    def arguments(self) -> Arguments:
        """The functional's keyword arguments."""
        return {name: getattr(self, name) for name in field_names(self)}

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __eq__(self, other: object) -> bool:
        """True for the same class with equal arguments; tensors and arrays are compared by value."""
        if self is other:
            return True
        if type(self) is not type(other):
            return NotImplemented
        return all(_equal(getattr(self, name), getattr(other, name)) for name in field_names(self))

    def __str__(self) -> str:
        return call(self.op, self.arguments())


def on_array_by_core(operation: Operation, image: UInt8Array) -> UInt8Array | None:
    """An operation's result on an array ``(H, W)`` or ``(H, W, C)`` by the core; None if the core can't do it."""
    rows, columns, *depth = image.shape
    shape = new_namedtuple(ImageShape, (rows, columns, *(depth or (1,))))
    return by_core(image, lambda job: operation.to_core(job, shape), _size_of(operation, image, shape))


def _size_of(operation: Operation, image: UInt8Array, shape: ImageShape) -> tuple[int, ...]:
    """The shape of an operation's result on an array; one channel gets no axis if the array has none."""
    result = operation.output_shape(shape)
    return result if image.ndim == 3 or result[2] > 1 else result[:2]


def on_array(operation: Operation, image: UInt8Array) -> UInt8Array:
    """An operation's result on an array by the core, or by Pillow if the core can't do it: the same pixels."""
    if not image.size:
        shape = ImageShape(image.shape[0], image.shape[1], channels(image))
        return np.zeros(_size_of(operation, image, shape), np.uint8)
    by_core = on_array_by_core(operation, image)
    return through_pillow(image, operation.apply) if by_core is None else by_core


def call(name: str, arguments: Arguments) -> str:
    """Formats a function call, without the arguments that are None."""
    return f"{name}({', '.join(f'{key}={_text(value)}' for key, value in arguments.items() if value is not None)})"


Interned = TypeVar("Interned", bound=Operation)


def interned(operation: Interned) -> Interned:
    """Gives an operation that will be drawn again and again a memo, and returns it."""
    object.__setattr__(operation, "interned", Memo())  # frozen
    return operation


def memo_of(step: object) -> Memo | None:
    """The memo of an interned operation; None for a step that was drawn for one image."""
    memo: Memo | None = getattr(step, "interned", None)
    return memo


@lru_cache(maxsize=4096, typed=True)  # 1, 1.0 and True are equal keys, but different arguments
def interned_once(kind: Callable[..., Interned], *arguments: object) -> Interned:
    """The one interned operation with these hashable arguments."""
    return interned(kind(*arguments))


def interned_if_hashable(kind: Callable[..., Interned], *arguments: object) -> Interned:
    """The one interned operation with these arguments, lists and tuples included; a new one if any isn't hashable."""
    flat: list[object] = []
    for argument in arguments:
        if type(argument) is list or type(argument) is tuple:
            flat += (type(argument), len(argument), *argument)
        else:
            flat.append(argument)
    try:
        known: Interned = _interned_of_flat(kind, *flat)
    except TypeError:  # an argument isn't hashable; kind() raises any other TypeError again
        return kind(*arguments)
    return known


@lru_cache(maxsize=4096, typed=True)
def _interned_of_flat(kind: Callable[..., Interned], *flat: Any) -> Interned:
    """The interned operation of flattened arguments: a list or tuple is given as its class, length and elements."""
    if any(isinstance(part, torch.Tensor) for part in flat):
        raise TypeError("tensors are hashable, but change")
    rest = iter(flat)
    return interned(kind(*[part(islice(rest, next(rest))) if part is list or part is tuple else part for part in rest]))


REGISTRY: dict[str, type[Operation]] = {}
"""Every operation that a transform draws, by the name of its function."""


@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(field,))
def register(cls: type[Interned]) -> type[Interned]:
    """Makes an operation's class a frozen dataclass in `REGISTRY`, through which the conformance tests go."""
    operation = dataclass(frozen=True, slots=True, eq=False)(cls)
    REGISTRY[operation.op] = operation
    return operation


def contracts_of(step: object) -> tuple[Contract, ...]:
    """The promises about a step on a uint8 array: one, or one for each kind of view of a multi-view step.

    A step that is no `Operation` may give its promise as a sentence in ``step.promise``.
    """
    if hasattr(step, "contracts"):
        return tuple(step.contracts)
    if isinstance(step, Operation):
        return (step.contract,)
    promise = getattr(step, "promise", None)
    return (Contract(OWN.name, promise),) if isinstance(promise, str) else (OWN,)


def field_names(operation: Operation) -> tuple[str, ...]:
    cls: object = type(operation)
    return _field_names(cls)


@lru_cache(maxsize=128)
def _field_names(cls: type) -> tuple[str, ...]:
    return tuple(one.name for one in fields(cls) if one.init)


@lru_cache(maxsize=8)
def imported(module: str) -> Any:
    """Imports, at its first use, a module of a higher layer, such as the functionals; one that few scripts need; or one
    that may be missing.
    """
    return importlib.import_module(module)


def _equal(value: Any, other: Any) -> bool:
    if isinstance(value, torch.Tensor) or isinstance(other, torch.Tensor):
        return type(value) is type(other) and torch.equal(value, other)
    if isinstance(value, np.ndarray) or isinstance(other, np.ndarray):
        return type(value) is type(other) and np.array_equal(value, other)
    return bool(value == other)


def _text(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return f"<{str(value.dtype).removeprefix('torch.')} {'×'.join(map(str, value.shape))}>"
    if isinstance(value, (list, tuple)):
        text = ", ".join(_text(x) for x in value)
        return f"[{text}]" if isinstance(value, list) else f"({text})"
    return number(value) if isinstance(value, float) else str(value)


def number(value: float) -> str:
    """Formats a number with six significant digits."""
    return f"{value:.6g}"
