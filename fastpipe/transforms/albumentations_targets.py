"""Calls of transforms with named arrays, ``transform(image=…, mask=…)``, whose pixels may be loaded later."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from fastpipe.pillow.image_record import region_of
from fastpipe.pillow.lazy_source import LazySource
from fastpipe.rng import Stream, TorchStream, preserved_globals, seed_python
from fastpipe.transforms.adapters import recipe_of
from fastpipe.types import Box

Array = NDArray[Any]
ONE_AT_A_TIME = threading.RLock()
"""A lock, because an albumentations transform keeps its random state and its last parameters in itself."""

Run = Callable[[Any, "dict[str, Any]"], "dict[str, Any]"]
"""Calls a transform with named values, some of which may be `Pixels`."""


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


def named_call_of(transform: object) -> Run | None:
    """The function that calls a transform with named arrays; None for any other transform."""
    kind: object = type(transform)
    return _named_call_of(kind)


@lru_cache(maxsize=512)
def _named_call_of(kind: type) -> Run | None:
    find = getattr(recipe_of(kind), "find_run", None)
    found: Run | None = None if find is None else find(kind)
    return found


def call_with_image(run: Run, transform: object, image: object) -> Any:
    """Calls a transform that takes named arrays with a PIL image or an array; returns the resulting array or tensor."""
    return run(transform, {"image": image_pixels(image)})["image"]


def random_seed(stream: Stream) -> int:
    """Draws a seed in ``[0, 2**63 - 1)``."""
    return stream.randint(0, 2**63 - 1)


def reseed(transform: object) -> None:
    """Seeds a transform that has its own generators by a number drawn from torch's; leaves other transforms alone."""
    if named_call_of(transform) is not None:
        set_state(transform, random_seed(TorchStream()))


def set_state(transform: Any, seed: int) -> None:
    """Seeds all members by one shared pair of generators; albumentations' own set_random_seed starts all alike.

    Older versions draw from Python's global generator, which is seeded instead.
    """
    if hasattr(transform, "set_random_state"):
        transform.set_random_state(np.random.default_rng(seed), random.Random(seed))
    elif hasattr(transform, "set_random_seed"):
        transform.set_random_seed(seed)
    else:
        seed_python(seed)


@contextmanager
def seeded(transform: object, seed: int) -> Iterator[None]:
    """Seeds a transform for a block, which no other thread runs; Python's own generator stays as it was."""
    with ONE_AT_A_TIME, nullcontext() if hasattr(transform, "set_random_state") else preserved_globals():
        set_state(transform, seed)
        yield
