"""Boxes of a dataset's sample, in the format that an albumentations transform takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fastpipe.datasets.target_values import Boxes
from fastpipe.errors import PlanError
from fastpipe.index.table import Array
from fastpipe.interop import Foreign

_FORMATS = {"pascal_voc": "XYXY", "coco": "XYWH", "yolo": "CXCYWH", "albumentations": "XYXY"}
_OF_THE_SIZE = frozenset({"albumentations", "yolo"})
"""Formats of boxes whose coordinates are fractions of the image's width and height."""


def boxes_in_format(boxes: Boxes, size: tuple[int, int], transform: object) -> Array:
    """Converts boxes ``(N, 4)`` to the format that the transform's ``bbox_params`` name.

    Raises:
        PlanError: the transform has no ``bbox_params``, or the boxes are of one of torchvision's rotated formats.
    """
    wanted, given = bbox_format(transform), boxes.format_name
    if given not in _FORMATS.values():
        raise PlanError(f"Boxes of the format {boxes.format!r} can't be albumentations': give XYXY, XYWH or CXCYWH.")
    rows = boxes.numbers().numpy().reshape(-1, 4)
    if given == _FORMATS[wanted] and wanted not in _OF_THE_SIZE:
        return np.asarray(rows)
    first, second = rows[:, :2], rows[:, 2:]
    if given == "XYWH":
        second = first + second
    elif given == "CXCYWH":
        first, second = first - second / 2, first + second / 2
    if wanted == "coco":
        second = second - first
    elif wanted == "yolo":
        first, second = (first + second) / 2, second - first
    corners = np.concatenate([first, second], axis=1)
    return corners / np.array([size[1], size[0]] * 2) if wanted in _OF_THE_SIZE else corners


def bbox_format(transform: object) -> str:
    """The format of a transform's boxes."""
    processor = getattr(transform, "processors", {}).get("bboxes")
    if processor is None:
        raise PlanError(
            "this sample has boxes, and the transform doesn't say in which format: give it "
            'A.Compose(…, bbox_params=A.BboxParams("pascal_voc", label_fields=["labels"])).'
        )
    return str(processor.params.format)


def label_fields(transform: Foreign) -> Sequence[str]:
    """The names of the transform's arguments that hold one value for each box, such as labels."""
    bbox_format(transform)
    fields: Sequence[str] = transform.processors["bboxes"].params.label_fields or ()
    return fields
