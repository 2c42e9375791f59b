"""Warps of uint8 arrays as Pillow does them: rotation, affine, perspective; elastic as torchvision does it.

Arrays are uint8 ``(H, W)`` or ``(H, W, C)`` with up to four channels, may be non-contiguous views, and are never
changed. Pillow maps each new pixel's centre to a point ``(x, y)`` of the old image, with pixel 0 spanning 0 to 1. A
point outside the image gives the fill colour as it is; a point inside is interpolated from pixels, edge pixels
repeated, so that, unlike in cv2 and in torchvision's tensor backend, the fill never bleeds into the image.

Nearest neighbour agrees with Pillow but for about one pixel in 100,000, whose point falls on the edge between two
pixels in float32; bilinear is within 1/255 of Pillow. Bicubic is Pillow's own, which neither cv2 nor torch has.

That takes OpenCV 5: OpenCV 4 cuts fractions of a pixel to 1/32, which moves strong edges by up to 20/255. Beside it
Pillow warps, and torch displaces.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from fastpipe.transforms.kernels._arrays import UInt8Array, channels, copied, like, through_pillow, transposed

__all__ = ["affine", "elastic", "perspective", "rotate"]

Fill = float | Sequence[float] | None
_FINE = int(cv2.__version__.partition(".")[0]) >= 5
# cv2 keeps source coordinates in 16 bits.
_CV2_MAX_SIDE = 32767
# Half of the step of Pillow's 16 bits of fraction.
_HALF_STEP = 2.0**-17
_NEAREST = cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP
_PILLOW_FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}


def affine(image: UInt8Array, matrix: Sequence[float], interpolation: str = "nearest", fill: Fill = None) -> UInt8Array:
    """``Image.transform(size, AFFINE, matrix, …)``.

    Args:
        image: uint8 ``(H, W)`` or ``(H, W, C)``.
        matrix: ``a, b, c, d, e, f``: the new pixel whose centre is ``(x, y)`` shows the point
            ``(a x + b y + c, d x + e y + f)``.
        interpolation: ``"nearest"``, ``"bilinear"`` or ``"bicubic"``.
        fill: a number, or one a channel; None for 0.
    """
    return _affine(image, list(matrix), image.shape[0], image.shape[1], interpolation, _fill_values(image, fill))


def rotate(
    image: UInt8Array,
    angle: float,
    interpolation: str = "nearest",
    expand: bool = False,
    center: Sequence[float] | None = None,
    fill: Fill = None,
) -> UInt8Array:
    """``Image.rotate(angle, …)``: counter-clockwise, in degrees.

    Args:
        image: uint8 ``(H, W)`` or ``(H, W, C)``.
        angle: degrees.
        interpolation: ``"nearest"``, ``"bilinear"`` or ``"bicubic"``.
        expand: whether the result grows to hold all of the image.
        center: the fixed point ``(x, y)``; the image's centre if None.
        fill: a number, or one a channel; None for 0.
    """
    height, width = image.shape[:2]
    angle %= 360.0
    if center is None:
        # Pillow turns these without resampling.
        if angle == 0:
            return copied(image)
        if angle == 180:
            return np.ascontiguousarray(image[::-1, ::-1])
        if angle in (90, 270) and (expand or height == width):
            return np.ascontiguousarray(np.rot90(image, 1 if angle == 90 else 3))
    matrix, new_height, new_width = _rotation(height, width, angle, expand, center)
    return _affine(image, matrix, new_height, new_width, interpolation, _fill_values(image, fill))


def perspective(
    image: UInt8Array, coeffs: Sequence[float], interpolation: str = "bilinear", fill: Fill = None
) -> UInt8Array:
    """``Image.transform(size, PERSPECTIVE, coeffs, …)``.

    Args:
        image: uint8 ``(H, W)`` or ``(H, W, C)``.
        coeffs: ``a … h``: the new pixel whose centre is ``(x, y)`` shows the point
            ``((a x + b y + c) / n, (d x + e y + f) / n)`` with ``n = g x + h y + 1``.
        interpolation: ``"nearest"``, ``"bilinear"`` or ``"bicubic"``.
        fill: a number, or one a channel; None for 0.
    """
    height, width = image.shape[:2]
    matrix = np.array([*coeffs, 1.0], dtype=np.float64).reshape(3, 3)
    corners = matrix[2] @ np.array([[0, width, 0, width], [0, 0, height, height], [1, 1, 1, 1]])
    # Where n changes its sign inside the image, the rows of visible points are no longer one span each.
    if interpolation == "bicubic" or corners.min() <= 0 or not _fits_cv2(image):
        return _warp_pillow(
            image, Image.Transform.PERSPECTIVE, coeffs, height, width, interpolation, _fill_values(image, fill)
        )
    return _warp_cv2(image, matrix, height, width, interpolation, _fill_values(image, fill))


def elastic(
    image: UInt8Array,
    displacement: torch.Tensor | npt.NDArray[np.float32],
    interpolation: str = "bilinear",
    fill: Fill = None,
) -> UInt8Array:
    """Each new pixel shows the point that its displacement leads to; torchvision's ``elastic_transform``.

    Args:
        image: uint8 ``(H, W)`` or ``(H, W, C)``, no side above 32,767.
        displacement: float32 ``(1, H, W, 2)``, (x, y), where 2 is the whole width or height.
        interpolation: ``"nearest"`` or ``"bilinear"``.
        fill: a number, or one a channel; None for 0 that is blended once, where a number is blended twice at the
            edges, as in torchvision.
    """
    if image.size == 0:
        return copied(image)
    height, width = image.shape[:2]
    shifts = np.asarray(displacement, dtype=np.float32).reshape(height, width, 2)
    if not _FINE:
        return _elastic_torch(image, shifts, interpolation, fill)
    map_x = shifts[..., 0] * np.float32(width / 2) + np.arange(width, dtype=np.float32)
    map_y = shifts[..., 1] * np.float32(height / 2) + np.arange(height, dtype=np.float32)[:, None]
    values = _fill_values(image, fill)
    if interpolation == "nearest":
        warped = cv2.remap(image, map_x, map_y, cv2.INTER_NEAREST, borderMode=cv2.BORDER_CONSTANT, borderValue=values)
        return like(warped, image)
    warped = like(cv2.remap(image, map_x, map_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT), image)
    if fill is not None:
        ones = np.ones((height, width), dtype=np.float32)
        covered = cv2.remap(ones, map_x, map_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT)
        edge = np.nonzero(covered < 1)
        weight = covered[edge] if image.ndim == 2 else covered[edge][:, None]
        blended = warped[edge] * weight + (1 - weight) * np.asarray(values[: channels(image)], dtype=np.float32)
        warped[edge] = np.rint(blended).astype(np.uint8)
    return warped


def _elastic_torch(image: UInt8Array, shifts: npt.NDArray[np.float32], interpolation: str, fill: Fill) -> UInt8Array:
    height, width = image.shape[:2]
    x, y = (torch.linspace((1 - side) / side, (side - 1) / side, side) for side in (width, height))
    grid = torch.stack((x.expand(height, width), y[:, None].expand(height, width)), dim=-1) + torch.from_numpy(shifts)
    planes = np.moveaxis(image.reshape(height, width, -1), -1, 0).astype(np.float32)
    if fill is not None:
        planes = np.concatenate([planes, np.ones((1, height, width), np.float32)])
    sampled = torch.nn.functional.grid_sample(
        torch.from_numpy(planes)[None], grid[None], interpolation, "zeros", align_corners=False
    )
    result = sampled[0].numpy()
    if fill is not None:
        result, covered = result[:-1], result[-1]
        color = np.asarray(_fill_values(image, fill)[: len(result)], np.float32)[:, None, None]
        if interpolation == "nearest":
            result = np.where(covered < 0.5, color, result)
        else:
            result = result * covered + (1 - covered) * color
    shown: UInt8Array = np.ascontiguousarray(np.moveaxis(np.rint(result).astype(np.uint8), 0, -1))
    return shown.reshape(image.shape)


def _affine(
    image: UInt8Array, matrix: list[float], height: int, width: int, interpolation: str, fill: list[float]
) -> UInt8Array:
    if interpolation == "bicubic" or not _fits_cv2(image):
        return _warp_pillow(image, Image.Transform.AFFINE, matrix, height, width, interpolation, fill)
    if interpolation == "nearest":
        if matrix[1] == 0 and matrix[3] == 0:
            return _scale_nearest(image, matrix, height, width, fill)
        return _affine_nearest(image, matrix, height, width, fill)
    return _warp_cv2(image, np.array([*matrix, 0.0, 0.0, 1.0]).reshape(3, 3), height, width, interpolation, fill)


def _warp_cv2(
    image: UInt8Array, matrix: npt.NDArray[np.float64], height: int, width: int, interpolation: str, fill: list[float]
) -> UInt8Array:
    """Pillow's warp with that matrix of pixel-edge coordinates; ``n`` must be positive in the new image."""
    centered = _centered(matrix)
    size = (width, height)
    if interpolation == "nearest":
        centered[:2] += _HALF_STEP * centered[2]
        return like(cv2.warpPerspective(image, centered, size, flags=_NEAREST, borderValue=fill), image)
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    if centered[2, 0] == 0 and centered[2, 1] == 0:
        warped = cv2.warpAffine(image, centered[:2], size, flags=flags, borderMode=cv2.BORDER_REPLICATE)
    else:
        warped = cv2.warpPerspective(image, centered, size, flags=flags, borderMode=cv2.BORDER_REPLICATE)
    warped = like(warped, image)
    start, stop = _inside_spans(matrix, image.shape[0], image.shape[1], height, width)
    if start.max() == 0 and stop.min() == width:
        return warped
    columns = np.arange(width, dtype=np.int32)
    inside = ((columns >= start[:, None]) & (columns < stop[:, None])).view(np.uint8)
    result = np.zeros_like(warped)
    if any(fill):
        result[...] = fill[0] if image.ndim == 2 else np.asarray(fill[: channels(image)])
    return like(cv2.copyTo(warped, inside, result), image)


def _inside_spans(
    matrix: npt.NDArray[np.float64], rows: int, columns: int, height: int, width: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """For each new row, the first new column that shows a point of the image, and the first one after the last.

    Of ``0 <= (a x + b y + c) / n < columns`` and its like for rows, each side is linear in x along a row.
    """
    y = np.arange(height) + 0.5
    start = np.zeros(height)
    stop = np.full(height, float(width))
    for axis, extent in ((0, columns), (1, rows)):
        for slope, offset, strict in (
            (matrix[axis, 0], matrix[axis, 1] * y + matrix[axis, 2], False),
            (
                extent * matrix[2, 0] - matrix[axis, 0],
                (extent * matrix[2, 1] - matrix[axis, 1]) * y + extent * matrix[2, 2] - matrix[axis, 2],
                True,
            ),
        ):
            # slope * (x + 0.5) + offset >= 0, or > 0 where strict
            if slope == 0:
                stop[offset <= 0 if strict else offset < 0] = 0
                continue
            bound = -offset / slope - 0.5
            if slope > 0:
                np.maximum(start, np.floor(bound) + 1 if strict else np.ceil(bound), out=start)
            else:
                np.minimum(stop, np.ceil(bound) if strict else np.floor(bound) + 1, out=stop)
    return np.clip(start, 0, width).astype(np.int32), np.clip(stop, 0, width).astype(np.int32)


def _warp_pillow(
    image: UInt8Array,
    method: Image.Transform,
    coefficients: Sequence[float],
    height: int,
    width: int,
    interpolation: str,
    fill: list[float],
) -> UInt8Array:
    count = channels(image)
    if count == 2:
        planes = [
            _warp_pillow(image[..., i], method, coefficients, height, width, interpolation, [fill[i]]) for i in range(2)
        ]
        return np.stack(planes, axis=-1)
    color: Any = int(fill[0]) if count == 1 else tuple(int(value) for value in fill)
    resample = _PILLOW_FILTERS[interpolation]
    return through_pillow(
        image, lambda picture: picture.transform((width, height), method, coefficients, resample, fillcolor=color)
    )


def _affine_nearest(image: UInt8Array, matrix: list[float], height: int, width: int, fill: list[float]) -> UInt8Array:
    """Pillow's nearest neighbour, which works with 16 bits of fraction, rounded at the first pixel's centre.

    cv2 rounds halves to even where Pillow rounds down. All points of an axis are multiples of the largest power of
    two that its three numbers are multiples of, so half of that moves the points on an edge between two pixels off it
    and none across one. In a coarse matrix (quarter turns, whole numbers) many points lie on an edge, and the step is
    large enough for float32; in any other next to none do.
    """
    a, b, c, d, e, f = matrix
    offset_x, offset_y = c + (a + b) * 0.5, f + (d + e) * 0.5
    reach = max(abs(a) * width + abs(b) * height + abs(c), abs(d) * width + abs(e) * height + abs(f))
    nudge_x = nudge_y = _HALF_STEP
    # Where points lie too far out for 16 bits, Pillow keeps to double precision.
    if reach < 32768:
        a, b, offset_x, nudge_x = _fixed_point(a, b, offset_x)
        d, e, offset_y, nudge_y = _fixed_point(d, e, offset_y)
        if a == e == 1 and (height, width) == image.shape[:2]:
            if d == 0 and 0 <= offset_y < 1:
                return _shear_rows(image, np.floor(np.arange(height) * b + offset_x), fill)
            if b == 0 and 0 <= offset_x < 1:
                sheared = _shear_rows(transposed(image), np.floor(np.arange(width) * d + offset_y), fill)
                return transposed(sheared)
    offset_x += nudge_x - 0.5
    offset_y += nudge_y - 0.5
    centered = np.array([[a, b, offset_x], [d, e, offset_y]])
    return like(cv2.warpAffine(image, centered, (width, height), flags=_NEAREST, borderValue=fill), image)


def _shear_rows(image: UInt8Array, shifts: npt.NDArray[np.float64], fill: list[float]) -> UInt8Array:
    """Each row begins at a column of its own, outside the image too: whole rows are copied."""
    height, width = image.shape[:2]
    margin = int(min(np.abs(shifts).max(), width))
    wide = cv2.copyMakeBorder(image, 0, 0, margin, margin, cv2.BORDER_CONSTANT, value=fill)
    row_bytes, count = width * channels(image), channels(image)
    starts = (np.clip(shifts, -margin, margin).astype(np.intp) + margin) * count
    starts += np.arange(height) * wide.strides[0]
    windows = np.lib.stride_tricks.as_strided(wide.reshape(-1), (wide.size - row_bytes + 1, row_bytes), (1, 1))
    return windows[starts].reshape(image.shape)


def _fixed_point(a: float, b: float, c: float) -> tuple[float, float, float, float]:
    """The numbers rounded to 16 bits of fraction, and half of the power of two they share, 1/8 at most."""
    x, y, z = math.floor(a * 65536 + 0.5), math.floor(b * 65536 + 0.5), math.floor(c * 65536 + 0.5)
    bits = x | y | z | 1 << 14
    return x / 65536, y / 65536, z / 65536, (bits & -bits) / 131072


def _scale_nearest(image: UInt8Array, matrix: list[float], height: int, width: int, fill: list[float]) -> UInt8Array:
    """Nearest neighbour without turning or shearing: whole rows and columns move."""
    y = _scale_index(matrix[4], matrix[5], image.shape[0], height)
    x = _scale_index(matrix[0], matrix[2], image.shape[1], width)
    rows, columns = np.flatnonzero(y >= 0), np.flatnonzero(x >= 0)
    if any(fill):
        result = np.empty((height, width, *image.shape[2:]), dtype=np.uint8)
        result[...] = fill[0] if image.ndim == 2 else np.asarray(fill[: channels(image)])
    else:
        result = np.zeros((height, width, *image.shape[2:]), dtype=np.uint8)
    if rows.size and columns.size:
        y, x = y[rows], x[columns]
        source = image[y[0] : y[-1] + 1] if matrix[4] == 1 else np.take(image, y, axis=0)
        source = source[:, x[0] : x[-1] + 1] if matrix[0] == 1 else np.take(source, x, axis=1)
        result[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] = source
    return result


def _scale_index(step: float, offset: float, extent: int, size: int) -> npt.NDArray[np.intp]:
    """The source index of each new pixel, -1 outside; added up in double precision as Pillow does."""
    points = np.add.accumulate(np.concatenate([[offset + step * 0.5], np.full(size - 1, step)]))
    index = np.where(points < 0, -1, points).astype(np.intp)
    index[index >= extent] = -1
    return index


def _centered(matrix: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The matrix in cv2's coordinates, where pixel centres lie at whole numbers."""
    centered: npt.NDArray[np.float64] = matrix.copy()
    centered[:, 2] += 0.5 * (matrix[:, 0] + matrix[:, 1])
    centered[:2] -= 0.5 * centered[2]
    return centered


def _rotation(
    height: int, width: int, angle: float, expand: bool, center: Sequence[float] | None
) -> tuple[list[float], int, int]:
    """Matrix and size of ``Image.rotate``, in its order of operations, which decides the last bits."""
    center_x, center_y = (width / 2, height / 2) if center is None else (center[0], center[1])
    radians = -math.radians(angle)
    cosine, sine = round(math.cos(radians), 15), round(math.sin(radians), 15)
    a, b, d, e = cosine, sine, round(-math.sin(radians), 15), cosine
    c = a * -center_x + b * -center_y + 0.0 + center_x
    f = d * -center_x + e * -center_y + 0.0 + center_y
    if expand:
        corners = ((0, 0), (width, 0), (width, height), (0, height))
        xs = [a * x + b * y + c for x, y in corners]
        ys = [d * x + e * y + f for x, y in corners]
        new_width = math.ceil(max(xs)) - math.floor(min(xs))
        new_height = math.ceil(max(ys)) - math.floor(min(ys))
        shift_x, shift_y = -(new_width - width) / 2.0, -(new_height - height) / 2.0
        c, f = a * shift_x + b * shift_y + c, d * shift_x + e * shift_y + f
        height, width = new_height, new_width
    return [a, b, c, d, e, f], height, width


def _fits_cv2(image: UInt8Array) -> bool:
    return _FINE and image.size > 0 and max(image.shape[:2]) <= _CV2_MAX_SIDE


def _fill_values(image: UInt8Array, fill: Fill) -> list[float]:
    """One value a channel, cut to whole numbers as torchvision does for PIL images."""
    count = channels(image)
    values = [0.0] if fill is None else [fill] if isinstance(fill, (int, float)) else list(fill)
    return [float(int(value)) for value in (values * count if len(values) == 1 else values)]
