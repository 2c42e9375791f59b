"""The base of operations: frozen, typed values with everything that is known of them.

A transform draws operations, a program is made of them. An operation says what shape its result has, which pixels of
its input a part of its result needs, where it moves a point, what it promises about its pixels, and how it is called
in words. Its pixels have routes: the function of `fastpipe.transforms.functional` of the same name, for any image, and
for uint8 arrays the core, where that has the operation.
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
    """One promise about pixels.

    Attributes:
        name: a word for it.
        text: in a sentence.
    """

    name: str
    text: str


EXACT = Contract("exact", "equals torchvision bit for bit")
OWN = Contract("own", "its own pixels")


NEVER = math.inf
"""Value of `Operation.least_pixels`: the core takes longer however many pixels there are."""


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Bounded(dict[Key, Value]):
    """A dict of what is worked out once: it forgets all where a further key would be one too many.

    Args:
        most: keys that it may have.
    """

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def keep(self, key: Key, value: Value) -> Value:
        """Sets a key that isn't there; returns the value."""
        if len(self) >= self._most:
            self.clear()
        self[key] = value
        return value


class ImageJob(Protocol):
    """A job of the core's on images of one layout: `fastpipe.program.prepared.Prepared`."""

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype of the tensor that comes out; None where an image does."""

    @property
    def keeps_info(self) -> bool:
        """Whether a PIL image that comes out has the ``info`` of the one that came."""

    def run_on(
        self, image: Image.Image | NDArray[np.uint8], keeps_info: bool = True
    ) -> torch.Tensor | Image.Image | None:
        """The result for an image of that layout; None where the core can't make it."""


ImageJobs: TypeAlias = "Bounded[Hashable, ImageJob | Literal[False] | None]"


class Memo:
    """Results that are kept with an operation or a program which will come again: no part of its value.

    Attributes:
        packed: its operations of the core's and the shape of their result, by the shape that they were packed for, or
            by its channels where the rest doesn't matter.
        jobs: whole jobs on images in memory, by the images' layout, False where there can be none; those of operations
            are made for the second image: None until then. No dict where the work isn't the same for all images of a
            layout.
        on_tensor: the operations that do the same to tensors; `fastpipe.ops.on_tensor` has them.
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
        return Memo, ()  # another process works it out for itself


_KEPT = 64  # shapes or layouts of images, in each of a memo's dicts


class Operation:
    """The base of all operations. Fields are the keyword arguments of the functional, in its order.

    Attributes:
        op: the name of the function in `fastpipe.transforms.functional`, and of the operation in `REGISTRY`.
        phrase: `words`, with the arguments by name in braces; empty for `str`.
        pointwise: each pixel of the result depends on the same pixel of the input alone.
        moves: a mask of labels has to move along; one that is pointwise moves nothing.
        contract: what is promised about the pixels of uint8 arrays, against torchvision on PIL images.
        makes_tensor: the result is a tensor, whatever the input.
        changes_shape: the class says so in `output_shape`.
        narrows: all of the result may need a part of the input, or other operations: see `required_region`.
        drops_info: of a PIL image, the result is one without its ``info``.
        takes_arrays_alone: `apply` takes no PIL image.
        least: what `least_pixels` says of RGB and of gray images, where nothing else decides.
        moves_ahead: right after a conversion to a tensor, it may run before that, on pixels, with the same bytes.
    """

    __slots__ = ("interned",)

    interned: Memo
    """The memo of an interned operation; unset in others."""

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
        # The class's own, as arguments may be lists and tensors; not a method in Python: caches ask for every image.
        cls.__hash__ = type.__hash__.__get__(cls)  # type: ignore[method-assign]

    def apply(self, image: Any) -> Any:
        """The operation on a PIL image, an ndarray ``(H, W, C)`` or a tensor ``(…, C, H, W)``."""
        return getattr(imported("fastpipe.transforms.functional"), self.op)(image, **self.arguments())

    def output_shape(self, shape: ImageShape) -> ImageShape:
        """The shape that `apply` gives an image of that shape, worked out without pixels."""
        return shape

    def returns_input(self, shape: ImageShape) -> bool:
        """Whether `apply` gives an image of that shape back as it is, and not a copy."""
        return False

    def least_pixels(self, channels: int) -> float:
        """The least pixels of a PIL image for which the core, called for this operation alone, is faster than Pillow.

        Measured by ``benchmarks/transforms.py``: a call, with the new image that it writes to, takes 6 µs; and what
        moves whole rows or pixels is as fast in Pillow: `NEVER`.
        """
        return self.least[channels != 3]

    def keeps_info(self, shape: ImageShape) -> bool:
        """Whether what `apply` makes of a PIL image of that shape has its ``info``."""
        return not self.drops_info or self.returns_input(shape)

    def required_region(self, region: Box, shape: ImageShape) -> tuple[Box, tuple[Operation, ...]] | None:
        """The input that a region of the result needs.

        Args:
            region: a box inside the result.
            shape: the whole input.

        Returns:
            The box of the input that is needed, and the operations that make the region of it, bit for bit; None where
            all of the input is needed, and then all of the result is made.
        """
        return (region, (self,)) if self.pointwise else None

    def table(self) -> NDArray[np.uint8] | None:
        """The 256 results of an operation that maps each uint8 value to another; None for any other operation."""
        return None

    def to_core(self, job: Job, shape: ImageShape) -> bool:
        """Adds the operation, on a uint8 image of that shape, to a job of the core's; False where it has none such."""
        return False

    def point_transform(self, shape: ImageShape) -> NDArray[np.float64] | None:
        """The motion of points: a 3×3 matrix on ``(x, y, 1)``, pixel edges at whole numbers.

        None for a motion that is no projection. An operation that moves nothing gives the identity.
        """
        return np.eye(3)

    def on_mask(self) -> Operation | None:
        """The operation for a mask of labels, without blending or colours; None if a mask stays as it is."""
        if self.pointwise or not self.moves:
            return None
        plain = {"interpolation": InterpolationMode.NEAREST, "fill": 0}
        own: Any = self
        return replace(own, **{name: plain[name] for name in plain.keys() & field_names(self)})  # type: ignore[no-any-return]

    def words(self) -> str:
        """A phrase for people, in ASCII and the degree sign, such as ``"mirrored left-right"``."""
        if self.phrase:
            return self.phrase.format(**self.arguments())
        return str(self).replace("×", "x").replace("→", ">")

    def arguments(self) -> dict[str, Any]:
        """The functional's keyword arguments."""
        return {name: getattr(self, name) for name in field_names(self)}

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __eq__(self, other: object) -> bool:
        """Equal operations and arguments; tensors and arrays among them by value."""
        if self is other:
            return True
        if type(self) is not type(other):
            return NotImplemented
        return all(_equal(getattr(self, name), getattr(other, name)) for name in field_names(self))

    def __str__(self) -> str:
        return call(self.op, self.arguments())


def on_array_by_core(operation: Operation, image: UInt8Array) -> UInt8Array | None:
    """An operation's result on an array ``(H, W)`` or ``(H, W, C)`` by the core; None where that can't do it."""
    rows, columns, *depth = image.shape
    shape = new_namedtuple(ImageShape, (rows, columns, *(depth or (1,))))
    return by_core(image, lambda job: operation.to_core(job, shape), _size_of(operation, image, shape))


def _size_of(operation: Operation, image: UInt8Array, shape: ImageShape) -> tuple[int, ...]:
    """The shape of an operation's result on an array of that shape, without an axis of one channel if it has none."""
    made = operation.output_shape(shape)
    return made if image.ndim == 3 or made[2] > 1 else made[:2]


def on_array(operation: Operation, image: UInt8Array) -> UInt8Array:
    """`on_array_by_core`; where the core isn't there or hasn't the operation, by Pillow itself: the same pixels."""
    if not image.size:
        shape = ImageShape(image.shape[0], image.shape[1], channels(image))
        return np.zeros(_size_of(operation, image, shape), np.uint8)
    made = on_array_by_core(operation, image)
    return through_pillow(image, operation.apply) if made is None else made


def call(name: str, arguments: dict[str, Any]) -> str:
    """A function's call, without the arguments that are None."""
    return f"{name}({', '.join(f'{key}={_text(value)}' for key, value in arguments.items() if value is not None)})"


Interned = TypeVar("Interned", bound=Operation)


def interned(operation: Interned) -> Interned:
    """The operation, which will be drawn again and again: what is worked out about it is kept with it."""
    object.__setattr__(operation, "interned", Memo())  # frozen
    return operation


def memo_of(step: object) -> Memo | None:
    """The memo that is kept with an interned operation; None for a step that was drawn for one image."""
    memo: Memo | None = getattr(step, "interned", None)
    return memo


@lru_cache(maxsize=4096, typed=True)  # to Python 1, 1.0 and True are one key, and to a transform not one argument
def interned_once(kind: Callable[..., Interned], *arguments: object) -> Interned:
    """The interned operation of these arguments, which are hashable: always the same one."""
    return interned(kind(*arguments))


def interned_if_hashable(kind: Callable[..., Interned], *arguments: object) -> Interned:
    """The interned operation of these arguments, lists and tuples among them; a new one if any isn't hashable."""
    flat: list[object] = []
    for argument in arguments:
        if type(argument) is list or type(argument) is tuple:
            flat += (type(argument), len(argument), *argument)
        else:
            flat.append(argument)
    try:
        known: Interned = _interned_of_flat(kind, *flat)
    except TypeError:  # not hashable; any other is raised again
        return kind(*arguments)
    return known


@lru_cache(maxsize=4096, typed=True)
def _interned_of_flat(kind: Callable[..., Interned], *flat: Any) -> Interned:
    """The interned operation of arguments in which a list or a tuple is its class, its length and its elements."""
    if any(isinstance(part, torch.Tensor) for part in flat):
        raise TypeError("tensors are hashable, but change")
    rest = iter(flat)
    return interned(kind(*[part(islice(rest, next(rest))) if part is list or part is tuple else part for part in rest]))


REGISTRY: dict[str, type[Operation]] = {}
"""Every operation that a transform draws, by the name of its function."""


@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(field,))
def register(cls: type[Interned]) -> type[Interned]:
    """Makes an operation's class a frozen dataclass, in `REGISTRY`; the conformance tests take it from there."""
    made = dataclass(frozen=True, slots=True, eq=False)(cls)
    REGISTRY[made.op] = made
    return made


def contracts_of(step: object) -> tuple[Contract, ...]:
    """The promises for a step on a uint8 array: one, or for several views of an image each that occurs.

    A step of another kind may say its promise in a sentence, as ``step.promise``.
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
def _field_names(cls: Any) -> tuple[str, ...]:
    return tuple(one.name for one in fields(cls) if one.init)


@lru_cache(maxsize=8)
def imported(module: str) -> Any:
    """A module that lies above, as the functionals, which ask the operations for sizes, or that not everybody has."""
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
    """A number in six digits."""
    return f"{value:.6g}"
