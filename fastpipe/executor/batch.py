"""Whole batches: each image is decoded and converted straight into its slot of one tensor.

A dataset's ``__getitems__`` returns a list of samples, as torch's loader expects. Its ``batch``, which
`fastpipe.DataLoader` calls, returns an `ImageBatch`: the values that `default_collate` would make from the list,
without a tensor for each sample and a copy of it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from fastpipe import core
from fastpipe.executor.tasks import SampleTask
from fastpipe.memory.host_pool import reused, tensor_on
from fastpipe.memory.shm_pool import lent_bytes, new_shared
from fastpipe.ops import ResizeAsFloats, ToNormalizedTensor, ToPlanarTensor, ToTensorByFactor
from fastpipe.program.lower import lower
from fastpipe.program.on_image import DIRECT
from fastpipe.program.program import Program
from fastpipe.types import Recipe, Target


@dataclass(frozen=True, slots=True)
class BatchSpec:
    """Options of a batch, set by a loader.

    Attributes:
        defer: leave ``ToTensor`` and ``Normalize`` to the receiver and send uint8.
        dtype: the dtype of floating images; None for the transform's.
        channels_last: memory laid out as ``(N, H, W, C)``; the shape is ``(N, C, H, W)`` either way.
        threads: overrides the dataset's ``threads``; None for the dataset's.
        as_list: return a list of samples in any case, because the user's ``collate_fn`` needs one.
        pinned: use pinned memory, from which a device copies at full speed, if batches stay in this process.
    """

    defer: bool = False
    dtype: torch.dtype | None = None
    channels_last: bool = False
    threads: int | None = None
    as_list: bool = False
    pinned: bool = False


@dataclass(slots=True)
class ImageBatch:
    """A finished batch.

    Attributes:
        images: ``(N, C, H, W)``; in shared memory if a loader's worker made it.
        targets: N targets, of the dataset's classes.
        normalize: for deferred images, each image's ``(mean, std)`` on the scale of [0, 1]; None if no normalisation
            is left to do.
        multiplied: deferred images have to be multiplied by 1 / 255, not divided by 255.
    """

    images: torch.Tensor
    targets: list[object]
    normalize: list[tuple[tuple[float, ...], tuple[float, ...]]] | None = None
    multiplied: bool = False


@dataclass(frozen=True, slots=True)
class CollatedBatch:
    """A batch that the dataset itself has collated.

    Attributes:
        parts: the same as ``default_collate`` of the samples.
    """

    parts: object


class JobResults(Protocol):
    """Memory that the core writes the results of programs to.

    Attributes:
        images: the tensor of a batch; None if each image has its own.
    """

    images: torch.Tensor | None

    def takes(self, program: Program) -> bool:
        """True if the core can write the result of a program's conversion."""

    def write(self, job: core.Job, slot: int, program: Program) -> torch.Tensor | None:
        """Sets a job's sink; returns the tensor, or None if the image is finished in a batch's tensor."""


class BatchSlots(ABC):
    """The slots of a batch in one tensor; the core writes images straight into them.

    Attributes:
        images: the tensor ``(N, …)``; None until a task has been accepted.
    """

    images: torch.Tensor | None = None
    _sink: core.BatchSink | None = None

    @abstractmethod
    def accept(self, task: SampleTask) -> bool:
        """Assigns a slot to a task; False if its result doesn't fit into one tensor with those before."""

    def place(self, slot: int) -> torch.Tensor:
        """The tensor that a result is written to."""
        assert self.images is not None
        return self.images[slot]

    def takes(self, program: Program) -> bool:
        images, conversion = self.images, program.conversion
        if conversion is None or images is None or images.dtype not in DIRECT:
            return False
        return not program.after or images.dtype == conversion.dtype

    def write(self, job: core.Job, slot: int, program: Program) -> torch.Tensor | None:
        images, conversion = self.images, program.conversion
        assert images is not None  # `takes` was True
        assert conversion is not None
        if self._sink is None:
            self._sink = core.BatchSink(images)
        self._sink.write(job, slot, conversion.arithmetic)
        return images[slot] if program.after else None

    def finish(self, targets: list[Target], slots: Sequence[int]) -> ImageBatch:
        """The batch of these slots; leaves out all others.

        Args:
            targets: a target for each of these slots.
            slots: the filled slots, at least one, in rising order.
        """
        assert self.images is not None
        return ImageBatch(_moved_together(self.images, slots), targets)


_KEEP_UINT8 = ToPlanarTensor()
_TAIL = frozenset({"erase", "normalize"})  # steps after the conversion that keep shape and dtype


def _fits_a_slot(program: Program) -> bool:
    """True if a program ends in a tensor of a known shape and dtype."""
    return program.conversion is not None and all(getattr(step, "op", "") in _TAIL for step in program.after)


def _dtype(program: Program, options: BatchSpec) -> torch.dtype:
    keeps = options.defer or isinstance(program.conversion, ToPlanarTensor)
    return torch.uint8 if keeps else options.dtype or torch.float32


def _multiplied(program: Program) -> bool:
    return isinstance(program.conversion, ToNormalizedTensor) and program.conversion.multiplied


def batch_bytes(recipe: Recipe, count: int, options: BatchSpec) -> int | None:
    """Bytes of a batch of `count` such images; None if they can't be made in one tensor."""
    program = lower(recipe.steps, recipe.shape)
    return count * math.prod(program.result) * _dtype(program, options).itemsize if _fits_a_slot(program) else None


class ImageSlots(BatchSlots):
    """The slots of a batch of images, ``(N, C, H, W)``.

    Args:
        count: number of images in the batch.
        options: the batch's options.
        shared: allocate in shared memory, for another process.
        out: the tensor to fill; images that don't fit it aren't accepted. None for a new one.
    """

    def __init__(self, count: int, options: BatchSpec, shared: bool, out: torch.Tensor | None = None) -> None:
        self._count, self._options, self._shared, self._out = count, options, shared, out
        self._numbers: dict[int, tuple[tuple[float, ...], tuple[float, ...]]] = {}  # mean and std, by slot
        self._first: Program | None = None

    def accept(self, task: SampleTask) -> bool:
        """See `BatchSlots.accept`; with deferred conversions, changes the task's program to keep uint8."""
        first, program = self._first, task.program
        if program is None:
            return False
        # Most programs end in the same conversion; then nothing else needs to be compared.
        same = first is not None and program.conversion is first.conversion and not (program.after or first.after)
        if not (same or self._fits(program)) or (first is not None and program.result != first.result):
            return False
        if self.images is None:
            shape, dtype = (self._count, *program.result), _dtype(program, self._options)
            self._first, out = program, self._out
            if out is None:
                self.images = _allocate(shape, dtype, self._options, self._shared)
            elif out.dtype != dtype or (out.shape[2], out.shape[3], out.shape[1]) != program.result:
                return False
            else:
                self.images = out
        if self._options.defer:
            conversion = program.conversion
            if isinstance(conversion, ToNormalizedTensor):
                self._numbers[task.slot] = conversion.mean, conversion.std
            # The memo stays valid: it caches operations of the steps only; its jobs aren't used for batches.
            task.program = program._replace(conversion=_KEEP_UINT8)
        return True

    def _fits(self, program: Program) -> bool:
        first, defer = self._first or program, self._options.defer
        if not _fits_a_slot(program) or _dtype(program, self._options) != _dtype(first, self._options):
            return False
        if defer and (type(program.conversion), _multiplied(program)) != (type(first.conversion), _multiplied(first)):
            return False
        if defer and program.steps and isinstance(program.steps[-1], ResizeAsFloats):
            return False
        if defer and isinstance(program.conversion, ToTensorByFactor):  # a receiver divides
            return False
        return not program.after or not (defer or isinstance(program.conversion, ToPlanarTensor))

    def finish(self, targets: list[Target], slots: Sequence[int]) -> ImageBatch:
        batch = super().finish(targets, slots)
        if self._numbers:
            batch.normalize = [self._numbers[slot] for slot in slots]
        batch.multiplied = self._options.defer and self._first is not None and _multiplied(self._first)
        return batch


def _moved_together(images: torch.Tensor, positions: Sequence[int]) -> torch.Tensor:
    """Moves the images at these rising positions to the front of their own memory, and returns that part of it."""
    if len(positions) == len(images):
        return images
    for place, position in enumerate(positions):
        if place != position:
            images[place].copy_(images[position])
    return images[: len(positions)]


def _allocate(shape: Sequence[int], dtype: torch.dtype, options: BatchSpec, shared: bool) -> torch.Tensor:
    """An uninitialised batch ``(N, C, H, W)``; the argument `shape` is ``(N, H, W, C)``."""
    count, height, width, channels = shape
    layout = (count, height, width, channels) if options.channels_last else (count, channels, height, width)
    batch = batch_memory(layout, dtype, options, shared)
    return batch.permute(0, 3, 1, 2) if options.channels_last else batch


def batch_memory(shape: tuple[int, ...], dtype: torch.dtype, options: BatchSpec, shared: bool) -> torch.Tensor:
    """An uninitialised, contiguous batch; `shared` allocates shared memory for another process."""
    if not shared:
        return reused(shape, dtype, options.pinned)
    size = math.prod(shape) * dtype.itemsize
    lent = lent_bytes(size)
    if lent is None:
        return new_shared(size).view(dtype).view(shape)
    return tensor_on(lent, shape, dtype)
