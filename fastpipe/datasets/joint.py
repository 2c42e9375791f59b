"""Datasets whose transforms see the image and its targets together: detection, segmentation, key points."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils._pytree import tree_map

from fastpipe import readers
from fastpipe.datasets.bad_file_policy import BadFileHandler
from fastpipe.datasets.base import ImageDataset
from fastpipe.datasets.joint_stages import JointStages, TargetStages, v2_samples, with_masks
from fastpipe.datasets.options import ImageOptions, Unpack, with_options
from fastpipe.datasets.standard_transform import StandardTransform, is_standard
from fastpipe.errors import DatasetError, PlanError
from fastpipe.transforms.pipeline import Pipeline
from fastpipe.types import Box, Recipe

__all__ = ["Boxes", "JointDataset", "KeyPoints", "MaskFile", "SampleDataset", "collate_fn", "placed"]


@dataclass(frozen=True, slots=True)
class Boxes:
    """Boxes on the sample's image: ``tv_tensors.BoundingBoxes`` once the image's size is known.

    Attributes:
        data: ``(N, 4)``, an array, a tensor or lists; what it is made of decides the dtype, as in torch.
        format: ``"XYXY"``, ``"XYWH"`` or ``"CXCYWH"``, or one of torchvision's rotated formats.
    """

    data: Any
    format: str = "XYXY"


@dataclass(frozen=True, slots=True)
class KeyPoints:
    """Points on the sample's image: ``tv_tensors.KeyPoints`` once the image's size is known.

    Attributes:
        data: ``(…, 2)``, x and y.
    """

    data: Any


@dataclass(frozen=True, slots=True)
class MaskFile:
    """A mask in an image file: a ``tv_tensors.Mask`` ``(1, H, W)`` of the file's values, class numbers in most.

    The shape is that of ``tv_tensors.Mask(PIL.Image.open(path))``; ``tv_tensors.Mask`` of an array has the array's.

    It is as large as the sample's image. It's read behind the draws, and only what is left of it is transformed.

    Attributes:
        path: of a gray or palette image, such as PNG.
    """

    path: str | os.PathLike[str]

    def load(self, box: Box, keep: Any) -> torch.Tensor:
        part = self._part(box)[None]
        chosen = part if keep is None else part[keep.numpy()]
        return torch.from_numpy(np.array(chosen, order="C"))

    def _part(self, box: Box) -> Any:
        """A box of the file's values, as Pillow reads them."""
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


def collate_fn(samples: Sequence[Any]) -> tuple[Any, ...]:
    """Collates detection samples: the images as one tuple, the targets as another, since neither has one size."""
    return tuple(zip(*samples, strict=True))


class JointDataset(ImageDataset):
    """Base of the datasets that take ``transforms(image, target)``; a subclass says what a sample is, in `sample`.

    Attributes:
        transforms: as given; or ``transform`` and ``target_transform`` as one, as torchvision has them.
    """

    transforms: Any

    _fastpipe_spreads_targets = False
    """A sample is the image and each of its targets, where nothing sees both; else the image and one target."""

    @with_options(ImageOptions)
    def __init__(
        self,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        transforms: Callable[..., Any] | None = None,
        **options: Unpack[ImageOptions],
    ) -> None:
        if transforms is not None and (transform is not None or target_transform is not None):
            raise ValueError("Only transforms or transform/target_transform can be passed as argument")
        if is_standard(transforms):
            both: Any = transforms
            transform, target_transform, transforms = both.transform, both.target_transform, None
        super().__init__(transform, target_transform, **options)
        if transforms is not None:
            self.transforms = transforms

    @property
    def _fastpipe_joint(self) -> Callable[..., Any] | None:
        """The transform that sees image and target together; None if each has its own, or none."""
        return None if isinstance(self.transforms, StandardTransform) else self.transforms

    def _fastpipe_number(self, index: int) -> int:
        """A sample's number from the front."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        return index + len(self) if index < 0 else index

    def targets_of(self, target: Any, size: tuple[int, int]) -> tuple[Any, ...]:
        """The arguments of `transforms` beside the image, by what `sample` says and the image's ``(height, width)``.

        Masks may be stand-ins; `Boxes`, `KeyPoints` and `MaskFile` become torchvision's classes.
        """
        return (placed(target, size),)

    def targets_at(self, index: int, size: tuple[int, int]) -> tuple[Any, ...]:
        """`targets_of` a sample, masks made: what `transforms` takes where nothing is planned."""
        return with_masks(self.targets_of(self.sample(index)[1], size))

    @property
    def pipeline(self) -> Pipeline:
        """The compiled transforms; see `ImageDataset.pipeline`."""
        joint = self._fastpipe_joint
        return super().pipeline if joint is None else self._fastpipe_compiled(joint, v2_alone=True)

    def _fastpipe_stages(self, pipeline: Pipeline, policy: BadFileHandler, options: dict[str, Any]) -> Any:
        kind = TargetStages if self._fastpipe_joint is None else JointStages
        dataset = weakref.proxy(self)  # which holds the stages
        return kind(
            pipeline,
            self._fastpipe_decoding,
            policy,
            self.target_transform,
            targets_of=lambda target, size: dataset.targets_of(target, size),
            spreads_targets=self._fastpipe_spreads_targets,
            **options,
        )

    def replay(self, recipe: Recipe, index: int | None = None) -> tuple[Any, Any]:
        """As `ImageDataset.replay`, where there are no joint transforms: a recipe says nothing of boxes and masks."""
        if self._fastpipe_joint is None:
            return super().replay(recipe, index)
        raise PlanError("a recipe says nothing of boxes and masks: take dataset[index] with a seed, which repeats.")


def placed(target: Any, size: tuple[int, int]) -> Any:
    """A target with `Boxes` and the like as torchvision's classes, on an image of that ``(height, width)``."""

    def place(leaf: Any) -> Any:
        if isinstance(leaf, Boxes):
            return v2_samples().box_tensor(leaf.data, leaf.format, size)
        if isinstance(leaf, KeyPoints):
            return v2_samples().keypoint_tensor(leaf.data, size)
        if isinstance(leaf, MaskFile):
            found = leaf.size()
            if found != size:
                raise DatasetError(
                    f"{os.fspath(leaf.path)} is a mask of {found[0]}×{found[1]}, and its image has {size[0]}×{size[1]}."
                )
            return v2_samples().mask_stand_in(leaf.load, 1, size)
        return leaf

    return tree_map(place, target)


class SampleDataset(JointDataset):
    """A dataset of your own: a function says what a sample is, and v2 transforms see all of it.

    .. code:: python

        def sample(index):
            return f"{index}.jpg", {"boxes": fastpipe.Boxes(boxes[index]), "labels": labels[index],
                                    "mask": fastpipe.MaskFile(f"{index}.png")}

        train = fastpipe.SampleDataset(sample, 1000, transforms)
        image, target = train[0]

    Args:
        function: from an index to ``(path, …)``: the image's file, and whatever belongs to it: `Boxes`, `KeyPoints`,
            `MaskFile`, tensors, ``tv_tensors``, numbers, in dicts, lists and tuples. It is called once a sample, in
            the process or thread that loads it; it should pickle, keep what is large in mapped arrays, and draw nothing
            at random: that is the transforms' part.
        length: how many samples there are.
        transforms: takes the image and the rest, as many arguments as the function gives.
        options: those of `ImageFolder`: ``reader``, ``seed``, ``threads``, ``on_error``, ….

    Raises:
        DatasetError: the function gives something else, or the length is negative.
    """

    _fastpipe_spreads_targets = True

    @with_options(ImageOptions)
    def __init__(
        self,
        function: Callable[[int], tuple[Any, ...]],
        length: int,
        transforms: Callable[..., Any] | None = None,
        **options: Unpack[ImageOptions],
    ) -> None:
        super().__init__(transforms=transforms, **options)
        if length < 0:
            raise DatasetError(f"length={length}: give the number of samples.")
        self.function = function
        self.length = length

    def sample(self, index: int) -> tuple[str, Any]:
        made = self.function(self._fastpipe_number(index))
        if not isinstance(made, tuple) or not made or not isinstance(made[0], (str, bytes, os.PathLike)):
            raise DatasetError(
                f"the function gives {type(made).__name__} for sample {index}: give a tuple, the image's path first."
            )
        return os.fsdecode(made[0]), made[1:]

    def targets_of(self, target: Any, size: tuple[int, int]) -> tuple[Any, ...]:
        return tuple(placed(part, size) for part in target)

    def __len__(self) -> int:
        return self.length
