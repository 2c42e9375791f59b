"""The stages of images with targets that belong to their pixels: boxes, masks, key points."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar, cast

import torch
from PIL import Image

from fastpipe.errors import DatasetError, PlanError
from fastpipe.executor import BatchSlots, BatchSpec, ImageStages, SampleTask, StageOptions
from fastpipe.program import execute, lower, needed
from fastpipe.rng import as_globals, drawing, rewound
from fastpipe.rng.torch_patch import torch_draws_from
from fastpipe.transforms.adapters import planned
from fastpipe.transforms.compose_plan import pipelines_of
from fastpipe.transforms.pipeline import FixedSteps
from fastpipe.transforms.sized_image import Untraceable
from fastpipe.types import Generators, ImageShape, LoadMask, Recipe, Sample, Step, Target, Transform

_SAMPLES = "fastpipe.transforms.v2._samples"

SampleT = TypeVar("SampleT")


class MaskStandIn(Protocol):
    """A mask that isn't loaded yet."""

    @property
    def whole(self) -> tuple[int, int]:
        """Height and width of the whole mask, before any operation."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """The operations drawn for the mask."""

    @property
    def keep(self) -> torch.Tensor | None:
        """Indices of the masks to keep; None for all."""

    @property
    def load(self) -> LoadMask:
        """Loads a box of some of the masks, or of all."""


class V2Samples(Protocol):
    """The functions of `fastpipe.transforms.v2._samples`, documented there."""

    def draw_sample(
        self, transforms: Sequence[object], shape: ImageShape, targets: tuple[object, ...], generators: Generators
    ) -> tuple[tuple[Step, ...], object]: ...
    def with_pixels(self, sample: SampleT, image: object, finish: Callable[[MaskStandIn], torch.Tensor]) -> SampleT: ...
    def mask_stand_in(self, load: LoadMask, count: int, size: tuple[int, int]) -> torch.Tensor: ...
    def box_tensor(self, boxes: object, format: str, size: tuple[int, int]) -> torch.Tensor: ...
    def mask_tensor(self, mask: object) -> torch.Tensor: ...
    def keypoint_tensor(self, points: object, size: tuple[int, int]) -> torch.Tensor: ...
    def xyxy(self, boxes: object) -> torch.Tensor: ...


class TargetSource(Protocol):
    """The part of a `JointDataset` that makes targets."""

    @property
    def _fastpipe_spreads_targets(self) -> bool: ...
    def targets_of(self, target: Target, size: tuple[int, int]) -> tuple[object, ...]: ...
    def named_targets_of(self, target: Target, size: tuple[int, int], transform: object) -> tuple[object, ...]: ...


def v2_samples() -> V2Samples:
    """Imports `fastpipe.transforms.v2._samples`, which needs torchvision."""
    return cast(V2Samples, importlib.import_module(_SAMPLES))


def with_masks(targets: tuple[object, ...]) -> tuple[object, ...]:
    """Returns the targets with each stand-in replaced by its mask."""
    if _SAMPLES not in sys.modules:  # then no stand-in can exist
        return targets
    return v2_samples().with_pixels(targets, None, _mask_of)


def _mask_of(stand_in: MaskStandIn) -> torch.Tensor:
    """Makes the mask of a stand-in: loads the region that its operations need, and applies them."""
    height, width = stand_in.whole
    box, steps = needed(stand_in.steps, ImageShape(height, width))
    mask = stand_in.load(box, stand_in.keep)
    for step in steps:
        mask = step.apply(mask)
    return mask.contiguous()


class TargetStages(ImageStages):
    """The stages of images whose targets depend on the image's size; image and target have separate transforms.

    Args:
        options: as of `ImageStages`.
        dataset: a weak proxy of the `JointDataset`, whose `targets_of` makes the targets.
    """

    def __init__(self, options: StageOptions, dataset: TargetSource) -> None:
        super().__init__(options)
        self._dataset = dataset
        self._spreads_targets = dataset._fastpipe_spreads_targets

    def slots(self, count: int, options: BatchSpec) -> BatchSlots | None:
        """Returns None, for collating, if samples may have several targets; else the slots of the images."""
        return None if self._spreads_targets else super().slots(count, options)

    def draw_one(self, task: SampleTask, generators: Generators | None, fixed: FixedSteps | None) -> None:
        if task.shape is not None:
            with self.errors_noted(task):
                self._make_targets(task, task.shape.size)
            if task.error is None:
                super().draw_one(task, generators, fixed)

    def _make_targets(self, task: SampleTask, size: tuple[int, int]) -> None:
        targets = with_masks(self._dataset.targets_of(task.target, size))
        task.target = targets if self._spreads_targets else targets[0]

    def finish(self, task: SampleTask) -> None:
        if task.finished is None and self.loader is not None:
            size = self._loaded_size(task)  # an error here is the loader's, of no file
            with self.errors_noted(task):
                self._make_targets(task, size)
            if task.error is not None:
                return
            if not self.pipeline.unplanned:
                super().transform_target(task)
        super().finish(task)

    def _loaded_size(self, task: SampleTask) -> tuple[int, int]:
        """The ``(height, width)`` of the image that the user's loader returned."""
        image = task.image
        if isinstance(image, Image.Image):
            return image.height, image.width
        if isinstance(image, torch.Tensor) and image.ndim >= 2:
            return image.shape[-2], image.shape[-1]
        raise DatasetError(
            f"loader={self.loader!r:.80} returned {type(image).__name__} for {task.path}: return a PIL image, or a "
            "tensor (C, H, W): boxes and masks need the image's size."
        )

    def sample_of(self, task: SampleTask) -> Sample:
        return (task.image, *task.target) if self._spreads_targets else (task.image, task.target)


class JointStages(TargetStages):
    """The stages for transforms of image and targets together.

    After the draw, `SampleTask.target` holds the whole sample, image included.
    """

    finishes_in_python = True
    _rest: list[Transform] | None = None

    def _make_targets(self, task: SampleTask, size: tuple[int, int]) -> None:
        task.target = task.image, *with_masks(self._dataset.targets_of(task.target, size))

    def slots(self, count: int, options: object) -> None:
        """Returns None: the transforms decide what a sample holds, so samples are collated."""

    def _rest_calls(self) -> list[Transform]:
        """The unplanned part's transforms: unknown ones as they are, each run of known ones as one `Compose`."""
        if self._rest is None:
            compose = importlib.import_module("fastpipe.transforms.v2").Compose if self.pipeline.unplanned else None
            runs = pipelines_of(self.pipeline.unplanned, v2_alone=True)
            self._rest = [compose(list(run.drawn)) if compose and run.drawn else run.unplanned[0] for run in runs]
        return self._rest

    def draw_one(self, task: SampleTask, generators: Generators | None, fixed: FixedSteps | None) -> None:
        if self.loader is not None:
            return
        shape = task.shape
        assert shape is not None
        with self.errors_noted(task):
            targets = self._dataset.targets_of(task.target, shape.size)
            task.steps, task.target = self._drawn(task, shape, targets, generators)

    def _drawn(
        self, task: SampleTask, shape: ImageShape, targets: tuple[object, ...], generators: Generators | None
    ) -> tuple[tuple[Step, ...] | None, object]:
        """Draws the image's steps and the sample without pixels; the steps are None if a transform reads pixels."""
        drawn = [planned(transform) for transform in self.pipeline.drawn]
        with drawing(generators) as held:
            with contextlib.suppress(Untraceable), rewound(Untraceable, held), as_globals(held, with_torch=False):
                return v2_samples().draw_sample(drawn, shape, targets, held)
            # Run the transforms on the decoded image.
            whole = lower((), shape, orientation=task.orientation)
            sample = (execute(whole, task.encoded, as_pil=True), *with_masks(targets))
            with torch_draws_from(held), as_globals(held, with_torch=False):
                return None, _run(drawn, sample)

    def recipe(self, task: SampleTask, generators: Generators) -> Recipe:
        self.read_one(task)
        if task.error is not None:
            raise task.error
        shape = task.shape
        assert shape is not None
        steps, _ = self._drawn(task, shape, self._dataset.targets_of(task.target, shape.size), generators)
        if steps is None:
            raise PlanError(f"the transforms look at the pixels of sample {task.source_index}: they have no recipe.")
        return Recipe(shape, steps)

    def make(self, task: SampleTask, out: torch.Tensor | None) -> None:
        if task.steps is None and self.loader is None:
            return  # the transforms have run on the decoded image
        super().make(task, out)
        if self.loader is None:
            task.target = v2_samples().with_pixels(task.target, task.image, _mask_of)

    def run_rest(self, task: SampleTask) -> None:
        task.target = _run(self._rest_calls(), task.target)

    def sample_of(self, task: SampleTask) -> Sample:
        sample: Sample = task.target
        return sample


def _run(transforms: Sequence[Transform], sample: object) -> object:
    for transform in transforms:
        sample = transform(*sample) if isinstance(sample, tuple) and len(sample) > 1 else transform(sample)
    return sample
