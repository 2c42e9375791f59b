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


def load_masks(
    segmentations: Sequence[object], size: tuple[int, int], box: Box, keep: torch.Tensor | None
) -> torch.Tensor:
    """Makes a box of the masks of an image's annotations: uint8 ``(N, h, w)``, values 0 and 1.

    Args:
        segmentations: as in the file: polygons, or run lengths as text or as numbers.
        size: the image's height and width.
        box: the region to return of each mask.
        keep: a tensor of the indices of the masks to return; None for all.

    Raises:
        DatasetError: pycocotools, which draws polygons, isn't installed.
        ValueError: a segmentation is neither a dict nor a list.
    """
    places = range(len(segmentations)) if keep is None else keep.tolist()
    masks = np.empty((len(places), box.height, box.width), np.uint8)
    for mask, place in zip(masks, places, strict=True):
        mask[:] = _decoded(segmentations[place], size)[box.top : box.bottom, box.left : box.right]
    return torch.from_numpy(masks)


def _decoded(part: object, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Decodes a segmentation to the whole mask."""
    if not isinstance(part, (dict, list)):
        raise ValueError(f"COCO segmentation expected to be a dict or a list, got {type(part)}")
    runs: Any = part
    if isinstance(part, list):
        runs = _pycocotools().merge(_pycocotools().frPyObjects(part, *size))
    elif isinstance(part["counts"], list):
        runs = _pycocotools().frPyObjects(part, *size)
    counts = runs["counts"]
    text = counts.encode() if isinstance(counts, str) else counts
    mask: NDArray[np.uint8] = np.empty(size, np.uint8, order="F")
    if not (core.available() and draw_runs(text, mask.ctypes.data, mask.size)):
        mask = _pycocotools().decode(runs)
    return mask


def _pycocotools() -> Any:
    try:
        return importlib.import_module("pycocotools.mask")
    except ImportError as error:
        raise DatasetError(
            "pycocotools, which turns COCO's polygons into masks, isn't installed: pip install pycocotools."
        ) from error
