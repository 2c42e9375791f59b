"""Pillow's antialiased resize: of a whole image, or of a window of the result from the part of the image it needs."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import PIL
from PIL import Image

from fastpipe import core
from fastpipe.types import Box, Size

FILTERS = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")
"""The filters' names, in the order of `core.Filter`."""

SUPPORTS = {"nearest": 0.0, "box": 0.5, "bilinear": 1.0, "hamming": 1.0, "bicubic": 2.0, "lanczos": 3.0}
"""The radius of each filter, in pixels of the input for enlarging, and of the result for reducing."""

# Which pass comes first changes what is rounded when. Since Pillow 13 (pull request 9549 there) the vertical pass is
# first where it removes more than twice as many rows as the other removes columns; before, the horizontal one was.
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
    """Makes a window of a resized PIL image by Pillow, from the part of the image that the window needs.

    Args:
        picture: the part of the image.
        whole: ``(height, width)`` of the whole image.
        box: the part's place in the whole image.
        result: ``(height, width)`` of the resized image.
        window: the wanted part of the resized image.
        interpolation: one of `FILTERS`.
        source: Pillow's ``box`` in the whole image; None for the whole image.
    """
    if box.size != whole:
        part, picture = picture, Image.new(picture.mode, whole[::-1])  # the missing pixels aren't read
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
) -> None:
    """Adds a resize to a job of the core's, which has all of Pillow's filters.

    The arguments are those of `window_by_pillow`, with ``origin`` the top left of its ``box``. ``whole`` is None if the
    whole image is there. ``box`` is its ``source``: left, top, right and bottom, or None for the whole image.
    """
    job.resize(whole, origin, result, window, FILTERS.index(interpolation), _VERTICAL_FIRST, box)


def source_range(
    size: int, new_size: int, start: int, stop: int, interpolation: str, box: tuple[float, float] | None = None
) -> tuple[int, int]:
    """The rows (or columns) of an image that rows ``start`` to ``stop`` of the resized one need: first, last + 1.

    Follows ``precompute_coeffs`` in Pillow's Resample.c, which widens the filter if the image is reduced.

    Args:
        size, new_size: the number of rows of the image, and of the resized one.
        start, stop: the wanted rows of the resized image.
        interpolation: one of `FILTERS`.
        box: the edges of the part that is resized, by any filter but ``"nearest"``; None for the whole image.
    """
    if box is None:
        if size == new_size:
            return start, stop
        if interpolation == "nearest":
            index = _nearest_index(size, new_size)
            return int(index[start]), int(index[stop - 1]) + 1
    low, high = box or (0.0, size)
    step = (high - low) / new_size
    reach = SUPPORTS[interpolation] * max(step, 1.0)
    first = int(low + (start + 0.5) * step - reach + 0.5)
    last = int(low + (stop - 0.5) * step + reach + 0.5)
    return max(min(first, size - 1), 0), min(max(last, 1), size)


@lru_cache(maxsize=1024)
def _nearest_index(size: int, new_size: int) -> npt.NDArray[np.intp]:
    """The source index of each pixel of Pillow's nearest-neighbour resize: the pixel under the new pixel's centre.

    Pillow adds up the step in double precision, so that a centre on an edge may round either way; adding up in the
    same order gives the same indices.
    """
    step = size / new_size
    positions = np.add.accumulate(np.concatenate([[step * 0.5], np.full(new_size - 1, step)]))
    return np.minimum(positions.astype(np.intp), size - 1)
