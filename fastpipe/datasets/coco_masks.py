"""COCO's masks, decoded and cropped to a region."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fastpipe import core
from fastpipe.core.masks import draw_runs
from fastpipe.errors import DatasetError
from fastpipe.types import Box

_LONGEST = 1 << 16
"""Sides from this length on are left to pycocotools."""


def mask_size(parts: Sequence[object], size: tuple[int, int]) -> tuple[int, int]:
    """The height and width of an image's masks: run lengths have their own, polygons have the image's.

    Raises:
        RuntimeError: the masks differ in size, as from ``torch.stack``.
    """
    sizes = {_size_of(part, size) for part in parts}
    if len(sizes) > 1:
        raise RuntimeError(f"its masks differ in size: {sorted(sizes)}")
    return sizes.pop()


def _size_of(part: object, size: tuple[int, int]) -> tuple[int, int]:
    if isinstance(part, list):
        return size
    own = part.get("size") if isinstance(part, dict) else None
    if isinstance(own, list) and len(own) == 2 and all(type(side) is int and side > 0 for side in own):
        return own[0], own[1]
    height, width = _decoded(part, size).shape  # raises for most others, as pycocotools does
    return height, width


def load_masks(
    segmentations: Sequence[object], size: tuple[int, int], box: Box, keep: torch.Tensor | None
) -> torch.Tensor:
    """Makes a box of the masks of an image's annotations: uint8 ``(N, h, w)``, values 0 and 1.

    Args:
        segmentations: as in the file: polygons, or run lengths as text or as numbers.
        size: the masks' height and width.
        box: the region to return of each mask.
        keep: a tensor of the indices of the masks to return; None for all.

    Raises:
        DatasetError: pycocotools, which draws polygons, isn't installed.
        ValueError: a segmentation is neither a dict nor a list, or its mask is of another size. pycocotools raises
            others.
    """
    places = range(len(segmentations)) if keep is None else keep.tolist()
    masks = np.empty((len(places), box.height, box.width), np.uint8)
    for mask, place in zip(masks, places, strict=True):
        whole = _decoded(segmentations[place], size)
        if whole.shape != size:
            raise ValueError(f"its mask is {whole.shape[0]}×{whole.shape[1]}, and others {size[0]}×{size[1]}")
        mask[:] = whole[box.top : box.bottom, box.left : box.right]
    return torch.from_numpy(masks)


def _decoded(part: object, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Decodes a segmentation to the whole mask; run lengths to their own size, polygons to the image's."""
    if not isinstance(part, (dict, list)):
        raise ValueError(f"COCO segmentation expected to be a dict or a list, got {type(part)}")
    runs: Any = part
    if isinstance(part, list):
        runs = _pycocotools().merge(_pycocotools().frPyObjects(part, *size))
    elif not isinstance(part["counts"], str):
        runs = _pycocotools().frPyObjects(part, *size)
    counts, own = runs["counts"], tuple(runs["size"])
    text = counts.encode() if isinstance(counts, str) else counts
    if core.available() and len(own) == 2 and all(type(side) is int and 0 < side < _LONGEST for side in own):
        drawn: NDArray[np.uint8] = np.empty(own, np.uint8, order="F")
        if draw_runs(text, drawn.ctypes.data, drawn.size):
            return drawn
    mask: NDArray[np.uint8] = _pycocotools().decode(runs)
    if (length := _length_of(text)) != mask.size:  # pycocotools leaves the rest of the mask undefined
        raise ValueError(f"its run lengths are {length} pixels, and its mask has {mask.size}")
    return mask


def _length_of(text: bytes) -> int:
    """The sum of the run lengths in pycocotools' text; see `core/src/masks.c`."""
    runs: list[int] = []
    number = shift = 0
    for character in text:
        bits = character - 48
        number |= (bits & 0x1F) << shift
        shift += 5
        if not bits & 0x20:
            number -= (bits & 0x10) << (shift - 4)
            runs.append(number + (runs[-2] if len(runs) > 2 else 0))
            number = shift = 0
    return sum(runs)


def _pycocotools() -> Any:
    try:
        return importlib.import_module("pycocotools.mask")
    except ImportError as error:
        raise DatasetError(
            "pycocotools, which turns COCO's polygons into masks, isn't installed: pip install pycocotools."
        ) from error
