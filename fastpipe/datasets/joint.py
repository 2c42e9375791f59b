"""Datasets whose transforms take the image and its targets together: detection, segmentation, key points."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence

from torch.utils._pytree import tree_map

from fastpipe.arguments import whole_number
from fastpipe.datasets.base import ImageDataset, SampleT
from fastpipe.datasets.joint_stages import JointStages, TargetStages, v2_samples, with_masks
from fastpipe.datasets.options import ImageOptions, Unpack, with_options
from fastpipe.datasets.standard_transform import StandardTransform, is_standard
from fastpipe.datasets.target_values import Boxes, KeyPoints, MaskFile
from fastpipe.errors import DatasetError, PlanError
from fastpipe.executor import ImageStages
from fastpipe.transforms.named_arrays import named_arrays_of
from fastpipe.transforms.pipeline import Pipeline
from fastpipe.types import Recipe, Sample, Target, Transform


def collate_fn(samples: Sequence[object]) -> tuple[object, ...]:
    """Collates detection samples, whose sizes differ, to a tuple of images and a tuple of targets."""
    return tuple(zip(*samples, strict=True))


class JointDataset(ImageDataset[SampleT]):
    """Base of the datasets that take ``transforms(image, target)``; a subclass defines `sample`.

    Attributes:
        transforms: as given; or a `StandardTransform` of ``transform`` and ``target_transform``, as in torchvision.
    """

    _fastpipe_spreads_targets = False
    """Without a joint transform: True for samples (image, *targets), False for (image, target)."""

    @with_options(ImageOptions)
    def __init__(
        self,
        transform: Transform | None = None,
        target_transform: Transform | None = None,
        transforms: Transform | None = None,
        **options: Unpack[ImageOptions],
    ) -> None:
        if transforms is not None and (transform is not None or target_transform is not None):
            raise ValueError("Only transforms or transform/target_transform can be passed as argument")
        if is_standard(transforms):
            transform, target_transform, transforms = transforms.transform, transforms.target_transform, None
        self._fastpipe_check_callable(transforms=transforms)
        super().__init__(transform, target_transform, **options)
        if transforms is not None:
            self.transforms = transforms

    @property
    def _fastpipe_joint(self) -> Transform | None:
        """The transform that takes image and target together; None if there is none."""
        return None if isinstance(self.transforms, StandardTransform) else self.transforms

    def targets_of(self, target: Target, size: tuple[int, int]) -> tuple[object, ...]:
        """The arguments of `transforms` after the image.

        `Boxes`, `KeyPoints` and `MaskFile` become torchvision's classes; masks may be stand-ins.

        Args:
            target: the target that `sample` returned.
            size: the image's ``(height, width)``.
        """
        return (placed(target, size),)

    def named_targets_of(self, target: Target, size: tuple[int, int], transform: object) -> tuple[object, ...]:
        """The parts of a sample after the image, for a transform that takes named arrays, such as albumentations'.

        A part is a dict of values by name, or one value. `Boxes`, `KeyPoints` and `MaskFile` become arrays, other
        values stay as they are. `target` and `size` are as in `targets_of`.
        """
        return (target,)

    def targets_at(self, index: int, size: tuple[int, int]) -> tuple[object, ...]:
        """`targets_of` a sample with its masks made, as unplanned `transforms` take them."""
        return with_masks(self.targets_of(self.sample(index)[1], size))

    @property
    def pipeline(self) -> Pipeline:
        """The compiled transforms; see `ImageDataset.pipeline`."""
        joint = self._fastpipe_joint
        return super().pipeline if joint is None else self._fastpipe_compiled(joint, v2_alone=True)

    def _fastpipe_stages(self) -> ImageStages:
        options, dataset = self._fastpipe_stage_options(), weakref.proxy(self)  # weak, as the dataset holds the stages
        joint = self._fastpipe_joint
        if joint is None:
            return TargetStages(options, dataset)
        recipe = named_arrays_of(joint)
        return JointStages(options, dataset) if recipe is None else recipe.stages(options, dataset)

    def replay(self, recipe: Recipe, index: int | None = None) -> Sample:
        """Replays a recipe as `ImageDataset.replay`; raises PlanError if there are joint transforms.

        A recipe doesn't hold the operations on boxes and masks.
        """
        if self._fastpipe_joint is None:
            return super().replay(recipe, index)
        raise PlanError("a recipe has no boxes and masks: to repeat a sample, give the dataset a seed.")


def placed(target: object, size: tuple[int, int]) -> object:
    """Converts `Boxes`, `KeyPoints` and `MaskFile` in a target to torchvision's classes; `size` is (height, width)."""

    def place(leaf: object) -> object:
        if isinstance(leaf, Boxes):
            return v2_samples().box_tensor(leaf.numbers(), leaf.format_name, size)
        if isinstance(leaf, KeyPoints):
            return v2_samples().keypoint_tensor(leaf.numbers(), size)
        if isinstance(leaf, MaskFile):
            leaf.check_size(size)
            return v2_samples().mask_stand_in(leaf.load, 1, size)
        return leaf

    return tree_map(place, target)


class SampleDataset(JointDataset[SampleT]):
    """A dataset of your own: a function returns a sample's parts, and v2 transforms take all of them.

    .. code:: python

        def sample(index):
            boxes, mask = fastpipe.Boxes(all_boxes[index]), fastpipe.MaskFile(f"{index}.png")
            return f"{index}.jpg", {"boxes": boxes, "labels": labels[index], "mask": mask}

        train = fastpipe.SampleDataset(sample, 1000, transforms)
        image, target = train[0]

    Args:
        function: takes an index and returns ``(path, …)``: the image's file, and the sample's other parts: `Boxes`,
            `KeyPoints`, `MaskFile`, tensors, ``tv_tensors``, numbers, in dicts, lists and tuples. It is called once for
            each sample, in the process or thread that loads it. It should pickle, keep large data in mapped arrays, and
            draw no random numbers: the transforms do.
        length: the number of samples.
        transforms: takes the image and the other parts as positional arguments; or an albumentations ``Compose``: a
            dict after the path holds its named arguments (``mask=``, ``bboxes=``, label fields, …), and the sample is
            the image and a dict.
        loader, reader, config, apply_exif, max_pixels, seed, threads: as in `ImageFolder`.
        on_error, bad_files_log, max_bad_fraction: as in `ImageFolder`.

    Raises:
        DatasetError: the function returns something else, or the length is negative.
    """

    _fastpipe_spreads_targets = True

    @with_options(ImageOptions)
    def __init__(
        self,
        function: Callable[[int], tuple[object, ...]],
        length: int,
        transforms: Transform | None = None,
        **options: Unpack[ImageOptions],
    ) -> None:
        super().__init__(transforms=transforms, **options)
        if not callable(function):
            raise DatasetError(f"function={function!r:.80}: give a function that takes an index and returns (path, …).")
        self.function = function
        self.length = whole_number("length", length, "the number of samples", error=DatasetError)

    def sample(self, index: int) -> tuple[str, Target]:
        given = self.function(self._fastpipe_number(index))
        if not isinstance(given, tuple) or not given or not isinstance(given[0], (str, bytes, os.PathLike)):
            raise DatasetError(
                f"the function returned {type(given).__name__} for sample {index}: return a tuple, image path first."
            )
        return os.fsdecode(given[0]), given[1:]

    def targets_of(self, target: Target, size: tuple[int, int]) -> tuple[object, ...]:
        return tuple(placed(part, size) for part in target)

    def named_targets_of(self, target: Target, size: tuple[int, int], transform: object) -> tuple[object, ...]:
        parts: tuple[object, ...] = target
        return parts

    def __len__(self) -> int:
        return self.length
