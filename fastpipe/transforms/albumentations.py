"""An albumentations transform as a member of a torchvision-style pipeline."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image

from fastpipe.errors import PlanError
from fastpipe.rng import TorchStream, stream_of
from fastpipe.transforms.named_arrays import call_with_image, named_arrays_of, random_seed
from fastpipe.types import Generators, ImageShape, Step

# Words in the errors of transforms that need one of these targets beside the image.
_TARGETS = ("bbox", "keypoint", "label_fields", "mask", "metadata")


class Albumentations:
    """One albumentations transform, or a ``Compose`` of them, on the image of a torchvision-style pipeline.

    PIL images stay PIL images, ndarrays ``(H, W)`` or ``(H, W, C)`` ndarrays, and CPU tensors ``(C, H, W)``, uint8
    or float32, tensors. Each call draws one seed from torch's generator and seeds the transform with it: so
    ``torch.manual_seed``, a dataset's ``seed=`` and DataLoader workers reproduce what albumentations does. If all
    transforms are image-only (they keep the image's size), the seed is drawn ahead with the rest of the pipeline, a
    recipe replays it, and the pipeline passes its ndarray without a conversion. Crops and flips at the beginning are
    drawn before decoding, as in a dataset that gets the transform itself.

    Args:
        transform: an albumentations transform, ``Compose``, ``OneOf``, … that needs nothing but the image. Every call
            reseeds it, so don't share it with code that relies on its random state. Only one thread at a time runs it.

    Raises:
        TypeError: ``transform`` isn't an albumentations transform; when called, an image or a result that can't be
            converted.
        PlanError: the transform needs masks, boxes, key points or other data beside the image.
    """

    def __init__(self, transform: object) -> None:
        is_seeded = hasattr(transform, "set_random_state") or named_arrays_of(transform) is not None
        if not callable(transform) or not is_seeded:
            raise TypeError(
                f"transform should be an albumentations transform, Compose, OneOf, …. Got {type(transform).__name__}"
            )
        for member in _members(transform):
            missing = set(_needed(member)) - {"image"}
            if missing:
                raise _missing_targets(member, ", ".join(sorted(missing)))
        self.transform = transform

    def __call__(self, img: object) -> Any:
        return SeededCall(self.transform, random_seed(TorchStream())).apply(img)

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        return (SeededCall(self.transform, random_seed(stream_of(generators))),)

    def _can_draw(self) -> bool:
        """True if the transform keeps an image's shape: no crops, no change of channels."""
        from albumentations import ImageOnlyTransform

        return all(
            isinstance(member, ImageOnlyTransform) and getattr(member, "num_output_channels", 3) == 3
            for member in _members(self.transform)
        )

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.transform!r})"


@dataclass(frozen=True, slots=True)
class SeededCall:
    """The step that `Albumentations` draws: a transform and the seed of its random numbers.

    Attributes:
        transform: the albumentations transform.
        seed: the seed, in ``[0, 2**63)``.
    """

    promise: ClassVar[str] = "albumentations' own pixels, repeatable by the seed"  # for `explain`

    transform: Any
    seed: int

    def apply(self, image: object) -> Any:
        given = image
        if isinstance(image, torch.Tensor):
            if image.device.type != "cpu" or image.ndim != 3 or image.dtype not in (torch.uint8, torch.float32):
                raise TypeError(
                    "albumentations takes tensors (C, H, W) of dtype uint8 or float32 on the CPU. Got "
                    f"{tuple(image.shape)}, {image.dtype}, {image.device}"
                )
            given = np.ascontiguousarray(image.permute(1, 2, 0).numpy())
        elif not isinstance(image, (np.ndarray, Image.Image)):
            raise TypeError(f"img should be PIL Image, Tensor or ndarray. Got {type(image)}")
        result = self._result(given)
        if isinstance(image, np.ndarray) or isinstance(result, torch.Tensor):  # a tensor that ToTensorV2 makes
            return result
        if isinstance(image, Image.Image):
            return _as_pil(result, image.mode)
        return torch.from_numpy(np.ascontiguousarray(_channels_first(result)))

    def _result(self, image: object) -> object:
        """The transform's result, an array or tensor; the image is copied, because some transforms write into it."""
        with _seeded(self.transform, self.seed):
            recipe = named_arrays_of(self.transform)
            try:
                if recipe is None:  # a user's own class
                    return self.transform(image=np.array(image))["image"]
                return call_with_image(recipe, self.transform, image)
            except (KeyError, RuntimeError, ValueError) as error:
                if any(target in str(error) for target in _TARGETS):
                    raise _missing_targets(self.transform, str(error)) from error
                raise

    def output_shape(self, shape: ImageShape) -> ImageShape:
        return shape

    def __str__(self) -> str:
        return f"albumentations({type(self.transform).__name__}, seed={self.seed})"


def _seeded(transform: object, seed: int) -> AbstractContextManager[None]:
    seeds: Any = importlib.import_module("fastpipe.interop.albumentations.seeds")  # which this layer can't import
    context: AbstractContextManager[None] = seeds.seeded(transform, seed)
    return context


def _members(transform: object) -> Iterator[object]:
    """The transforms in a tree of ``Compose``, ``OneOf``, …; or the transform itself."""
    members = getattr(transform, "transforms", None)
    if isinstance(members, list | tuple):
        for member in members:
            yield from _members(member)
    else:
        yield transform


def _needed(transform: object) -> Iterable[str]:
    """The targets from which a transform draws its parameters."""
    try:
        return getattr(transform, "targets_as_params", ())
    except NotImplementedError:  # how older versions say that there are none
        return ()


def _missing_targets(transform: object, what: str) -> PlanError:
    return PlanError(
        f"{type(transform).__name__} needs more than the image ({what}), and a torchvision-style pipeline has only "
        "the image: call albumentations yourself where you have the rest"
    )


def _channels_first(array: Any) -> object:
    return array[None] if array.ndim == 2 else array.transpose(2, 0, 1)


def _as_pil(array: Any, mode: str) -> Image.Image:
    if array.dtype != np.uint8:
        raise TypeError(
            f"the albumentations transform turned a PIL image into {array.dtype}, which PIL can't hold: "
            "put it after ToTensor or leave such conversions to ToTensor and Normalize"
        )
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    kept = Image.getmodebands(mode) == (1 if array.ndim == 2 else array.shape[2])
    image = Image.fromarray(array)
    if kept and image.mode != mode:  # same number of bands with another meaning: HSV, LAB, YCbCr
        image = Image.frombytes(mode, image.size, image.tobytes())
    return image
