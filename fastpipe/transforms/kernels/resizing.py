"""Pillow's resize of uint8 arrays, antialiased, by the fastest route that keeps the contract.

Arrays are uint8 ``(H, W)`` or ``(H, W, C)``, may be non-contiguous views, and are never changed. Nearest neighbour,
box, Hamming and Lanczos are bit-equal to Pillow; bilinear and bicubic differ by at most 1/255.

Pillow resizes one axis, rounds to whole numbers, and resizes the other. A route that rounds otherwise in both passes
can end 2 off: one of the two is exact here.
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

from fastpipe.transforms.kernels._arrays import UInt8Array, channels, copied, like, through_pillow, transposed

__all__ = [
    "resize",
    "resize_bicubic",
    "resize_bilinear",
    "resize_cv2",
    "resize_nearest",
    "resize_pillow",
    "resize_rows",
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
_SIMPLE_RATIO = 64  # new pixels after which the same weights come again: up to here many sums lie half way
_BLOCK_ELEMENTS = 1 << 18  # 1 or 2 MiB, which stay in the CPU's cache however large the image


def _triangle(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    result: npt.NDArray[np.float64] = np.maximum(1 - np.abs(x), 0)
    return result


def _cubic(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Keys' cubic with a = -1/2, in the order of operations that Pillow has."""
    a, x = -0.5, np.abs(x)
    near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    result: npt.NDArray[np.float64] = np.where(x < 1, near, np.where(x < 2, far, 0))
    return result


_KERNELS = {"bilinear": (_triangle, 1.0), "bicubic": (_cubic, 2.0)}


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
    """Bilinear within 1/255 of Pillow: torch's pass along the rows, an exact one down the columns.

    torch's 16-bit weights round one value of 1,000 otherwise than Pillow's 22-bit ones. Where both passes do so a
    value ends 2 off, as happened in one photo of 1,000. Where one pass is exact none does: bilinear's weights are
    positive, so that the other pass's error never grows.
    """
    rows, columns = image.shape[:2]
    if rows == height or columns == width:
        return resize_torch(image, height, width, "bilinear")
    if vertical_first(rows, columns, height, width):
        return resize_torch(resize_rows(image, height, "bilinear"), height, width, "bilinear")
    return resize_rows(resize_torch(image, rows, width, "bilinear"), height, "bilinear")


def resize_bicubic(image: UInt8Array, height: int, width: int) -> UInt8Array:
    """Bicubic within 1/255 of Pillow: an exact first pass, torch's second.

    torch's 16-bit weights leave one pass at most 1 off; two of them, and bicubic's negative weights, made 2 of it
    in every tenth photo.
    """
    rows, columns = image.shape[:2]
    if rows != height and columns != width:
        if vertical_first(rows, columns, height, width):
            image = resize_rows(image, height, "bicubic")
        else:
            image = transposed(resize_rows(transposed(image), width, "bicubic"))
    return resize_torch(image, height, width, "bicubic")


def _simple_ratio(size: int, new_size: int) -> bool:
    return new_size <= _SIMPLE_RATIO * math.gcd(size, new_size)


def resize_rows(image: UInt8Array, height: int, interpolation: str) -> UInt8Array:
    """The rows resized as Pillow's pass down the columns does, ``"bilinear"`` or ``"bicubic"``.

    Pillow adds up whole numbers: its weights are multiples of 2**-22. Such sums are exact in float64, in any order:
    bit-equal. float32 is taken where the image shrinks in a ratio that isn't simple, in half the time: it rounds one
    value of 6,000 the other way.
    """
    rows = image.shape[0]
    exactly = height > rows or _simple_ratio(rows, height)
    weights = _row_weights(rows, height, interpolation, torch.float64 if exactly else torch.float32)
    half = torch.full((1, 1), 0.5, dtype=weights.dtype)
    flat = _tensor(image).reshape(rows, -1)
    result = np.empty((height, flat.shape[1]), dtype=np.uint8)
    block = min(max(1, _BLOCK_ELEMENTS // rows), flat.shape[1])
    for start in range(0, flat.shape[1], block):
        sums = torch.addmm(half, weights, flat[:, start : start + block].to(weights.dtype))
        if interpolation == "bicubic":
            sums.clamp_(0, 255)  # bilinear's weights are positive
        result[:, start : start + block] = sums.numpy()  # cut off
    return result.reshape(height, *image.shape[1:])


def resize_torch(image: UInt8Array, height: int, width: int, interpolation: str) -> UInt8Array:
    """Bilinear or bicubic through torch's antialiased uint8 kernel.

    Resizing one axis it differs from Pillow by at most 1/255: Pillow's weights have 22 bits and torch's 16.
    """
    tensor = _tensor(image)
    # Permuting after the batch axis is added keeps the strides recognisable as channels-last.
    batch = tensor[None, None] if image.ndim == 2 else tensor[None].permute(0, 3, 1, 2)
    batch = torch.nn.functional.interpolate(batch, size=(height, width), mode=interpolation, antialias=True)
    result: UInt8Array = (batch[0, 0] if image.ndim == 2 else batch[0].permute(1, 2, 0)).numpy()
    return result


def _tensor(image: UInt8Array) -> torch.Tensor:
    """The array as a tensor that nobody writes to; torch warns of undefined behaviour where nobody may, either."""
    return torch.from_numpy(image if image.flags.writeable else copied(image))


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


@lru_cache(maxsize=1024)
def _row_weights(rows: int, height: int, interpolation: str, dtype: torch.dtype) -> torch.Tensor:
    """Pillow's weights as a sparse ``(height, rows)`` matrix (``precompute_coeffs`` in Resample.c).

    The filter is stretched by the step between new rows where the image shrinks.
    """
    kernel, radius = _KERNELS[interpolation]
    step = rows / height
    stretch = max(step, 1.0)
    reach = radius * stretch
    centre = (np.arange(height) + 0.5) * step
    first = np.maximum((centre - reach + 0.5).astype(int), 0)
    last = np.minimum((centre + reach + 0.5).astype(int), rows)
    source = first[:, None] + np.arange((last - first).max())
    weights = kernel((source - centre[:, None] + 0.5) * (1 / stretch))
    weights[source >= last[:, None]] = 0
    weights /= weights.sum(axis=1, keepdims=True)
    weights = np.floor(weights * _PILLOW_ONE + 0.5) / _PILLOW_ONE
    new, tap = np.nonzero(weights)
    return torch.sparse_coo_tensor(
        torch.from_numpy(np.stack([new, source[new, tap]])),
        torch.from_numpy(weights[new, tap]).to(dtype),
        (height, rows),
        is_coalesced=True,
        check_invariants=False,
    )


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
