"""Stages for albumentations transforms, which take the image and its targets together, as named arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np

from fastpipe.datasets.joint_stages import TargetSource
from fastpipe.datasets.target_values import Boxes, KeyPoints, MaskFile
from fastpipe.errors import DatasetError, DecodeError, PlanError
from fastpipe.executor import ImageStages, SampleTask, StageOptions
from fastpipe.interop.albumentations.boxes import boxes_in_format
from fastpipe.interop.albumentations.planning import run
from fastpipe.pillow.image_record import source_of
from fastpipe.transforms.named_arrays import Pixels, image_pixels, reseed
from fastpipe.types import Sample

Names = dict[tuple[int, str | None], str]
"""The transform's argument for each value, by (number of the sample's part, key in it); key None if it is no dict."""

_ARGUMENTS = {Boxes: "bboxes", KeyPoints: "keypoints", MaskFile: "mask"}
"""The transform's argument for a value of each class, unless the value's key in a dict is itself an argument."""


class AlbumentationsStages(ImageStages):
    """The stages of images and targets that go through an albumentations transform.

    Args:
        options: as of `ImageStages`.
        dataset: a weak proxy of the `JointDataset`, whose `named_targets_of` makes the sample's parts after the image.
    """

    def __init__(self, options: StageOptions, dataset: TargetSource) -> None:
        super().__init__(options)
        self._dataset = dataset

    def slots(self, count: int, options: object) -> None:
        """Returns None: the transform decides what a sample holds, so samples are collated."""

    def run_rest(self, task: SampleTask) -> None:
        (transform,) = self.pipeline.unplanned
        if task.key is not None:
            reseed(transform)
        image = image_pixels(task.image)
        with self.errors_noted(task):
            parts = self._dataset.named_targets_of(task.target, image.size, transform)
        if task.error is not None:
            return
        data, names = named_arguments(parts, image.size, transform)
        try:
            augmented = run(transform, {"image": image, **data})
        except (DatasetError, DecodeError, OSError) as error:
            source = source_of(task.image)
            if source is not None and source.error is error:
                raise
            self.policy.failed(task, error)  # the error of a mask's file
            return
        task.image = augmented.pop("image")
        task.target = task.image, *put_back(parts, names, augmented)

    def sample_of(self, task: SampleTask) -> Sample:
        sample: Sample = task.target
        return sample


def named_arguments(
    parts: Sequence[object], size: tuple[int, int], transform: object
) -> tuple[dict[str, object], Names]:
    """Turns the parts of a sample into a transform's arguments; also returns the argument's name for each value.

    Raises:
        PlanError: two values would become the same argument.
    """
    data: dict[str, object] = {}
    names: Names = {}
    for number, part in enumerate(parts):
        inside = part.items() if isinstance(part, dict) else [(None, part)]
        for key, value in inside:
            name = _argument(key, value, transform)
            if name is None:
                continue
            if name in data or name == "image":
                raise PlanError(f"two values of a sample would be {name}=: give each a name of its own, in one dict.")
            data[name] = _array(name, value, size, transform)
            names[number, key] = name
    return data, names


def put_back(parts: Sequence[object], names: Names, augmented: dict[str, object]) -> list[object]:
    """Puts the transform's results back into the parts; others, as ``applied_transforms``, go into the first dict."""
    augmented = dict(augmented)
    result: list[object] = []
    for number, part in enumerate(parts):
        if isinstance(part, dict):
            result.append({key: augmented.pop(names[number, key]) for key in part if names[number, key] in augmented})
        else:
            result.append(augmented.pop(names[number, None]) if (number, None) in names else part)
    first = next((part for part in result if isinstance(part, dict)), None)
    if first is not None:
        first.update(augmented)
    return result


def _argument(key: str | None, value: object, transform: Any) -> str | None:
    """Returns the transform's argument for a value; None if it is neither in a dict nor boxes, points or masks."""
    usual = "masks" if _are_mask_files(value) else _ARGUMENTS.get(type(value))
    if key is None:
        return usual
    return key if usual is None or key in transform.available_keys else usual


def _array(name: str, value: object, size: tuple[int, int], transform: object) -> object:
    """Converts a value to the form that albumentations takes."""
    if isinstance(value, MaskFile):
        return _mask(value, size)
    if isinstance(value, Boxes):
        return boxes_in_format(value, size, transform)
    if isinstance(value, KeyPoints):
        return np.asarray(value.data)
    if _are_mask_files(value):
        masks = [_mask(one, size) for one in value]
        return Pixels((len(masks), *size), lambda box: np.stack([one.load(box) for one in masks]), True, True)
    return value


def _are_mask_files(value: object) -> TypeGuard[Sequence[MaskFile]]:
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(one, MaskFile) for one in value)


def _mask(file: MaskFile, size: tuple[int, int]) -> Pixels:
    file.check_size(size)
    return Pixels(size, file.values)
