"""Parameters of v2 transforms that depend on boxes: torchvision's draws, without a tensor for each number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import torch
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F
from torchvision.transforms.v2._utils import get_bounding_boxes, query_size

from fastpipe.rng.float32 import pack, unpack

Params: TypeAlias = dict[str, Any]
MakeParams: TypeAlias = "Callable[[v2.Transform, list[object]], Params | None]"
_FORMATS = tv_tensors.BoundingBoxFormat
_UPRIGHT = (_FORMATS.XYXY, _FORMATS.XYWH, _FORMATS.CXCYWH)


def _as_float32(value: float) -> float:
    """Rounds to float32; applied to a double's sum, product or quotient of float32s it gives the float32 result."""
    rounded: float = unpack(pack(value))[0]
    return rounded


_ROUNDING: dict[torch.dtype, Callable[[float], float]] = {torch.float32: _as_float32, torch.float64: float}


def iou_crop(transform: v2.RandomIoUCrop, flat_inputs: list[object]) -> Params | None:
    """Parameters of ``RandomIoUCrop``; its trials compute with Python's numbers, rounded as tensors are.

    Returns:
        The result of ``make_params``; None, before anything is drawn, if torchvision's code has to draw.
    """
    boxes = get_bounding_boxes(flat_inputs)
    if boxes.dtype not in _ROUNDING or boxes.ndim != 2 or boxes.requires_grad or boxes.format not in _UPRIGHT:
        return None
    probe = torch.empty(0)
    if probe.dtype != torch.float32 or {probe.device.type, boxes.device.type} != {"cpu"}:
        return None
    if not all(isinstance(option, (int, float)) for option in transform.options):
        return None
    height, width = query_size(flat_inputs)
    found = _Boxes.of(boxes)
    smallest = _as_float32(transform.min_scale)
    span = _as_float32(transform.max_scale - transform.min_scale)
    while True:
        least = transform.options[int(torch.randint(low=0, high=len(transform.options), size=(1,)))]
        if least >= 1.0:  # keeps the image as it is
            return {}
        for _ in range(transform.trials):
            scales = [_as_float32(smallest + _as_float32(span * drawn)) for drawn in torch.rand(2).tolist()]
            new_width, new_height = int(_as_float32(width * scales[0])), int(_as_float32(height * scales[1]))
            if not transform.min_aspect_ratio <= new_width / new_height <= transform.max_aspect_ratio:
                continue
            across, down = torch.rand(2).tolist()
            left = int(_as_float32((width - new_width) * across))
            top = int(_as_float32((height - new_height) * down))
            if new_width == 0 or new_height == 0:
                continue
            within = found.within(left, top, left + new_width, top + new_height, least)
            if within is not None:
                place = {"top": top, "left": left, "height": new_height, "width": new_width}
                return {**place, "is_within_crop_area": torch.tensor(within)}


class _Boxes(NamedTuple):
    """Boxes as Python's numbers.

    Attributes:
        corners: left, top, right and bottom of each box.
        centres: x and y of each box's centre.
        areas: the area of each box.
        rounded: rounds a number to the boxes' dtype.
    """

    corners: list[tuple[float, float, float, float]]
    centres: list[tuple[float, float]]
    areas: list[float]
    rounded: Callable[[float], float]

    @classmethod
    def of(cls, boxes: tv_tensors.BoundingBoxes) -> _Boxes:
        """The numbers of a ``tv_tensors.BoundingBoxes``, as ``RandomIoUCrop`` and ``box_iou`` compute them."""
        corners = F.convert_bounding_box_format(boxes.as_subclass(torch.Tensor), boxes.format, _FORMATS.XYXY)
        centres = 0.5 * (corners[:, :2] + corners[:, 2:])
        areas = (corners[:, 2:] - corners[:, :2]).prod(1)
        return cls(corners.tolist(), centres.tolist(), areas.tolist(), _ROUNDING[boxes.dtype])

    def within(self, left: int, top: int, right: int, bottom: int, least: float) -> list[bool] | None:
        """Tells for each box if its centre is in the crop; None if no such box overlaps it by an IoU of ``least``."""
        inside = [left < x < right and top < y < bottom for x, y in self.centres]
        if True not in inside:
            return None
        rounded = self.rounded
        least, area = rounded(least), rounded((right - left) * (bottom - top))
        for is_inside, (x1, y1, x2, y2), own in zip(inside, self.corners, self.areas, strict=True):
            if is_inside:
                across, down = rounded(min(x2, right) - max(x1, left)), rounded(min(y2, bottom) - max(y1, top))
                common = rounded(max(across, 0.0) * max(down, 0.0))
                union = rounded(rounded(own + area) - common)
                if not union or rounded(common / union) >= least:
                    return inside
        return None


QUICK: dict[type, MakeParams] = {v2.RandomIoUCrop: iou_crop}
"""Faster versions of ``make_params`` by torchvision's class; they return None if torchvision's own has to run."""
