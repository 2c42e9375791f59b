"""Targets that belong to an image: boxes, key points, and masks in files."""

from __future__ import annotations

import os
import reprlib
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image

from fastpipe import readers
from fastpipe.errors import DatasetError
from fastpipe.index.table import Array
from fastpipe.types import Box

_BOX_FORMATS = {"XYXY": 4, "XYWH": 4, "CXCYWH": 4, "XYWHR": 5, "CXCYWHR": 5, "XYXYXYXY": 8}
"""The number of values of a box in each format."""


def _numbers(kind: str, data: object, size: int) -> torch.Tensor:
    """`data` as a tensor ``(…, size)``."""
    takes = f"give numbers of shape (…, {size}), as lists, an array or a tensor"
    try:
        numbers = torch.as_tensor(data)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DatasetError(f"{kind}({reprlib.repr(data)}): {takes}: {error}") from error
    if numbers.shape == (0,):
        return numbers.reshape(0, size)
    if numbers.ndim == 0 or numbers.shape[-1] != size:
        raise DatasetError(f"{kind} of shape {tuple(numbers.shape)}: {takes}.")
    return numbers


@dataclass(frozen=True, slots=True)
class Boxes:
    """Boxes on the sample's image: ``tv_tensors.BoundingBoxes`` once the image's size is known.

    Attributes:
        data: ``(N, 4)``, an array, a tensor or lists; the dtype is that of ``torch.as_tensor(data)``.
        format: ``"XYXY"``, ``"XYWH"`` or ``"CXCYWH"``, or one of torchvision's rotated formats.

    Raises:
        DatasetError: the format isn't one of these.
    """

    data: object
    format: str = "XYXY"

    def __post_init__(self) -> None:
        if self.format_name not in _BOX_FORMATS:
            raise DatasetError(f"Boxes(…, {self.format!r}): give one of the formats {', '.join(_BOX_FORMATS)}.")

    @property
    def format_name(self) -> str:
        """The name of `format`, which may be in lower case or torchvision's enum."""
        return str(getattr(self.format, "name", self.format)).upper()

    def numbers(self) -> torch.Tensor:
        """`data` as a tensor; an empty list as ``(0, 4)``.

        Raises:
            DatasetError: `data` isn't boxes of the format.
        """
        return _numbers("Boxes", self.data, _BOX_FORMATS[self.format_name])


@dataclass(frozen=True, slots=True)
class KeyPoints:
    """Points on the sample's image: ``tv_tensors.KeyPoints`` once the image's size is known.

    Attributes:
        data: ``(…, 2)``, x and y.
    """

    data: object

    def numbers(self) -> torch.Tensor:
        """`data` as a tensor; an empty list as ``(0, 2)``.

        Raises:
            DatasetError: `data` isn't points.
        """
        return _numbers("KeyPoints", self.data, 2)


@dataclass(frozen=True, slots=True)
class MaskFile:
    """A mask in an image file: a ``tv_tensors.Mask`` ``(1, H, W)`` of the file's values, usually class numbers.

    The shape is that of ``tv_tensors.Mask(PIL.Image.open(path))``.

    The mask is as large as the sample's image. It is read after the draws, and only the region that they leave is used.

    Attributes:
        path: the path of a gray or palette image, such as a PNG.
    """

    path: str | os.PathLike[str]

    def load(self, box: Box, keep: torch.Tensor | None) -> torch.Tensor:
        part = self.values(box)[None]
        chosen = part if keep is None else part[keep.numpy()]
        return torch.from_numpy(np.array(chosen, order="C"))

    def values(self, box: Box) -> Array:
        """Reads a box of the file's values, ``(H, W)``, as Pillow gives them."""
        header = readers.read_header(self.path)
        gray = header.color_space == "L" and header.bit_depth in (2, 4, 8)
        if header.format == "PNG" and (gray or header.color_space == "P"):
            return readers.read_image(self.path, region=box, mode="P")
        with Image.open(self.path) as image:
            values = np.asarray(image)
        if values.ndim == 3:
            raise DatasetError(f"{os.fspath(self.path)} has {values.shape[2]} channels: a mask has one value a pixel.")
        return np.array(values[box.top : box.bottom, box.left : box.right])

    def size(self) -> tuple[int, int]:
        header = readers.read_header(self.path)
        return header.height, header.width

    def check_size(self, size: tuple[int, int]) -> None:
        """Raises DatasetError if the mask isn't as large as its image, whose ``(height, width)`` is given."""
        own_size = self.size()
        if own_size != size:
            raise DatasetError(
                f"{os.fspath(self.path)} is a mask of {own_size[0]}×{own_size[1]}, and its image has "
                f"{size[0]}×{size[1]}."
            )
