"""Calls of transforms with named arrays, ``transform(image=…, mask=…)``, whose pixels may be loaded later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from fastpipe.pillow.image_record import region_of
from fastpipe.pillow.lazy_source import LazySource
from fastpipe.plain_lookup import ByClass
from fastpipe.rng import Stream, TorchStream
from fastpipe.transforms.adapters import recipe_of
from fastpipe.types import Box

Array = NDArray[Any]


class NamedArrays(Protocol):
    """The recipe of a library whose transforms are called with named arrays."""

    def takes_names(self, kind: type) -> bool:
        """True if objects of a class are called with named arrays."""

    def run(self, transform: Any, data: dict[str, Any]) -> dict[str, Any]:
        """Calls a transform with named values, some of which may be `Pixels`."""

    def seed(self, transform: Any, number: int) -> None:
        """Seeds a transform that has its own generators."""

    def drawn_ahead(self, transform: Any, reseeds: bool) -> Any:
        """A transform that draws for a given one before the image is decoded; None if the given one needs pixels.

        ``reseeds``: each image seeds the transform by a number drawn from the image's own generators.
        """

    def label_fields(self, transform: Any) -> Sequence[str]:
        """The names of a transform's arguments that hold one value for each box, such as labels."""

    def stages(self, options: Any, dataset: Any) -> Any:
        """The stages of a dataset whose images and targets go through a transform together."""


@dataclass(frozen=True, slots=True)
class Pixels:
    """Pixels that are loaded once it is known which are needed: of an image, of a mask, or of several masks.

    Attributes:
        shape: ``(H, W)`` or ``(H, W, C)``; for several masks ``(N, H, W)`` or ``(N, H, W, C)``.
        load: loads a box of the pixels, into memory that its next call may reuse.
        several: they are several masks.
        as_list: the result has to be a list of masks.
    """

    shape: tuple[int, ...]
    load: Callable[[Box], Array]
    several: bool = False
    as_list: bool = False

    @property
    def size(self) -> tuple[int, int]:
        height, width = self.shape[1:3] if self.several else self.shape[:2]
        return height, width

    def whole(self) -> Any:
        """Copies all pixels to an array, or to a list of arrays."""
        array = np.array(self.load(Box(0, 0, *self.size)))
        return list(array) if self.as_list else array


def image_pixels(image: object) -> Pixels:
    """The pixels of a file, of a PIL image, which may be lazy, or of an array.

    Raises:
        TypeError: the image has another type.
    """
    if isinstance(image, LazySource):
        return Pixels(tuple(image.shape), image.region)
    if isinstance(image, np.ndarray):
        return pixels_of_array(image)
    if not isinstance(image, Image.Image):
        kind = "tensors: wrap it in fastpipe.transforms.Albumentations" if isinstance(image, torch.Tensor) else ""
        what = f"no {kind}" if kind else f"no {type(image).__name__}"
        raise TypeError(f"albumentations takes arrays (H, W, C), and PIL images for it, but {what}.")

    def load(box: Box) -> Array:
        lazy = region_of(image, box)
        return _part(np.asarray(image), box) if lazy is None else lazy

    bands = len(image.getbands())
    return Pixels((image.height, image.width) if bands == 1 else (image.height, image.width, bands), load)


def pixels_of_array(array: Array, *, several: bool = False) -> Pixels:
    return Pixels(array.shape, lambda box: _part(array, box, several), several)


def pixels_of_arrays(arrays: Sequence[Array]) -> Pixels:
    """The pixels of masks ``(H, W)`` or ``(H, W, C)``, all of one shape."""
    shape = len(arrays), *arrays[0].shape
    return Pixels(shape, lambda box: np.stack([_part(array, box) for array in arrays]), several=True, as_list=True)


def _part(array: Array, box: Box, several: bool = False) -> Array:
    rows, columns = slice(box.top, box.bottom), slice(box.left, box.right)
    return array[:, rows, columns] if several else array[rows, columns]


def named_arrays_of(transform: object) -> NamedArrays | None:
    """The recipe by which a transform is called with named arrays; None for any other transform."""
    kind = type(transform)
    return _named_arrays_of(kind)


@ByClass
def _named_arrays_of(kind: type) -> NamedArrays | None:
    recipe = recipe_of(kind)
    takes_names = getattr(recipe, "takes_names", None)
    return cast(NamedArrays, recipe) if takes_names is not None and takes_names(kind) else None


def call_with_image(recipe: NamedArrays, transform: object, image: object) -> Any:
    """Calls a transform that takes named arrays with a PIL image or an array; returns the resulting array or tensor."""
    return recipe.run(transform, {"image": image_pixels(image)})["image"]


def random_seed(stream: Stream) -> int:
    """Draws a seed in ``[0, 2**63 - 1)``."""
    return stream.randint(0, 2**63 - 1)


def reseed(transform: object) -> None:
    """Seeds a transform that has its own generators by a number drawn from torch's; leaves other transforms alone."""
    recipe = named_arrays_of(transform)
    if recipe is not None:
        recipe.seed(transform, random_seed(TorchStream()))


def label_fields(transform: object) -> Sequence[str]:
    """The names of a transform's arguments that hold one value for each box, such as labels; empty without a recipe."""
    recipe = named_arrays_of(transform)
    return () if recipe is None else recipe.label_fields(transform)
