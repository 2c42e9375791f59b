"""Whole batches: each image is decoded and converted straight into its slot of one tensor.

A dataset's ``__getitems__`` gives a list of samples, as torch's loader expects. Its ``batch``, which
`fastpipe.DataLoader` calls, gives an `ImageBatch` instead: the values that `default_collate` would make of the list,
without a tensor for each sample and a copy of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from fastpipe.executor.epochs import SharedEpoch
from fastpipe.executor.tasks import SampleTask
from fastpipe.memory.host_pool import reused, tensor_on
from fastpipe.memory.shm_pool import lent_bytes, new_shared
from fastpipe.ops import ToNormalizedTensor, ToPlanarTensor
from fastpipe.program.lower import lower
from fastpipe.program.program import Program
from fastpipe.types import Recipe


@dataclass(frozen=True, slots=True)
class BatchSpec:
    """Options of a batch, as a loader asks for it.

    Attributes:
        defer: leave ``ToTensor`` and ``Normalize`` to the receiver and send uint8.
        dtype: of floating images; None for what the transform gives.
        channels_last: memory laid out as ``(N, H, W, C)``; the shape is ``(N, C, H, W)`` either way.
        threads: in place of the dataset's own ``threads``; None for that.
        as_list: give a list of samples all the same; the loader's user collates them.
        pinned: in memory that a device reads from at full speed, where batches stay in this process.
        epochs: which one a dataset's samples are of, for a loader that works ahead; of others it is the current one.
    """

    defer: bool = False
    dtype: torch.dtype | None = None
    channels_last: bool = False
    threads: int | None = None
    as_list: bool = False
    pinned: bool = False
    epochs: Mapping[SharedEpoch, int] = field(default_factory=dict)


@dataclass(slots=True)
class ImageBatch:
    """A finished batch.

    Attributes:
        images: ``(N, C, H, W)``; in shared memory where a loader's worker made it.
        targets: N of them, whatever the dataset has.
        normalize: for deferred images, each one's ``(mean, std)`` on the scale of [0, 1]; None where nothing is left
            to do.
        multiplied: deferred images are to be multiplied by 1 / 255, not divided by 255.
    """

    images: torch.Tensor
    targets: list[object]
    normalize: list[tuple[tuple[float, ...], tuple[float, ...]]] | None = None
    multiplied: bool = False


@dataclass(frozen=True, slots=True)
class CollatedBatch:
    """A batch that a dataset has collated itself.

    Attributes:
        parts: what ``default_collate`` would make of the samples.
    """

    parts: object


_KEEP_UINT8 = ToPlanarTensor()
_TAIL = frozenset({"erase", "normalize"})  # what may follow the conversion: shape and dtype stay


def _fits_a_slot(program: Program) -> bool:
    """Whether a program ends in a tensor of a known shape and dtype."""
    return program.conversion is not None and all(getattr(step, "op", "") in _TAIL for step in program.after)


def _dtype(program: Program, options: BatchSpec) -> torch.dtype:
    keeps = options.defer or isinstance(program.conversion, ToPlanarTensor)
    return torch.uint8 if keeps else options.dtype or torch.float32


def _multiplied(program: Program) -> bool:
    return isinstance(program.conversion, ToNormalizedTensor) and program.conversion.multiplied


def batch_bytes(recipe: Recipe, count: int, options: BatchSpec) -> int | None:
    """Bytes of a batch of `count` such images; None where they don't go straight into one tensor."""
    program = lower(recipe.steps, recipe.shape)
    return count * math.prod(program.result) * _dtype(program, options).itemsize if _fits_a_slot(program) else None


@dataclass(slots=True)
class BatchBuilder:
    """The places of a batch of images in one tensor.

    Attributes:
        count: images in the batch.
        options: what is wanted.
        shared: allocate in shared memory, to be handed to another process without a copy.
        out: the tensor ``(N, C, H, W)`` to fill; images that don't fit into it aren't accepted. None for a new one.
        images: the tensor, once an image was accepted.
    """

    count: int
    options: BatchSpec
    shared: bool
    out: torch.Tensor | None = None
    images: torch.Tensor | None = None
    _numbers: dict[int, tuple[tuple[float, ...], tuple[float, ...]]] = field(default_factory=dict)
    _first: Program | None = None

    def accept(self, task: SampleTask) -> bool:
        """Gives the image of a task its place; False where it doesn't fit into a batch with the ones before.

        Where conversions are deferred, that of the task's program becomes one that keeps uint8.
        """
        first, program = self._first, task.program
        if program is None:
            return False
        # Most have the same end; then nothing else need be looked at.
        same = first is not None and program.conversion is first.conversion and not (program.after or first.after)
        if not (same or self._takes(program)) or (first is not None and program.result != first.result):
            return False
        if self.images is None:
            shape, dtype = (self.count, *program.result), _dtype(program, self.options)
            self._first, out = program, self.out
            if out is None:
                self.images = _allocate(shape, dtype, self.options, self.shared)
            elif out.dtype != dtype or (out.shape[2], out.shape[3], out.shape[1]) != program.result:
                return False
            else:
                self.images = out
        if self.options.defer:
            conversion = program.conversion
            if isinstance(conversion, ToNormalizedTensor):
                self._numbers[task.slot] = conversion.mean, conversion.std
            # The memo's operations are the steps' alone; its jobs have conversions, but aren't asked for in a batch.
            task.program = program._replace(conversion=_KEEP_UINT8)
        return True

    def place(self, position: int) -> torch.Tensor:
        """The tensor ``(C, H, W)`` of an image."""
        assert self.images is not None
        return self.images[position]

    def _takes(self, program: Program) -> bool:
        first, defer = self._first or program, self.options.defer
        if not _fits_a_slot(program) or _dtype(program, self.options) != _dtype(first, self.options):
            return False
        if defer and (type(program.conversion), _multiplied(program)) != (type(first.conversion), _multiplied(first)):
            return False
        return not program.after or not (defer or isinstance(program.conversion, ToPlanarTensor))

    def finish(self, targets: list[Any], positions: Sequence[int]) -> ImageBatch:
        """The batch of these slots, which are filled; the others are left out.

        Args:
            targets: one for each of these slots.
            positions: at least one, rising.
        """
        assert self.images is not None
        images = self.images
        if len(positions) < self.count:
            for place, position in enumerate(positions):  # moved within the same, maybe shared, memory
                if place != position:
                    images[place].copy_(images[position])
            images = images[: len(positions)]
        numbers = [self._numbers[position] for position in positions] if self._numbers else None
        deferred = self._first if self.options.defer else None
        return ImageBatch(images, targets, numbers, deferred is not None and _multiplied(deferred))


def _allocate(shape: Sequence[int], dtype: torch.dtype, options: BatchSpec, shared: bool) -> torch.Tensor:
    """An uninitialised batch; shape is ``(N, H, W, C)``, the result ``(N, C, H, W)``."""
    count, height, width, channels = shape
    layout = (count, height, width, channels) if options.channels_last else (count, channels, height, width)
    batch = batch_memory(layout, dtype, options, shared)
    return batch.permute(0, 3, 1, 2) if options.channels_last else batch


def batch_memory(shape: tuple[int, ...], dtype: torch.dtype, options: BatchSpec, shared: bool) -> torch.Tensor:
    """An uninitialised, contiguous batch; `shared` for another process."""
    if not shared:
        return reused(shape, dtype, options.pinned)
    size = math.prod(shape) * dtype.itemsize
    lent = lent_bytes(size)
    if lent is None:
        return new_shared(size).view(dtype).view(shape)
    return tensor_on(lent, shape, dtype)
