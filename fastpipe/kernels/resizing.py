"""Pillow's resize of uint8 arrays, antialiased: by the core, and where that isn't there, by Pillow itself.

Arrays are uint8 ``(H, W)`` or ``(H, W, C)``, may be non-contiguous views, and are never changed. Both ways give
Pillow's pixels, bit for bit.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import PIL
from PIL import Image

from fastpipe import core
from fastpipe.kernels._arrays import UInt8Array, channels, through_pillow
from fastpipe.types import Box, Size

FILTERS = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")
"""In the order of the core's numbers, `core.Filter`."""

PILLOW_NUMBERS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
SUPPORTS = {"nearest": 0.0, "box": 0.5, "bilinear": 1.0, "hamming": 1.0, "bicubic": 2.0, "lanczos": 3.0}
"""How far each filter reaches, in pixels of the input where it is enlarged, of the result where it is reduced."""

_RESAMPLING = {
    "nearest": Image.Resampling.NEAREST,
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "hamming": Image.Resampling.HAMMING,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
# Which pass comes first changes what is rounded when. Since Pillow 13 (pull request 9549 there) the vertical one does
# where more rows go away than twice the columns that do; before that, the horizontal one always did.
_VERTICAL_FIRST = 2 if int(PIL.__version__.partition(".")[0]) >= 13 else 0


def resize(image: UInt8Array, height: int, width: int, interpolation: str) -> UInt8Array:
    """The image at ``(height, width)`` as Pillow resizes it, antialiased, bit for bit.

    The core's kernel is taken where the core is there (`resize_core`), and Pillow's otherwise (`resize_pillow`).

    Args:
        image: uint8 ``(H, W)`` or ``(H, W, C)``, not empty.
        height, width: the new size, at least 1.
        interpolation: one of `FILTERS`, or ``"nearest-exact"``, which is Pillow's nearest.

    Returns:
        A new array, or ``image`` itself where it has that size already.
    """
    if image.shape[:2] == (height, width):
        return image
    if interpolation == "nearest-exact":
        interpolation = "nearest"
    if channels(image) in (1, 3) and core.available():
        whole, result = Size(*image.shape[:2]), Size(height, width)
        return resize_core(image, whole, Box(0, 0, *whole), result, Box(0, 0, *result), interpolation)
    return resize_pillow(image, height, width, interpolation)


def resize_window(
    image: UInt8Array, whole: Size, box: Box, result: Size, window: Box, interpolation: str
) -> UInt8Array:
    """A window of what `resize` makes of a whole image, from the part of the image that the window needs.

    Args:
        image: the part, uint8 ``(H, W)`` or ``(H, W, C)``.
        whole: ``(height, width)`` of the whole image.
        box: the part's place in it.
        result: ``(height, width)`` of the resized image.
        window: the part of that which is wanted.
        interpolation: one of `FILTERS`.
    """
    if channels(image) in (1, 3) and core.available():
        return resize_core(image, whole, box, result, window, interpolation)
    canvas = np.zeros((*whole, *image.shape[2:]), dtype=np.uint8)  # what isn't there isn't looked at
    canvas[box.top : box.bottom, box.left : box.right] = image
    resized = resize_pillow(canvas, result.height, result.width, interpolation)
    return resized[window.top : window.bottom, window.left : window.right]


def resize_core(image: UInt8Array, whole: Size, box: Box, result: Size, window: Box, interpolation: str) -> UInt8Array:
    """`resize_window` in the core; images of 1 or 3 channels."""
    job = core.thread_job()
    job.read_pixels(image)
    add_resize(job, whole, (box.top, box.left), result, window, interpolation)
    out = np.empty((window.height, window.width, *image.shape[2:]), dtype=np.uint8)
    job.write_array(out)
    core.check(core.run(job))
    return out


def resize_pillow(image: UInt8Array, height: int, width: int, interpolation: str) -> UInt8Array:
    """Pillow's own resize, channel by channel where Pillow has no such mode."""
    resample = _RESAMPLING[interpolation]
    if channels(image) not in (1, 3, 4):
        planes = [resize_pillow(image[..., i], height, width, interpolation) for i in range(image.shape[2])]
        return np.stack(planes, axis=-1)
    return through_pillow(image, lambda picture: picture.resize((width, height), resample))


def add_resize(
    job: core.Job,
    whole: tuple[int, int] | None,
    origin: tuple[int, int],
    result: tuple[int, int],
    window: tuple[int, int, int, int],
    interpolation: str,
) -> None:
    """Adds a resize to a job of the core's.

    Arguments are `resize_window`'s, ``origin`` the top left of its box; ``whole`` is None where all of it is there.
    """
    job.resize(whole, origin, result, window, FILTERS.index(interpolation), _VERTICAL_FIRST)


def source_range(size: int, new_size: int, start: int, stop: int, interpolation: str) -> tuple[int, int]:
    """The rows (or columns) of an image that those from ``start`` to ``stop`` of the resized one need: first, last + 1.

    Follows ``precompute_coeffs`` in Pillow's Resample.c: a filter is stretched where the image is reduced.
    """
    if size == new_size:
        return start, stop
    if interpolation == "nearest":
        index = _nearest_index(size, new_size)
        return int(index[start]), int(index[stop - 1]) + 1
    step = size / new_size
    reach = SUPPORTS[interpolation] * max(step, 1.0)
    first = int((start + 0.5) * step - reach + 0.5)
    last = int((stop - 0.5) * step + reach + 0.5)
    return max(first, 0), min(last, size)


@lru_cache(maxsize=1024)
def _nearest_index(size: int, new_size: int) -> npt.NDArray[np.intp]:
    """The source index of each new pixel of Pillow's nearest neighbour: the pixel under the new pixel's centre.

    Pillow adds the step up in double precision, so that a centre that falls on an edge may round either way; adding
    up in the same order gives the same indices.
    """
    step = size / new_size
    positions = np.add.accumulate(np.concatenate([[step * 0.5], np.full(new_size - 1, step)]))
    return np.minimum(positions.astype(np.intp), size - 1)
