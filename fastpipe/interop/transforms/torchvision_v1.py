"""torchvision's v1 transforms, which fastpipe's own have the attributes, the draws and the pixels of."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torchvision
from torchvision.transforms import functional as F
from torchvision.transforms import transforms as theirs

from fastpipe import ops, transforms
from fastpipe.interop.transforms import torchvision_presets
from fastpipe.interop.transforms.base import adapter, adapter_class, known_base
from fastpipe.interop.transforms.pillow_ops import PilToTensorOnce, ToTensorOnce
from fastpipe.interop.transforms.source_code import has_code
from fastpipe.kernels.arrays import through_pillow
from fastpipe.ops.interpolation import InterpolationMode
from fastpipe.rng import preserved_globals
from fastpipe.rng.torch_patch import torch_draws_from
from fastpipe.transforms._attributes import Attribute
from fastpipe.transforms.adapters import Adapt
from fastpipe.transforms.sized_image import SizedImage
from fastpipe.types import Generators, ImageShape, Step


@dataclass(frozen=True, slots=True, eq=False)
class OnPil(ops.PilOperation):
    """One of torchvision's v1 functions on a PIL image, where ours may round otherwise, or takes more."""

    op = "v1_on_pil"

    def apply(self, image: Any) -> Any:
        return through_pillow(image, partial(getattr(F, self.name), **self.given))


def _by_torchvision(ours: Any) -> Any:
    """A class of ours whose steps torchvision's own function does."""

    def draw(self: Any, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        steps = ours.draw(self, shape, generators)
        if isinstance(self, transforms.RandomPosterize) and self.bits in range(1, 9):
            return tuple(steps)
        return tuple(OnPil(step.op, step.arguments(), shape) for step in steps)

    return adapter_class(ours, draw=draw)


def _adapter_class(ours: type, **body: Any) -> Any:
    """`adapter_class`, whose interpolation is ours: the core is asked about no other library's."""
    return adapter_class(ours, interpolation=Attribute(InterpolationMode.adopt), **body)


def _classes() -> dict[type, Any]:
    found = {}
    for name in transforms.__all__:
        ours, kind = getattr(transforms, name), getattr(torchvision.transforms, name, None)
        if kind is not None and hasattr(ours, "draw"):
            found[kind] = _adapter_class(ours)
    for name in ("ElasticTransform", "RandomPosterize"):
        found[getattr(theirs, name)] = _by_torchvision(getattr(transforms, name))
    if tuple(map(int, torchvision.__version__.split(".")[:2])) < (0, 28):
        del found[theirs.ElasticTransform]  # which draws other numbers there
    return {**found, **torchvision_presets.TABLE}


TABLE = _classes()
"""The class that draws for each of torchvision's."""


def _guarded(ours: Any, step: ops.Operation) -> Any:
    """A conversion that leaves tensors as they are."""
    kept = (ops.interned(step),)

    def draw(self: Any, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        return kept

    return adapter_class(ours, draw=draw)


GUARDED_TO_TENSOR = _guarded(transforms.ToTensor, ToTensorOnce())
GUARDED_PIL_TO_TENSOR = _guarded(transforms.PILToTensor, PilToTensorOnce())


# -- subclasses


def _draw_by_params(self: Any, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
    """`RandomResizedCrop.draw`, with a subclass's own ``get_params``."""
    with torch_draws_from(generators):
        box = self.original.get_params(SizedImage(shape), self.scale, self.ratio)
    return ops.Crop(*map(int, box)), ops.Resize(list(self.size), self.interpolation, None, self.antialias)


_RESIZED_CROP = _adapter_class(transforms.RandomResizedCrop, draw=_draw_by_params)


_MODULES = frozenset({"math", "torch", "torchvision"})
_GUARDING_CALLS = ("c8f5e554018946a2", "54cbe42ddb4a8a79")
"""Fingerprints of the ``__call__`` of a `ToTensor` that leaves tensors: DINOv2's ``MaybeToTensor``, open_clip's."""


def _names(method: Any) -> tuple[Any, set[str]] | None:
    """A method as a function, and the names in its body but for torch's and such; None if it uses other values."""
    function = inspect.unwrap(method)
    if not inspect.isfunction(function) or set(function.__code__.co_freevars) - {"__class__"}:
        return None
    names = set(function.__code__.co_names)
    given = {name: function.__globals__[name] for name in names if name in function.__globals__}
    homes = {_home(value) for value in given.values()}
    return (function, names - given.keys()) if homes <= _MODULES else None


def _home(value: Any) -> str:
    name = getattr(value, "__name__", "") if inspect.ismodule(value) else getattr(value, "__module__", "")
    return str(name).partition(".")[0]


def _draws_from_size(get_params: Any) -> bool:
    """Whether a `RandomResizedCrop`'s ``get_params`` draws from torch's generator by an image's size alone.

    It may name torch, math, torchvision's functions and Python's own, and is tried on images without pixels.
    """
    found = _names(get_params)
    if found is None:
        return False
    try:
        with preserved_globals(), torch_draws_from(Generators(torch.Generator())):
            images = SizedImage(ImageShape(33, 50)), SizedImage(ImageShape(9, 4))
            boxes = [found[0](image, (0.2, 1.0), (0.75, 1.33)) for image in images]
        return all(len(box) == 4 and box == tuple(map(int, box)) for box in boxes)
    except Exception:
        return False


def _only_guards(kind: Any) -> bool:
    """Whether a `ToTensor`'s own ``__call__`` is a known one that leaves tensors, and calls torchvision for images."""
    return _names(kind.__call__) is not None and any(has_code((kind.__call__,), known) for known in _GUARDING_CALLS)


def _special(kind: Any) -> Any:
    """The class that draws for a subclass which replaces a method that can be asked."""
    if known_base(kind, {theirs.RandomResizedCrop: None}, replaced=frozenset({"get_params"})):
        return _RESIZED_CROP if _draws_from_size(kind.get_params) else None
    if known_base(kind, {theirs.ToTensor: None}, replaced=frozenset({"__call__"})):
        return GUARDED_TO_TENSOR if _only_guards(kind) else None
    return None


def why_not(kind: type) -> str:
    """The reason why an object of a class of torchvision's isn't planned."""
    return "fastpipe doesn't know this class of torchvision's"


def find_adapt(kind: type) -> Adapt | None:
    """Makes adapters of objects of a class; None for a class that isn't known."""
    base = known_base(kind, TABLE)
    found = _special(kind) if base is None else TABLE[base]
    return None if found is None else adapter(found)
