"""COCO's masks, of which only a region need be made."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from fastpipe.errors import DatasetError
from fastpipe.index.table import Array
from fastpipe.types import Box


def load_masks(segmentations: Sequence[Any], size: tuple[int, int], box: Box, keep: Any) -> torch.Tensor:
    """A box of the masks of an image's annotations, uint8 ``(N, h, w)`` of 0 and 1.

    Args:
        segmentations: as the file has them: polygons, or run lengths, as text or as numbers.
        size: the image's height and width.
        box: what is wanted of each mask.
        keep: a tensor of the places of those that are wanted; None for all.

    Raises:
        DatasetError: pycocotools, which draws polygons, isn't installed.
        ValueError: a segmentation is none.
    """
    places = range(len(segmentations)) if keep is None else keep.tolist()
    masks = np.empty((len(places), box.height, box.width), np.uint8)
    for mask, place in zip(masks, places, strict=True):
        mask[:] = _decoded_box(_run_lengths(segmentations[place], size), size, box)
    return torch.from_numpy(masks)


def _run_lengths(part: object, size: tuple[int, int]) -> Array:
    """A segmentation's run lengths, column by column, of zeros and ones in turn."""
    if isinstance(part, dict):
        counts = part["counts"]
        return _numbers(counts.encode()) if isinstance(counts, str) else np.asarray(counts, np.int64)
    if not isinstance(part, list):
        raise ValueError(f"COCO segmentation expected to be a dict or a list, got {type(part)}")
    try:
        masks = importlib.import_module("pycocotools.mask")
    except ImportError as error:
        raise DatasetError(
            "COCO's polygons are made masks by pycocotools, which isn't installed: pip install pycocotools."
        ) from error
    return _numbers(masks.merge(masks.frPyObjects(part, *size))["counts"])


def _numbers(text: bytes) -> Array:
    """COCO's text of run lengths: 5 bits a character, differences to the run before last (its ``rleFrString``)."""
    runs: list[int] = []
    value = shift = 0
    for character in text:
        bits = character - 48
        value |= (bits & 0x1F) << shift
        shift += 5
        if bits & 0x20:
            continue
        if bits & 0x10:
            value -= 1 << shift
        runs.append(value + runs[-2] if len(runs) > 2 else value)
        value = shift = 0
    return np.array(runs, np.int64)


def _decoded_box(runs: Array, size: tuple[int, int], box: Box) -> Array:
    """A box of the mask that runs stand for; what they don't reach is 0."""
    height = size[0]
    ends = np.cumsum(runs)
    first, last = box.left * height, box.right * height
    inside = np.clip(ends, first, last)
    lengths = np.diff(inside, prepend=first)
    values = np.zeros(last - first, np.uint8)
    content = np.repeat((np.arange(len(runs)) % 2).astype(np.uint8), lengths)
    values[: len(content)] = content
    columns = values.reshape(box.width, height)[:, box.top : box.bottom]
    region: Array = columns.T
    return region
