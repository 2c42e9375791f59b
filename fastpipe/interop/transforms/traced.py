"""Classes of people's own that are derived from torchvision's v2 ``Transform``: their code runs without pixels.

What they draw and which functions they call is found by running them on an image that has a size and no pixels, once a
sample, as they would run. That this shows all that they do is tried before, on small images with pixels beside it. Code
that wants pixels all the same ends the plan of that sample, which is then made as the code says, from the generators'
states before.
"""

from __future__ import annotations

import copy
import random
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torchvision.transforms.v2 as theirs
from PIL import Image
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map
from torchvision import tv_tensors

from fastpipe import ops
from fastpipe.program.lower import lower
from fastpipe.program.on_image import run_on_image
from fastpipe.rng import as_globals, keyed_globals
from fastpipe.rng.torch_patch import torch_draws_from
from fastpipe.transforms.sized_image import Untraceable
from fastpipe.transforms.v2._proxies import PilStandIn, PureStandIn, TensorStandIn, stand_in
from fastpipe.transforms.v2._samples import draw_sample, with_pixels
from fastpipe.types import Generators, ImageShape, Step

_STAND_INS = (PilStandIn, TensorStandIn, PureStandIn)
_PROBES = (ImageShape(41, 56, 3), ImageShape(29, 17, 3), ImageShape(64, 64, 3))


# -- running code on an image without pixels


class _PixelGuard(TorchFunctionMode):
    """Lets torch's functions ask a stand-in for its shape and dtype, and for nothing else."""

    _ASKING = frozenset(
        getattr(torch.Tensor, name) if callable(getattr(torch.Tensor, name)) else getattr(torch.Tensor, name).__get__
        for name in (
            *("as_subclass", "device", "dim", "dtype", "element_size", "is_complex", "is_floating_point", "is_meta"),
            *("layout", "ndim", "ndimension", "nelement", "numel", "requires_grad", "shape", "size"),
        )
    )

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in self._ASKING and any(issubclass(kind, (TensorStandIn, PureStandIn)) for kind in types):
            raise Untraceable("this transform calculates with a tensor, and there is none yet")
        return func(*args, **(kwargs or {}))


def _run_without_pixels(transform: Any, inputs: tuple[Any, ...]) -> Any:
    """Calls a transform on stand-ins; whatever it raises is an `Untraceable`: the real call will raise its like."""
    try:
        with _PixelGuard():
            return transform(*inputs)
    except Untraceable:
        raise
    except Exception as error:
        raise Untraceable(f"{type(transform).__name__} raises {error!r} on an image without pixels") from error


# -- the adapter


class Traced:
    """Draws for a transform by running its own code on an image without pixels."""

    __slots__ = ("__weakref__", "original")
    _may_want_pixels = True
    tells_classes = True
    """Code of v2's kind looks things up by an image's class: what isn't planned gets a plain one."""

    note = "draws by its own code, on an image without pixels"
    why_not = "its code looks at pixels, or does something else on an image without any"

    def __init__(self, original: Any) -> None:
        self.original = original

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)

    def __call__(self, *inputs: Any) -> Any:
        """Calls the transform itself, which torchvision's containers hold."""
        if any(isinstance(leaf, _STAND_INS) for leaf in tree_leaves(inputs)):
            return _run_without_pixels(self.original, inputs)
        return self.original(*inputs)

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        """The steps for an image of that shape, drawn as calling the transform would draw.

        Raises:
            Untraceable: it wants pixels; the generators have moved.
        """
        if not _is_trusted(self.original, _kind_of(shape)):
            raise Untraceable(f"{type(self.original).__name__} doesn't do the same on an image without pixels")
        with torch_draws_from(generators), as_globals(generators, with_torch=False):
            return _steps_of(self.original, shape)

    def _plans_itself(self) -> bool:
        if _is_changed(self.original):
            return False
        results = [_is_trusted(self.original, kind) for kind in _KINDS]
        return True in results and False not in results

    def _plans_samples(self) -> bool:
        return not _is_changed(self.original) and _is_trusted(self.original, None) is True


def _is_changed(transform: Any) -> bool:
    """Whether an object has a hook, or a method of its own."""
    own = vars(transform)
    return bool(own.get("_forward_hooks") or own.get("_forward_pre_hooks")) or not own.keys().isdisjoint(_METHODS)


_METHODS = ("__call__", "forward", "make_params", "transform")


def _steps_of(transform: Any, shape: ImageShape) -> tuple[Step, ...]:
    made = _run_without_pixels(transform, (stand_in(shape),))
    steps = getattr(made, "steps", None)
    if not isinstance(made, _STAND_INS) or steps is None:
        raise Untraceable(f"{type(transform).__name__} gives {type(made).__name__}, not an image")
    return tuple(steps)


def _kind_of(shape: ImageShape) -> tuple[Any, ...]:
    """Attributes, but for the size, by which code may tell images apart."""
    if isinstance(shape, ops.TensorShape):
        return shape.channels, shape.dtype, shape.pure
    return (shape.channels,)


# -- whether that shows all that a transform does


_KINDS: tuple[tuple[Any, ...], ...] = ((3,), (3, torch.uint8, False))
"""Kinds of images that a transform is tried on ahead; on others where they come."""

_trials: dict[int, tuple[weakref.ref[Any], dict[Any, bool | None]]] = {}


def _is_trusted(transform: Any, kind: tuple[Any, ...] | None) -> bool | None:
    """Whether a transform gives the same with pixels and without; None if it isn't for such images.

    Args:
        transform: is tried once for each kind.
        kind: of the images; None for a sample with boxes and a mask.
    """
    key = id(transform)
    known = _trials.get(key)
    if known is None or known[0]() is not transform:
        known = _trials[key] = weakref.ref(transform, lambda _: _trials.pop(key, None)), {}
    results = known[1]
    if kind not in results:
        results[kind] = _trial(transform, kind)
    return results[kind]


def _trial(transform: Any, kind: tuple[Any, ...] | None) -> bool | None:
    """Runs copies of a transform with pixels and without, from the same random numbers, and compares."""
    try:
        return all(
            _try_sample(transform, shape, seed) if kind is None else _try_image(transform, shape, kind, seed)
            for seed, shape in enumerate(_PROBES)
        )
    except Untraceable as error:
        return False if error.__cause__ is None else None
    except Exception:
        return None


def _try_image(transform: Any, shape: ImageShape, kind: tuple[Any, ...], seed: int) -> bool:
    shape = ImageShape(shape.height, shape.width, kind[0])
    on_tensor = len(kind) > 1
    given: Any = ops.TensorShape.of(tuple(shape), kind[1], kind[2]) if on_tensor else shape
    steps, end = _from_seed(seed, lambda: _steps_of(copy.deepcopy(transform), given))
    pixels = np.random.RandomState(seed).randint(0, 256, shape, dtype=np.uint8)
    if not on_tensor:
        image: Any = Image.fromarray(pixels if shape.channels == 3 else pixels[..., 0])
        expected, other_end = _from_seed(seed, lambda: copy.deepcopy(transform)(image.copy()))
        found = run_on_image(lower(steps, shape), image) if steps else image
        return end == other_end and _alike(found, expected)
    tensor = torch.from_numpy(pixels).permute(2, 0, 1).contiguous()
    tensor = tensor if kind[1] is torch.uint8 else tensor.to(kind[1])
    image = tensor.clone() if kind[2] else tv_tensors.Image(tensor.clone())
    expected, other_end = _from_seed(seed, lambda: copy.deepcopy(transform)(image))
    for step in steps:
        tensor = step.apply(tensor)
    same_class = isinstance(expected, tv_tensors.Image) == (not _pure_behind(steps, given))
    return end == other_end and same_class and _alike(tensor, expected)


def _pure_behind(steps: tuple[Step, ...], shape: Any) -> bool:
    for step in steps:
        shape = step.output_shape(shape)
    return bool(shape.pure)


def _try_sample(transform: Any, shape: ImageShape, seed: int) -> bool:
    """Beside the image there are boxes, labels and a mask, as detection has them."""
    pixels = np.random.RandomState(seed).randint(0, 256, shape, dtype=np.uint8)
    image = Image.fromarray(pixels)

    def targets() -> tuple[Any, ...]:
        boxes = torch.tensor([[1.0, 2.0, 9.0, 12.0], [3.0, 1.0, 15.0, 20.0]])
        size = shape.height, shape.width
        return (
            {
                "boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=size),
                "labels": torch.tensor([1, 2]),
                "masks": tv_tensors.Mask(torch.from_numpy(pixels[None, ..., 0] % 2).repeat(2, 1, 1)),
            },
        )

    (steps, sample), end = _from_seed(
        seed, lambda: draw_sample([Traced(copy.deepcopy(transform))], shape, targets(), Generators())
    )
    expected, other_end = _from_seed(seed, lambda: copy.deepcopy(transform)(image.copy(), *targets()))
    made = run_on_image(lower(steps, shape), image) if steps else image
    found = with_pixels(sample, made, lambda mask: mask)
    pairs = zip(tree_leaves(found), tree_leaves(expected), strict=True)
    same_tree = str(tree_map(type, found)) == str(tree_map(type, expected))
    return end == other_end and same_tree and all(_alike(one, other) for one, other in pairs)


def _from_seed(seed: int, run: Callable[[], Any]) -> tuple[Any, Any]:
    """A result from global generators that are seeded for it, and their states behind it."""
    with keyed_globals(seed):
        made = run()
        legacy: Any = np.random  # whose generator such code draws from
        name, words, *rest = legacy.get_state()
        return made, (torch.get_rng_state().tolist(), random.getstate(), name, words.tolist(), rest)


def _alike(one: Any, other: Any) -> bool:
    """Whether two values are of one class, and equal."""
    if isinstance(one, Image.Image) or isinstance(other, Image.Image):
        both = isinstance(one, Image.Image) and isinstance(other, Image.Image)
        return both and (one.mode, one.size, one.tobytes()) == (other.mode, other.size, other.tobytes())
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        one, other = one.as_subclass(torch.Tensor), other.as_subclass(torch.Tensor)
        return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)
    return type(one) is type(other) and bool(one == other)


def find_traced(kind: type) -> Callable[[Any], Traced] | None:
    """Makes adapters of objects of a class of somebody's own; None for torchvision's and fastpipe's own classes."""
    home = kind.__module__.partition(".")[0]
    return Traced if issubclass(kind, theirs.Transform) and home not in ("fastpipe", "torchvision") else None
