"""Pillow's resize of uint8 arrays, antialiased, by the fastest route that keeps the contract.

Arrays are uint8 ``(H, W)`` or ``(H, W, C)``, may be non-contiguous views, and are never changed. Nearest neighbour,
box, Hamming and Lanczos are bit-equal to Pillow; bilinear and bicubic differ by at most 1/255 (`resize_bilinear`
has the exception).

Pillow resizes one axis, rounds to whole numbers, and resizes the other. A route that rounds otherwise in both passes
can end 2 off: one of the two is exact here wherever that is likely.
"""

from __future__ import annotations

import math
from functools import lru_cache

import cv2
import numpy as np
import numpy.typing as npt
import PIL
import torch
from PIL import Image

from fastpipe.transforms.kernels._arrays import UInt8Array, channels, copied, like, through_pillow

__all__ = [
    "resize",
    "resize_bicubic",
    "resize_bilinear",
    "resize_cv2",
    "resize_nearest",
    "resize_pillow",
    "resize_rows_bilinear",
    "resize_torch",
    "vertical_first",
]

_PILLOW_FILTERS = {
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "hamming": Image.Resampling.HAMMING,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
_PILLOW_CHOOSES = int(PIL.__version__.partition(".")[0]) >= 13
_PILLOW_ONE = 1 << 22  # its weights are whole numbers of these parts
_SIMPLE_RATIO = 16  # new pixels after which the same weights come again
_BLOCK_ELEMENTS = 1 << 18  # of float64: 2 MiB, which stay in the CPU's cache however large the image


def resize(image: UInt8Array, height: int, width: int, interpolation: str) -> UInt8Array:
    """The image at ``(height, width)`` as Pillow resizes it, antialiased.

    The route is the fastest that keeps the contract (`benchmarks/transforms.py` has the figures): nearest goes to
    `resize_nearest`; bilinear to `resize_cv2` where neither axis shrinks, else to `resize_bilinear`; bicubic
    to `resize_bicubic`; the other filters to `resize_pillow`.

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
        return resize_bilinear(image, height, width)
    if interpolation == "bicubic":
        return resize_bicubic(image, height, width)
    return resize_pillow(image, height, width, interpolation)


def resize_cv2(image: UInt8Array, height: int, width: int) -> UInt8Array:
    """Bilinear enlarging, within 1/255 of Pillow; not for shrinking, which cv2 does without antialiasing."""
    return like(cv2.resize(image, (width, height), interpolation=cv2.INTER_LINEAR), image)


def resize_bilinear(image: UInt8Array, height: int, width: int) -> UInt8Array:
    """Bilinear within 1/255 of Pillow, through torch where the sizes are in no simple ratio.

    torch's 16-bit weights round a value near the middle of two levels otherwise than Pillow's 22-bit ones, and where
    both passes do so a value ends 2 off. In simple ratios, such as 5 to 4, many values lie exactly in the middle, and
    it happened in one photo of 300: there the rows are resized exactly, which takes twice as long. Elsewhere one value,
    of 150,000, was 2 off in one photo of 3,000.
    """
    rows, columns = image.shape[:2]
    in_two_passes = height != rows and width != columns
    vertically_first = vertical_first(rows, columns, height, width)
    if in_two_passes and (_simple_ratio(rows, height) or _simple_ratio(columns, width)):
        if vertically_first:
            return resize_torch(resize_rows_bilinear(image, height), height, width, "bilinear")
        return resize_rows_bilinear(resize_torch(image, rows, width, "bilinear"), height)
    if in_two_passes and vertically_first:
        image = resize_torch(image, height, columns, "bilinear")
    return resize_torch(image, height, width, "bilinear")


def _simple_ratio(size: int, new_size: int) -> bool:
    return new_size <= _SIMPLE_RATIO * math.gcd(size, new_size)


def resize_rows_bilinear(image: UInt8Array, height: int) -> UInt8Array:
    """The rows resized bit-equally to Pillow's bilinear pass down the columns.

    Pillow adds up whole numbers: its weights are multiples of 2**-22. Such sums are exact in float64, in any order.
    """
    rows = image.shape[0]
    weights = _bilinear_weights(rows, height)
    flat = image.reshape(rows, -1)
    result = np.empty((height, flat.shape[1]), dtype=np.uint8)
    block = max(1, _BLOCK_ELEMENTS // rows)
    for start in range(0, flat.shape[1], block):
        levels = torch.from_numpy(flat[:, start : start + block].astype(np.float64))
        sums = torch.mm(weights, levels).numpy()
        sums += 0.5
        result[:, start : start + block] = sums  # cut off
    return result.reshape(height, *image.shape[1:])


def resize_torch(image: UInt8Array, height: int, width: int, interpolation: str) -> UInt8Array:
    """Bilinear or bicubic through torch's antialiased uint8 kernel.

    Resizing one axis it differs from Pillow by at most 1/255: Pillow's weights have 22 bits and torch's 16.
    """
    if not image.flags.writeable:
        # torch warns of undefined behaviour for arrays that it must not write to; it only reads this one.
        image = copied(image)
    tensor = torch.from_numpy(image)
    # Permuting after the batch axis is added keeps the strides recognisable as channels-last.
    batch = tensor[None, None] if image.ndim == 2 else tensor[None].permute(0, 3, 1, 2)
    batch = torch.nn.functional.interpolate(batch, size=(height, width), mode=interpolation, antialias=True)
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


@lru_cache(maxsize=512)
def _bilinear_weights(rows: int, height: int) -> torch.Tensor:
    """Pillow's bilinear weights as a sparse ``(height, rows)`` float64 matrix (``precompute_coeffs`` in Resample.c).

    The triangle is as wide as the step between new rows where the image shrinks, and two rows wide where it grows.
    """
    step = rows / height
    reach = max(step, 1.0)
    centre = (np.arange(height) + 0.5) * step
    first = np.maximum((centre - reach + 0.5).astype(int), 0)
    last = np.minimum((centre + reach + 0.5).astype(int), rows)
    source = first[:, None] + np.arange((last - first).max())
    weights = np.maximum(1 - np.abs((source - centre[:, None] + 0.5) * (1 / reach)), 0)
    weights[source >= last[:, None]] = 0
    weights /= weights.sum(axis=1, keepdims=True)
    weights = np.floor(weights * _PILLOW_ONE + 0.5) / _PILLOW_ONE
    new, tap = np.nonzero(weights)
    where = torch.from_numpy(np.stack([new, source[new, tap]]))
    values = torch.from_numpy(weights[new, tap])
    return torch.sparse_coo_tensor(where, values, (height, rows), is_coalesced=True, check_invariants=False)


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
