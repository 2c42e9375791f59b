"""Geometry of uint8 arrays: crop, flips, padding and Pillow's resize.

Arrays are uint8 ``(H, W)`` or ``(H, W, C)``, may be non-contiguous views, and are never changed. Pillow is the
reference: crop, flips and padding are bit-equal to it, and so is resizing by nearest neighbour, box, Hamming and
Lanczos; bilinear and bicubic resizing differ by at most 1/255.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import cv2
import numpy as np
import numpy.typing as npt
import PIL
import torch
from PIL import Image

from fastpipe.transforms.kernels._arrays import UInt8Array, channels, copied, like, through_pillow

__all__ = [
    "crop",
    "hflip",
    "pad",
    "resize",
    "resize_bicubic",
    "resize_cv2",
    "resize_nearest",
    "resize_pillow",
    "resize_torch",
    "vflip",
]

_BORDERS = {
    "constant": cv2.BORDER_CONSTANT,
    "edge": cv2.BORDER_REPLICATE,
    "reflect": cv2.BORDER_REFLECT_101,
    "symmetric": cv2.BORDER_REFLECT,
}
_PILLOW_FILTERS = {
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "hamming": Image.Resampling.HAMMING,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
_CV2_MAX_CHANNELS = 4
_PILLOW_CHOOSES = int(PIL.__version__.partition(".")[0]) >= 13


def crop(image: UInt8Array, top: int, left: int, height: int, width: int) -> UInt8Array:
    """The box's pixels, zero where the box leaves the image; a view where it stays inside."""
    rows, columns = image.shape[:2]
    bottom, right = top + height, left + width
    if top >= 0 and left >= 0 and bottom <= rows and right <= columns:
        return image[top:bottom, left:right]
    result = np.zeros((max(height, 0), max(width, 0), *image.shape[2:]), dtype=image.dtype)
    inside = image[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
    if inside.size:
        y, x = max(-top, 0), max(-left, 0)
        result[y : y + inside.shape[0], x : x + inside.shape[1]] = inside
    return result


def hflip(image: UInt8Array) -> UInt8Array:
    """Columns in reverse order, as a new contiguous array."""
    return like(cv2.flip(image, 1), image) if image.size else copied(image)


def vflip(image: UInt8Array) -> UInt8Array:
    """Rows in reverse order, as a new contiguous array."""
    return like(cv2.flip(image, 0), image) if image.size else copied(image)


def pad(
    image: UInt8Array,
    left: int,
    top: int,
    right: int,
    bottom: int,
    fill: float | Sequence[float] | None = None,
    mode: str = "constant",
) -> UInt8Array:
    """The image with that many pixels added on each side; a negative number removes pixels.

    Args:
        image: uint8 ``(H, W)`` or ``(H, W, C)``.
        left, top, right, bottom: pixels to add.
        fill: what ``mode="constant"`` adds: one number, or one a channel; None for 0.
        mode: ``"constant"``, ``"edge"``, ``"reflect"`` (edge pixel not repeated) or ``"symmetric"`` (repeated).
    """
    if min(left, top, right, bottom) < 0:
        rows, columns = image.shape[:2]
        image = image[max(-top, 0) : rows - max(-bottom, 0), max(-left, 0) : columns - max(-right, 0)]
        left, top, right, bottom = max(left, 0), max(top, 0), max(right, 0), max(bottom, 0)
    count = channels(image)
    values = [0.0] if fill is None else [fill] if isinstance(fill, (int, float)) else list(fill)
    if len(values) == 1:
        values *= count
    if mode == "constant" and (count > _CV2_MAX_CHANNELS or image.size == 0):
        shape = (image.shape[0] + top + bottom, image.shape[1] + left + right, *image.shape[2:])
        result = np.empty(shape, dtype=image.dtype)
        result[...] = np.asarray(values, dtype=image.dtype) if image.ndim == 3 else values[0]
        result[top : top + image.shape[0], left : left + image.shape[1]] = image
        return result
    return like(cv2.copyMakeBorder(image, top, bottom, left, right, _BORDERS[mode], value=values), image)


def resize(image: UInt8Array, height: int, width: int, interpolation: str) -> UInt8Array:
    """The image at ``(height, width)`` as Pillow resizes it, antialiased.

    The route is the fastest that keeps the contract (`benchmarks/transforms.py` has the figures): nearest goes to
    `resize_nearest`; bilinear to `resize_cv2` where neither axis shrinks, else to `resize_torch`; bicubic to
    `resize_bicubic`; the other filters to `resize_pillow`.

    Args:
        image: uint8 ``(H, W)`` or ``(H, W, C)``, not empty.
        height, width: the new size, at least 1.
        interpolation: ``"nearest"``, ``"nearest-exact"``, ``"bilinear"``, ``"bicubic"``, ``"box"``, ``"hamming"``
            or ``"lanczos"``.

    Returns:
        A new array, or ``image`` itself where it has that size already.
    """
    rows, columns = image.shape[:2]
    if rows == height and columns == width:
        return image
    if interpolation in ("nearest", "nearest-exact"):
        return resize_nearest(image, height, width)
    if interpolation == "bilinear" and height >= rows and width >= columns:
        return resize_cv2(image, height, width)
    if interpolation == "bilinear":
        return resize_torch(image, height, width, interpolation)
    if interpolation == "bicubic":
        return resize_bicubic(image, height, width)
    return resize_pillow(image, height, width, interpolation)


def resize_cv2(image: UInt8Array, height: int, width: int) -> UInt8Array:
    """Bilinear enlarging, within 1/255 of Pillow; not for shrinking, which cv2 does without antialiasing."""
    return like(cv2.resize(image, (width, height), interpolation=cv2.INTER_LINEAR), image)


def resize_torch(image: UInt8Array, height: int, width: int, interpolation: str) -> UInt8Array:
    """Bilinear or bicubic through torch's antialiased uint8 kernel.

    One axis differs from Pillow by at most 1/255, whose weights have 22 bits where torch's have 16. Both axes do so
    in bilinear but for about one value in 50 million of pure noise, which is 2 off; in bicubic more often, hence
    `resize_bicubic`.
    """
    if not image.flags.writeable:
        # torch warns of undefined behaviour for arrays that it must not write to; it only reads this one.
        image = copied(image)
    tensor = torch.from_numpy(image)
    # Permuting after the batch axis is added keeps the strides recognisable as channels-last.
    batch = tensor[None, None] if image.ndim == 2 else tensor[None].permute(0, 3, 1, 2)
    rows, columns = image.shape[:2]
    if rows != height and columns != width and vertical_first(rows, columns, height, width):
        batch = _antialiased(batch, height, columns, interpolation)
    batch = _antialiased(batch, height, width, interpolation)
    result: UInt8Array = (batch[0, 0] if image.ndim == 2 else batch[0].permute(1, 2, 0)).numpy()
    return result


def resize_bicubic(image: UInt8Array, height: int, width: int) -> UInt8Array:
    """Bicubic within 1/255: Pillow's first pass, torch's second.

    torch's 16-bit weights leave one pass at most 1 off; two of them, and bicubic's negative weights, made 2 of it
    in every tenth photo. An exact first pass keeps the whole within 1.
    """
    rows, columns = image.shape[:2]
    if rows != height and columns != width:
        first = (height, columns) if vertical_first(rows, columns, height, width) else (rows, width)
        image = resize_pillow(image, first[0], first[1], "bicubic")
    return resize_torch(image, height, width, "bicubic")


def resize_pillow(image: UInt8Array, height: int, width: int, interpolation: str) -> UInt8Array:
    """Pillow's own resize, channel by channel where Pillow has no such mode."""
    resample = _PILLOW_FILTERS[interpolation]
    if channels(image) not in (1, 3, 4):
        planes = [resize_pillow(image[..., i], height, width, interpolation) for i in range(image.shape[2])]
        return np.stack(planes, axis=-1)
    return through_pillow(image, lambda picture: picture.resize((width, height), resample))


def resize_nearest(image: UInt8Array, height: int, width: int) -> UInt8Array:
    """Pillow's nearest neighbour: the pixel under each new pixel's centre."""
    rows, columns = image.shape[:2]
    y, cv2_rows = _nearest_index(rows, height)
    x, cv2_columns = _nearest_index(columns, width)
    if cv2_rows and cv2_columns:
        size = (width, height)
        if channels(image) == 3 and rows * columns <= 2 * height * width:
            # cv2 moves pixels of four bytes more than twice as fast as of three: worth two conversions here.
            four = cv2.resize(cv2.cvtColor(image, cv2.COLOR_RGB2RGBA), size, interpolation=cv2.INTER_NEAREST_EXACT)
            result: UInt8Array = cv2.cvtColor(four, cv2.COLOR_RGBA2RGB)
            return result
        return like(cv2.resize(image, size, interpolation=cv2.INTER_NEAREST_EXACT), image)
    return np.take(np.take(image, y, axis=0), x, axis=1)


def vertical_first(rows: int, columns: int, height: int, width: int) -> bool:
    """Whether Pillow's resize goes down the columns first, which changes what is rounded when.

    Since Pillow 13 it does where more rows go away than twice the columns that do (pull request 9549 there;
    found by comparing with resizing one axis after the other); before that, rows were always resized first.
    """
    return _PILLOW_CHOOSES and rows > height and rows - height > 2 * (columns - width)


def _antialiased(batch: torch.Tensor, height: int, width: int, interpolation: str) -> torch.Tensor:
    return torch.nn.functional.interpolate(batch, size=(height, width), mode=interpolation, antialias=True)


@lru_cache(maxsize=4096)
def _nearest_index(size: int, new_size: int) -> tuple[npt.NDArray[np.intp], bool]:
    """The source index of each new pixel, and whether cv2's exact nearest neighbour picks the same.

    Pillow adds the step up in double precision, so that a centre that falls on an edge may round either way; adding
    up in the same order gives the same indices.
    """
    step = size / new_size
    positions = np.add.accumulate(np.concatenate([[step * 0.5], np.full(new_size - 1, step)]))
    index = np.minimum(positions.astype(np.intp), size - 1)
    ramp = np.arange(size, dtype=np.float32)[None]
    same = bool((cv2.resize(ramp, (new_size, 1), interpolation=cv2.INTER_NEAREST_EXACT)[0] == index).all())
    return index, same
