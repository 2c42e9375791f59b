"""The recipe for albumentations' classes, as `fastpipe.transforms.adapters` and `named_arrays` look for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from albumentations.core import composition, transforms_interface

from fastpipe.interop import Foreign
from fastpipe.interop.albumentations.drawing import DrawnCompose, is_drawn_ahead
from fastpipe.interop.albumentations.planning import planned_members, run, why_not
from fastpipe.interop.albumentations.seeds import seed

if TYPE_CHECKING:
    from fastpipe.datasets.joint_stages import TargetSource
    from fastpipe.executor import ImageStages, StageOptions

__all__ = ["TABLE", "drawn_ahead", "label_fields", "planned_members", "run", "seed", "stages", "takes_names", "why_not"]

TABLE: Mapping[type, type] = {}
"""Empty, as a draw changes albumentations' generators, so that samples must be made one after the other."""


def takes_names(kind: type) -> bool:
    """True for albumentations' transforms and containers."""
    return issubclass(kind, (transforms_interface.BasicTransform, composition.BaseCompose))


def drawn_ahead(transform: Foreign, reseeds: bool) -> DrawnCompose | None:
    """A transform that draws for a given one before the image is decoded; None if the given one needs pixels.

    Args:
        transform: any transform of the library.
        reseeds: each image seeds it by a number drawn from the image's own generators.
    """
    return DrawnCompose(transform, reseeds) if is_drawn_ahead(transform) else None


def label_fields(transform: Foreign) -> Sequence[str]:
    """The names of the transform's arguments that hold one value for each box, such as labels."""
    from fastpipe.interop.albumentations import boxes

    return boxes.label_fields(transform)


def stages(options: StageOptions, dataset: TargetSource) -> ImageStages:
    """The stages of a dataset whose images and targets go through a transform together."""
    from fastpipe.interop.albumentations.stages import AlbumentationsStages

    return AlbumentationsStages(options, dataset)
