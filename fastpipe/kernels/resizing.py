"""Pillow's resize, antialiased: all of an image, or a window of the result from the part of the image that it needs."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import PIL
from PIL import Image

from fastpipe import core
from fastpipe.types import Box, Size

FILTERS = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")
"""The modes in the order of the core's numbers, `core.Filter`."""

SUPPORTS = {"nearest": 0.0, "box": 0.5, "bilinear": 1.0, "hamming": 1.0, "bicubic": 2.0, "lanczos": 3.0}
"""The reach of each filter, in pixels of the input where it is enlarged, of the result where it is reduced."""

# Which pass comes first changes what is rounded when. Since Pillow 13 (pull request 9549 there) the vertical one does
# where more rows go away than twice the columns that do; before that, the horizontal one always did.
_VERTICAL_FIRST = 2 if int(PIL.__version__.partition(".")[0]) >= 13 else 0


def window_by_pillow(
    picture: Image.Image,
    whole: Size,
    box: Box,
    result: Size,
    window: Box,
    interpolation: str,
    source: tuple[float, float, float, float] | None = None,
) -> Image.Image:
    """A window of what resizing makes of a whole PIL image, from the part of it that the window needs, by Pillow.

    Args:
        picture: the part.
        whole: ``(height, width)`` of the whole image.
        box: the part's place in it.
        result: ``(height, width)`` of the resized image.
        window: the part of that which is wanted.
        interpolation: one of `FILTERS`.
        source: Pillow's box in the whole image; None for all of it.
    """
    if box.size != whole:
        part, picture = picture, Image.new(picture.mode, whole[::-1])  # what isn't there isn't looked at
        picture.paste(part, (box.left, box.top))
    resized = picture.resize(result[::-1], Image.Resampling[interpolation.upper()], source)
    return resized.crop((window.left, window.top, window.right, window.bottom))


def add_resize(
    job: core.Job,
    whole: tuple[int, int] | None,
    origin: tuple[int, int],
    result: tuple[int, int],
    window: tuple[int, int, int, int],
    interpolation: str,
    box: tuple[float, float, float, float] | None = None,
) -> bool:
    """Adds a resize to a job of the core's, which has them all.

    Arguments are `window_by_pillow`'s, ``origin`` the top left of its box; ``whole`` is None where all of it is there,
    and ``box`` Pillow's: left, top, right and bottom of the source in the whole image, None for all of it.
    """
    job.resize(whole, origin, result, window, FILTERS.index(interpolation), _VERTICAL_FIRST, box)
    return True


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
