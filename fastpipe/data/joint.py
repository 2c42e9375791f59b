"""Datasets whose transforms see the image and its targets together: detection, segmentation, key points."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import is_not
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils._pytree import tree_map

from fastpipe import readers
from fastpipe.data.bad_files import is_bad_file, noted
from fastpipe.data.base import ImageDataset
from fastpipe.data.jobs import Job
from fastpipe.data.recipes import upright
from fastpipe.data.standard import StandardTransform
from fastpipe.errors import DatasetError, PlanError
from fastpipe.program import Pipeline, compile_pipeline, execute, flatten, lower, needed, to_pil
from fastpipe.program.laps import lap
from fastpipe.rng import drawing, keyed_globals, rewound_on
from fastpipe.types import Box, Generators, ImageShape, Recipe

__all__ = ["Boxes", "JointDataset", "KeyPoints", "MaskFile", "SampleDataset", "collate_fn", "placed", "v2_samples"]


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
        """What Pillow gives for the file, of that box."""
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
    """For detection: the images as one tuple and the targets as another, since neither has one size."""
    return tuple(zip(*samples, strict=True))


_SAMPLES = "fastpipe.transforms.v2._samples"


def v2_samples() -> Any:
    """fastpipe's part of v2, which needs torchvision."""
    return importlib.import_module(_SAMPLES)


class JointDataset(ImageDataset):
    """Base of the datasets that take ``transforms(image, target)``; a subclass says what a sample is, in `sample`.

    Attributes:
        transforms: as given; or ``transform`` and ``target_transform`` as one, as torchvision has them.
    """

    transforms: Any

    _draws_images_alone = False

    def __init__(
        self,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        transforms: Callable[..., Any] | None = None,
        **options: Any,
    ) -> None:
        if transforms is not None and (transform is not None or target_transform is not None):
            raise ValueError("Only transforms or transform/target_transform can be passed as argument")
        super().__init__(transform, target_transform, **options)
        if transforms is not None:
            self.transforms = transforms

    @property
    def _joint(self) -> Callable[..., Any] | None:
        """What sees image and target together; None where each has its own transform, or none."""
        return None if isinstance(self.transforms, StandardTransform) else self.transforms

    def _number(self, index: int) -> int:
        """A sample's number from the front."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        return self._from_front(index)

    def targets_of(self, target: Any, size: tuple[int, int]) -> tuple[Any, ...]:
        """What `transforms` takes beside the image, by what `sample` says and the image's ``(height, width)``.

        Masks may be stand-ins; `Boxes`, `KeyPoints` and `MaskFile` become torchvision's classes.
        """
        return (placed(target, size),)

    def targets_at(self, index: int, size: tuple[int, int]) -> tuple[Any, ...]:
        """`targets_of` a sample, masks made: what `transforms` takes where nothing is planned."""
        return self._made_now(self.targets_of(self.sample(index)[1], size))

    @property
    def pipeline(self) -> Pipeline:
        """The compiled transforms; see `ImageDataset.pipeline`."""
        joint = self._joint
        if joint is None:
            return super().pipeline
        flat = tuple(flatten(joint))
        known = self._members
        if self._pipeline is None or known is None or len(known) != len(flat) or any(map(is_not, known, flat)):
            self._pipeline, self._members = compile_pipeline(joint, v2_alone=True), flat
        return self._pipeline

    def _rest(self) -> tuple[Callable[..., Any], ...]:
        if self._joint is None:
            return super()._rest()
        return self.pipeline.rest if self.plans else (self._joint,)

    def _draw_one(
        self,
        job: Job,
        pipeline: Pipeline | None,
        with_targets: bool,
        generators: Generators | None,
        recipes: Iterator[Recipe] | None = None,
    ) -> None:
        if job.encoded is None or pipeline is None:
            super()._draw_one(job, pipeline, with_targets, generators)
            return
        header = job.encoded.header
        shape = upright(header, job.orientation)
        try:
            targets = self.targets_of(job.target, shape.size)
            if self._joint is None:  # transform and target_transform, apart
                job.target = self._alone(self._made_now(targets))
                super()._draw_one(job, pipeline, with_targets, generators)
                return
            job.recipe, job.target = self._drawn(job, pipeline, shape, targets, generators)
            lap("draw")
        except Exception as error:
            if not is_bad_file(error, self.plans):
                noted(error, self._from_front(job.index), job.path)
                raise
            self._fail(job, error)

    def _alone(self, targets: tuple[Any, ...]) -> Any:
        """What is beside the image where nothing sees both."""
        return targets[0]

    def _drawn(
        self, job: Job, pipeline: Pipeline, shape: ImageShape, targets: tuple[Any, ...], generators: Generators | None
    ) -> tuple[Recipe | None, Any]:
        v2 = v2_samples()
        with drawing(generators) as held:
            with contextlib.suppress(v2.Untraceable), rewound_on(v2.Untraceable, held.torch):
                drawn = v2.draw_sample(pipeline.drawn, shape, targets, held)
                return Recipe(shape, drawn.steps), drawn.sample
            # Once more, on the image itself.
            whole = lower(Recipe(shape, ()), orientation=job.orientation)
            assert job.encoded is not None
            sample = (to_pil(execute(whole, job.encoded)), *self._made_now(targets))
            with v2.drawing_from(held):
                made = _run(pipeline.drawn, sample)
            job.finished = made
            return None, None

    def _decode(self, job: Job) -> Any:
        image = super()._decode(job)
        if self._joint is not None and job.recipe is not None:
            job.target = v2_samples().with_pixels(job.target, image, _mask_of)
            lap("masks")
        return image

    def _made_now(self, targets: tuple[Any, ...]) -> tuple[Any, ...]:
        """Targets with the masks that are stood in for."""
        if _SAMPLES not in sys.modules:  # nobody has made a stand-in
            return targets
        made: tuple[Any, ...] = v2_samples().with_pixels(targets, None, _mask_of)
        return made

    def _fits(self, builder: Any, position: int, job: Job) -> bool:
        """Samples of joint transforms are collated: what they are made of is the transforms' to say."""
        return self._joint is None and super()._fits(builder, position, job)

    def _assembled(self, job: Job, image: Any) -> Any:
        if job.finished is not None:
            return job.finished
        return (image, job.target) if self._joint is None else job.target

    def _finish(self, job: Job, image: Any) -> Any:
        if self._joint is None:
            return super()._finish(job, image)
        sample = job.target if job.finished is None else job.finished
        if not self.plans:
            size = (image.height, image.width)
            sample = (image, *self._made_now(self.targets_of(job.target, size)))
        with keyed_globals(self._key(job)) if job.epoch is not None else contextlib.nullcontext():
            try:
                return _run(self._rest(), sample)
            except Exception as error:
                noted(error, self._from_front(job.index), job.path)
                raise

    def _recipe_of(self, job: Job, generators: Generators) -> Recipe:
        if self._joint is None:
            return super()._recipe_of(job, generators)
        job = self._read(job)
        assert job.encoded is not None
        shape = upright(job.encoded.header, job.orientation)
        recipe, _ = self._drawn(job, self.pipeline, shape, self.targets_of(job.target, shape.size), generators)
        if recipe is None:
            raise PlanError(f"the transforms look at the pixels of sample {job.index}: they have no recipe.")
        return recipe

    def replay(self, recipe: Recipe, index: int | None = None) -> tuple[Any, Any]:
        """As `ImageDataset.replay`, where there are no joint transforms: a recipe says nothing of boxes and masks."""
        if self._joint is None:
            return super().replay(recipe, index)
        raise PlanError("a recipe says nothing of boxes and masks: take dataset[index] with a seed, which repeats.")


def _run(transforms: Sequence[Any], sample: Any) -> Any:
    for transform in transforms:
        sample = transform(*sample) if isinstance(sample, tuple) and len(sample) > 1 else transform(sample)
    return sample


def _mask_of(stand_in: Any) -> torch.Tensor:
    """What a mask's stand-in stands for: the region that is needed is made, and what is to be done to it is done."""
    height, width = stand_in.whole
    box, steps = needed(stand_in.steps, ImageShape(height, width))
    mask = stand_in.load(box, stand_in.keep)
    for step in steps:
        mask = step.apply(mask)
    made: torch.Tensor = mask.contiguous()
    return made


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

    def __init__(
        self,
        function: Callable[[int], tuple[Any, ...]],
        length: int,
        transforms: Callable[..., Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(transforms=transforms, **options)
        if length < 0:
            raise DatasetError(f"length={length}: give the number of samples.")
        self.function = function
        self.length = length

    def sample(self, index: int) -> tuple[str, Any]:
        made = self.function(self._number(index))
        if not isinstance(made, tuple) or not made or not isinstance(made[0], (str, bytes, os.PathLike)):
            raise DatasetError(
                f"the function gives {type(made).__name__} for sample {index}: give a tuple, the image's path first."
            )
        return os.fsdecode(made[0]), made[1:]

    def targets_of(self, target: Any, size: tuple[int, int]) -> tuple[Any, ...]:
        return tuple(placed(part, size) for part in target)

    def _assembled(self, job: Job, image: Any) -> Any:
        if self._joint is not None or job.finished is not None:
            return super()._assembled(job, image)
        return (image, *job.target)

    def _alone(self, targets: tuple[Any, ...]) -> Any:
        return targets

    def __len__(self) -> int:
        return self.length
