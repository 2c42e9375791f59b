"""Collates a dataset's samples into the batch that the loader hands out."""

from __future__ import annotations

import copy
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from PIL import Image
from torch.utils.data import default_collate, default_convert

from fastpipe.datasets import collate_fn
from fastpipe.errors import PlanError
from fastpipe.executor import BatchSpec, CollatedBatch, ImageBatch

Collate: TypeAlias = Callable[[Any], object]
"""A function that makes a batch of a list of samples, or of what else a dataset gives."""

DRAW_NOTHING: tuple[Collate, ...] = (default_collate, default_convert, collate_fn)
"""Collate functions known to draw no random numbers: a thread may call them."""


@dataclass(slots=True)
class DeferredImages:
    """uint8 images on which ``ToTensor`` and ``Normalize`` will run on the loader's device."""

    images: torch.Tensor  # ``(N, C, H, W)`` uint8
    # mean and std: float32 ``(1, C, 1, 1)``, or ``(N, C, 1, 1)`` if they differ between images
    mean: torch.Tensor
    std: torch.Tensor
    dtype: torch.dtype  # the finished images' dtype
    multiplied: bool = False  # multiply by 1 / 255, as v2's ``ToDtype`` does, instead of dividing by 255

    def pin_memory(self, *device: torch.device | str) -> DeferredImages:
        """A copy in pinned memory, for torch's loader; all parts, as an unpinned one would be copied synchronously."""
        images, mean, std = (part.pin_memory(*device) for part in (self.images, self.mean, self.std))
        return DeferredImages(images, mean, std, self.dtype, self.multiplied)

    def finish(self, device: torch.device) -> torch.Tensor:
        """Finishes the images on a device, with the same operations in the same order as on the CPU, in float32."""
        pixels, mean, std = (to_device(part, device) for part in (self.images, self.mean, self.std))
        pixels = pixels.to(torch.float32)
        # Divide by a tensor on the device: CUDA turns division by a number into a product with its inverse, which
        # rounds differently.
        pixels = pixels.mul_(1.0 / 255) if self.multiplied else pixels.div_(pixels.new_full((), 255))
        return pixels.sub_(mean).div_(std).to(self.dtype)


@dataclass(frozen=True)
class BatchCollate:
    """The loader's ``collate_fn``: passes a finished batch through, and collates a list as `collate` does."""

    options: BatchSpec  # the options that the dataset was called with
    collate: Collate = default_collate  # the user's function, or torch's ``default_collate``

    def __call__(self, samples: CollatedBatch | ImageBatch | Sequence[object]) -> Any:
        if isinstance(samples, CollatedBatch):
            return map_tensors(self._laid_out, samples.parts)
        if not isinstance(samples, ImageBatch):
            return map_tensors(self._laid_out, self._collated(samples))
        targets = default_collate(samples.targets)
        images: torch.Tensor | DeferredImages = samples.images
        if samples.normalize is not None:
            same = len(set(samples.normalize)) == 1
            numbers = torch.tensor(samples.normalize[:1] if same else samples.normalize, dtype=torch.float32)
            mean, std = numbers[..., None, None].unbind(1)
            dtype = self.options.dtype or torch.float32
            images = DeferredImages(samples.images, mean, std, dtype, samples.multiplied)
        return [images, targets]

    def _collated(self, samples: Sequence[object]) -> object:
        try:
            return self.collate(samples)
        except (RuntimeError, TypeError) as error:
            images = [sample[0] if isinstance(sample, (list, tuple)) and sample else sample for sample in samples]
            shapes = dict.fromkeys(tuple(image.shape) for image in images if isinstance(image, torch.Tensor))
            if self.collate is not default_collate:
                raise
            if any(isinstance(image, Image.Image) for image in images):
                raise PlanError(
                    "the samples are PIL images, which can't be collated: end the transform in ToTensor() or "
                    f"PILToTensor(), or give the loader a collate_fn. ({error})"
                ) from error
            if len(shapes) < 2:
                raise
            raise RuntimeError(
                f"the images of a batch have several shapes, {' and '.join(map(str, list(shapes)[:2]))} among them: "
                "let the transform give one size, as RandomResizedCrop(224), CenterCrop(224) or Resize((224, 224)) do "
                f"(Resize(224) keeps the ratio of the sides), or give the loader a collate_fn. ({error})"
            ) from error

    def _laid_out(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.ndim != 4:
            return tensor
        dtype = self.options.dtype if tensor.is_floating_point() else None
        layout = torch.channels_last if self.options.channels_last else torch.contiguous_format
        return tensor.to(dtype or tensor.dtype, memory_format=layout)


@dataclass(frozen=True, slots=True)
class EmptyBatch:
    """Sent by a worker in place of a batch whose samples were all left out; the loader goes on to the next."""


@dataclass(frozen=True)
class CollateGood:
    """A ``collate_fn`` that drops samples that were left out before it calls the user's.

    A dataset leaves bad samples out of a list by itself. For a single sample, as torch's `ConcatDataset` requests it,
    it returns None.
    """

    collate: Collate  # collates the remaining samples

    def __call__(self, samples: object) -> object:
        if isinstance(samples, list):
            samples = [sample for sample in samples if sample is not None] or None
        return EmptyBatch() if samples is None else self.collate(samples)


def users_collate(collate: object) -> object:
    """The user's ``collate_fn`` within a loader's; None if it is torch's ``default_collate``."""
    while isinstance(collate, (BatchCollate, CollateGood)):
        collate = collate.collate
    return None if collate is default_collate else collate


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Moves a tensor to a device.

    The copy to CUDA may be asynchronous: torch doesn't reuse pinned memory before the copy has ended, and has read
    unpinned memory when the call returns. Other devices don't guarantee that, so their copies are synchronous.
    """
    return tensor.to(device, non_blocking=device.type == "cuda")


def map_tensors(function: Callable[[Any], object], batch: object) -> Any:
    """Applies a function to each tensor in a batch, in lists, tuples, named tuples and mappings of any depth.

    Deferred images count as one tensor.
    """
    if isinstance(batch, (torch.Tensor, DeferredImages)):
        return function(batch)
    if isinstance(batch, MutableMapping):  # a copy keeps the class's other attributes, as in torch's pin_memory
        mapped = copy.copy(batch)
        mapped.update({name: map_tensors(function, value) for name, value in batch.items()})
        return mapped
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(map_tensors(function, value) for value in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(map_tensors(function, value) for value in batch)
    return batch


def batch_tensors(batch: object) -> list[torch.Tensor]:
    """The tensors of a batch, including those of deferred images."""
    tensors: list[torch.Tensor] = []
    map_tensors(lambda part: tensors.append(part.images if isinstance(part, DeferredImages) else part), batch)
    return tensors


def tensor_bytes(batch: object) -> int:
    return sum(tensor.nbytes for tensor in batch_tensors(batch))
