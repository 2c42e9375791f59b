"""Draws a whole `Compose` before an image is decoded: albumentations' own code draws, and what it drew becomes steps.

Only for a `Compose` that makes a tensor of an image alone, all of whose members ask for nothing but the image's shape.
Then the image goes from its file into a batch as one with torchvision's transforms does: the region that the crop needs
is decoded, the library's functions that the core lacks are called on it, and the core flips, normalises and writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import albumentations as A
import cv2
import numpy as np
from albumentations.core import utils

from fastpipe import core
from fastpipe.interop import Foreign
from fastpipe.interop.albumentations import normalizing, planning
from fastpipe.interop.albumentations.motions import Params
from fastpipe.interop.albumentations.pixel_calls import draws_by_shape
from fastpipe.interop.albumentations.planning import Array, Call, Container, Data, stand_in
from fastpipe.interop.albumentations.seeds import ONE_AT_A_TIME, seed
from fastpipe.kernels import cv_resizing
from fastpipe.ops import (
    Crop,
    HFlip,
    Operation,
    PilToTensor,
    ResizeAsOpenCv,
    ToTensorByFactor,
    Transpose,
    VFlip,
    interned_once,
)
from fastpipe.rng import stream_of
from fastpipe.transforms.named_arrays import Pixels, random_seed
from fastpipe.types import Box, Generators, ImageShape, Size, Step, Turn


class DrawnCompose:
    """A `Compose` that is drawn ahead, in the place of a transform of fastpipe's.

    Args:
        transform: the `Compose`; see `is_drawn_ahead`.
        reseeds: each image seeds it by a number drawn from the image's own generators.
    """

    def __init__(self, transform: Foreign, reseeds: bool) -> None:
        self.transform = transform
        self._reseeds = reseeds

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        with ONE_AT_A_TIME:
            if self._reseeds:
                seed(self.transform, random_seed(stream_of(generators)))
            drawn = _Drawn(shape)
            drawn.root(self.transform)(image=drawn.blank("image"))
        return tuple(drawn.steps)


def is_drawn_ahead(transform: Foreign) -> bool:
    """True if a transform is a `Compose` that `DrawnCompose` draws, as its members are now."""
    if type(transform) is not A.Compose or not core.available():
        return False
    if not (planning.core_is_known() and normalizing.pair_is_known()):
        return False
    if transform.processors or not _always_called(transform):
        return False
    *front, last = transform.transforms or [None]
    if not (normalizing.is_to_tensor(last) and _always_called(last) and normalizing.is_as_made(last)):
        return False
    if front and normalizing.is_normalize(front[-1]):
        normalize = front.pop()
        if not (_always_called(normalize) and normalizing.is_as_made(normalize)):
            return False
        if not normalizing.has_three_channels(normalize):
            return False
    return all(map(_is_drawn, front))


def _always_called(transform: Foreign) -> bool:
    return bool(transform.p >= 1) and _is_free(transform)


def _is_free(transform: Foreign) -> bool:
    """True if a call is neither replayed nor kept for a replay."""
    return not transform.replay_mode and not getattr(transform, "deterministic", False)


def _is_drawn(transform: Foreign) -> bool:
    if type(transform) in planning.CONTAINERS:
        return _is_free(transform) and len(transform.transforms) > 0 and all(map(_is_drawn, transform.transforms))
    if not normalizing.is_as_made(transform):
        return False
    return planning.is_planned(transform) or (draws_by_shape(transform) and _is_free(transform))


class _Drawn(Call):
    """One call of a `Compose` on an image without pixels.

    Args:
        shape: the image's shape.

    Attributes:
        steps: the steps that were drawn, for the upright image.
    """

    def __init__(self, shape: ImageShape) -> None:
        super().__init__({"image": Pixels(tuple(shape), _load_nothing)})
        self.steps: list[Step] = []

    def root(self, transform: Foreign) -> Foreign:
        return Container(transform, self, [stand_in(one, self) for one in transform.transforms])

    def note(self, transform: Foreign, params: Params) -> None:
        if normalizing.is_normalize(transform):
            mean, factor = transform.mean_np.tolist(), transform.denominator.tolist()
            self.steps.append(interned_once(ToTensorByFactor, tuple(mean), tuple(factor)))
        elif normalizing.is_to_tensor(transform):
            if not (self.steps and isinstance(self.steps[-1], ToTensorByFactor)):
                self.steps.append(interned_once(PilToTensor))
        elif planning.is_planned(transform):
            self._note_motion(transform, params)
        else:
            self.size = Size(*params.get("output_shape", self.size)[:2])
            self.steps.append(LibraryCall(transform, params, self.size))

    def _note_motion(self, transform: Foreign, params: Params) -> None:
        motion, size = planning.motion_of(transform, params, self.size), self.size
        if motion.refused or min(motion.size) < 1:
            LibraryCall(transform, params, size).apply(np.zeros((*size, 3), np.uint8))  # raises albumentations' error
        if motion.crop is not None:
            self.steps.append(Crop(*motion.crop))
            params = motion.local(params, motion.crop, Box(0, 0, *motion.size), size)
        if motion.turn is not None:
            self.steps += _operations(motion.turn)
        elif motion.crop is None or motion.resizes:
            by_core = _resizes_linearly(transform) and cv_resizing.is_known()
            self.steps.append(ResizeAsOpenCv(*motion.size) if by_core else LibraryCall(transform, params, motion.size))
        self.size = motion.size

    def data_after(self, member: object, data: Data) -> Data:
        return data  # no pixels come


def _load_nothing(box: Box) -> Array:
    raise AssertionError("an image that is drawn has no pixels")


_RESIZES = frozenset(
    getattr(A, name, None)
    for name in ("LongestMaxSize", "RandomResizedCrop", "RandomSizedCrop", "Resize", "SmallestMaxSize")
)
"""Classes that, after their crop, only call OpenCV's resize."""


def _resizes_linearly(transform: Foreign) -> bool:
    return (
        type(transform) in _RESIZES
        and transform.interpolation == cv2.INTER_LINEAR
        and transform.area_for_downscale is None
    )


def _operations(turn: Turn) -> tuple[Operation, ...]:
    """The operations of a turn."""
    swapped, rows_back, columns_back = turn
    return (_TRANSPOSE,) * swapped + (_VFLIP,) * rows_back + (_HFLIP,) * columns_back


_TRANSPOSE, _VFLIP, _HFLIP = interned_once(Transpose), interned_once(VFlip), interned_once(HFlip)


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """A call of an albumentations transform on an image's pixels, with what it drew.

    Attributes:
        transform: the transform.
        params: its parameters.
        size: the height and width of the result.
    """

    promise: ClassVar[str] = "albumentations' own pixels"  # for `explain`

    transform: Any
    params: Params
    size: Size

    def apply(self, image: Foreign) -> Array:
        """The result for an image ``(H, W, 3)``."""
        ensure_contiguous = utils.ensure_contiguous_output
        made: Array = ensure_contiguous(
            self.transform._key2func["image"](ensure_contiguous(np.asarray(image)), **self.params)
        )
        return made

    def output_shape(self, shape: ImageShape) -> ImageShape:
        return ImageShape(*self.size, shape.channels)

    def __str__(self) -> str:
        return f"albumentations' {type(self.transform).__name__}"
