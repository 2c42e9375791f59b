"""Transforms that contain others, applied in order, all or none, one of them, or in random order; and `Lambda`."""

import inspect
import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from fastpipe.rng import TorchStream, stream_of
from fastpipe.tensor_kernels.torchscript import Image
from fastpipe.transforms._base import ReprMixin, call, draw_all, draw_steps, drawable
from fastpipe.transforms.compose_plan import ComposePlanSlot
from fastpipe.types import Generators, ImageShape, ImageTransform, PythonRandom, Step

# With TorchScript's default for a missing annotation, an attempt to script a Compose ends with torchvision's error (a
# Tensor can't be called), not with an obscure one about annotations.
if TYPE_CHECKING:
    _Transforms: TypeAlias = Sequence[ImageTransform]
else:
    _Transforms = torch.Tensor


class _OfTransforms:
    """The base of transforms that contain ``self.transforms``."""

    if TYPE_CHECKING:  # TorchScript would take an annotation for a member's type
        transforms: Sequence[ImageTransform]  # or a torch.nn.ModuleList
    _repr_format = ""

    def _can_draw(self) -> bool:
        return all(map(drawable, self.transforms))

    def __repr__(self) -> str:
        lines = "".join(f"\n    {one}" for one in (*filter(None, [self._repr_format.format(self)]), *self.transforms))
        return f"{self.__class__.__name__}({lines}\n)"


class Compose(ComposePlanSlot, _OfTransforms):
    """Applies several transforms one after the other.

    A PIL image or a uint8 array goes through them as one program: see `fastpipe.transforms.compose_plan`.

    Not scriptable: for TorchScript, put scriptable transforms into a ``torch.nn.Sequential``.

    Args:
        transforms: the transforms, called in order, each with the result of the one before.
    """

    _is_compose = True

    def __init__(self, transforms: _Transforms) -> None:
        self.transforms = transforms

    def __call__(self, img: object) -> Any:
        planned = self._call_for(img)
        if planned is not None:
            return planned(img)
        for t in self.transforms:
            img = call(t, img)
        return img

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        return draw_all(self.transforms, shape, generators)


# The signature for `help` and editors; TorchScript doesn't read it.
Compose.__init__.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        inspect.Parameter(
            "transforms", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Sequence[Callable[[Any], Any]]
        ),
    ],
    return_annotation=None,
)


class Lambda(ReprMixin):
    """Applies a function of yours. It can't be drawn ahead, so the transforms after it run separately.

    Args:
        lambd: the function; gets the image and returns it.

    Raises:
        TypeError: ``lambd`` isn't callable.
    """

    def __init__(self, lambd: ImageTransform) -> None:
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd

    def __call__(self, img: object) -> Any:
        return self.lambd(img)


class RandomTransforms(_OfTransforms):
    """The base of transforms that choose among or shuffle a list of transforms.

    Args:
        transforms: the transforms.

    Raises:
        TypeError: ``transforms`` isn't a sequence.
    """

    def __init__(self, transforms: Sequence[ImageTransform]) -> None:
        if not isinstance(transforms, Sequence):
            raise TypeError("Argument transforms should be a sequence")
        self.transforms = transforms

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


class RandomApply(_OfTransforms, torch.nn.Module):
    """Applies all of the transforms with probability ``p``, or none.

    Args:
        transforms: a sequence of transforms; to be scripted, a ``torch.nn.ModuleList``.
        p: the probability.
    """

    _repr_format = "p={0.p}"

    def __init__(self, transforms: Any, p: float = 0.5) -> None:
        super().__init__()
        self.transforms = transforms
        self.p = p

    def forward(self, img: Image) -> Image:
        """Applies the transforms, or returns ``img`` itself."""
        if TorchStream().exceeds(float(self.p)):
            return img
        for t in self.transforms:
            img = t(img)
        return img

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        if stream_of(generators).exceeds(float(self.p)):
            return ()
        return draw_all(self.transforms, shape, generators)


class RandomOrder(RandomTransforms):
    """Applies the transforms in a random order, drawn with Python's ``random``."""

    _draws_from_python = True

    def __call__(self, img: object) -> Any:
        for i in _draw_order(len(self.transforms), random):
            img = self.transforms[i](img)
        return img

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        order = _draw_order(len(self.transforms), generators.python)
        return draw_all([self.transforms[i] for i in order], shape, generators)


class RandomChoice(RandomTransforms):
    """Applies one transform, picked with Python's ``random``.

    Args:
        transforms: the transforms.
        p: their weights; None for equal ones.

    Raises:
        TypeError: ``transforms`` or ``p`` isn't a sequence.
    """

    _draws_from_python = True

    def __init__(self, transforms: Sequence[ImageTransform], p: Sequence[float] | None = None) -> None:
        super().__init__(transforms)
        if p is not None and not isinstance(p, Sequence):
            raise TypeError("Argument p should be a sequence")
        self.p = p

    def __call__(self, *args: Any) -> Any:
        return _draw_member(self.transforms, self.p, random)(*args)

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        return draw_steps(_draw_member(self.transforms, self.p, generators.python), shape, generators)

    def __repr__(self) -> str:
        return f"{super().__repr__()}(p={self.p})"


def _draw_order(count: int, generator: PythonRandom) -> list[int]:
    order = list(range(count))
    generator.shuffle(order)
    return order


def _draw_member(
    transforms: Sequence[ImageTransform], weights: Sequence[float] | None, generator: PythonRandom
) -> ImageTransform:
    return generator.choices(transforms, weights=weights)[0]
