"""Boxes, key points and masks drawn on the picture of their sample."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

__all__ = ["marked"]

_COLORS = ((230, 60, 60), (60, 160, 230), (70, 190, 90), (240, 180, 40), (170, 90, 220), (240, 120, 200))


def marked(picture: Image.Image, targets: Any) -> Image.Image:
    """The picture with what ``tv_tensors`` in ``targets`` say: an outline a box, a point, a colour a mask or class.

    Args:
        picture: as large as the canvas of boxes and masks; others are left out.
        targets: of the sample, in lists, tuples and dicts of any depth.
    """
    if "torchvision.tv_tensors" not in sys.modules:
        return picture
    tv_tensors = importlib.import_module("torchvision.tv_tensors")
    leaves = importlib.import_module("torch.utils._pytree").tree_leaves(targets)
    size = (picture.height, picture.width)
    made = picture.copy()
    for leaf in leaves:
        if isinstance(leaf, tv_tensors.Mask) and tuple(leaf.shape[-2:]) == size and leaf.ndim in (2, 3):
            made = _covered(made, leaf.cpu().numpy())
    pen = ImageDraw.Draw(made)
    for leaf in leaves:
        if getattr(leaf, "canvas_size", None) != size:
            continue
        if isinstance(leaf, tv_tensors.BoundingBoxes):
            boxes = importlib.import_module("fastpipe.transforms.v2._samples").xyxy(leaf)
            for number, corners in enumerate(boxes.reshape(-1, boxes.shape[-1]).tolist()):
                if len(corners) == 4 and corners[2] > corners[0] and corners[3] > corners[1]:
                    pen.rectangle(corners, outline=_COLORS[number % len(_COLORS)], width=max(2, max(size) // 150))
        else:
            radius = max(2, max(size) // 100)
            for number, (x, y) in enumerate(leaf.reshape(-1, 2).tolist()):
                pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=_COLORS[number % len(_COLORS)])
    return made


def _covered(picture: Image.Image, masks: Any) -> Image.Image:
    """Half of each masked pixel's colour is the mask's; one mask of several values has a colour a value."""
    pixels = np.array(picture)
    planes = masks[None] if masks.ndim == 2 else masks
    if len(planes) == 1:
        planes = [planes[0] == value for value in np.unique(planes[0])[:256] if value]
    for number, plane in enumerate(planes):
        inside = np.asarray(plane) > 0
        pixels[inside] = (pixels[inside].astype(np.uint16) + _COLORS[number % len(_COLORS)]) // 2
    return Image.fromarray(pixels)
