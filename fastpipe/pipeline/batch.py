"""Whole batches: each image is decoded and converted straight into its slot of one tensor.

A dataset's ``__getitems__`` gives a list of samples, as torch's loader expects. Where the process has asked for batches
(`request_batches`: `fastpipe.DataLoader` does, in its workers and around its own work) it gives an `ImageBatch`
instead: the values that `default_collate` would make of the list, without a tensor for each sample and a copy of it.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from fastpipe.errors import PlanError
from fastpipe.pipeline.fused import ToNormalizedTensor, ToPlanarTensor, normalization
from fastpipe.pipeline.laps import lap
from fastpipe.pipeline.plan import DecodePlan, Fidelity, plan_decode
from fastpipe.pipeline.shared_memory import too_small
from fastpipe.pipeline.slots import Slot, worker_slots
from fastpipe.transforms.kernels import conversion as kernels
from fastpipe.transforms.steps import Call
from fastpipe.types import ImageShape, Recipe, Step

__all__ = ["BatchBuilder", "BatchOptions", "ImageBatch", "batch_bytes", "request_batches", "requested_batches"]


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """What the loader wants of a batch.

    Attributes:
        defer: leave ``ToTensor`` and ``Normalize`` to the receiver and send uint8.
        dtype: of floating images; None for what the transform gives.
        channels_last: memory laid out as ``(N, H, W, C)``; the shape is ``(N, C, H, W)`` either way.
        threads: in place of the dataset's own ``threads``; None for that.
        as_list: give a list of samples all the same; the loader's user collates them.
    """

    defer: bool = False
    dtype: torch.dtype | None = None
    channels_last: bool = False
    threads: int | None = None
    as_list: bool = False


_requested: contextvars.ContextVar[BatchOptions | None] = contextvars.ContextVar("fastpipe_batches", default=None)


def requested_batches() -> BatchOptions | None:
    """What batches this thread wants from ``__getitems__``; None for lists of samples."""
    return _requested.get()


def request_batches(options: BatchOptions | None) -> Callable[[], None]:
    """Asks for batches in this thread, from now on; call the result to go back to what was."""
    token = _requested.set(options)
    return lambda: _requested.reset(token)


@dataclass(slots=True)
class ImageBatch:
    """A finished batch.

    Attributes:
        images: ``(N, C, H, W)``; in shared memory where a loader's worker made it.
        targets: N of them, whatever the dataset has.
        normalize: for deferred images, each one's ``(mean, std)`` on the scale of [0, 1]; None where nothing is left
            to do.
        slot: the memory that the images are in, where that will be used again.
    """

    images: torch.Tensor
    targets: list[Any]
    normalize: list[tuple[tuple[float, ...], tuple[float, ...]]] | None = None
    slot: Slot | None = None

    def images_to_send(self) -> Any:
        """The images, or what becomes them in the loader's main process. To be called once."""
        return self.images if self.slot is None else self.slot.handed_over(self.images)


_TAIL = frozenset({"erase", "normalize"})  # what may follow the conversion: shape and dtype stay


@dataclass(frozen=True, slots=True)
class _SlotPlan:
    """A decode plan cut at its conversion to a tensor.

    Attributes:
        shape: of the array that is converted.
        conversion: None for ``PILToTensor``, else what ``ToTensor`` and ``Normalize`` come to.
    """

    plan: DecodePlan
    before: tuple[Step, ...]
    shape: ImageShape
    conversion: ToNormalizedTensor | None
    after: tuple[Step, ...]


def _slot_plan(recipe: Recipe, fidelity: Fidelity) -> _SlotPlan | None:
    """None where the recipe doesn't end in a tensor that a slot can take."""
    plan = plan_decode(recipe, fidelity)
    shape = recipe.shape
    if plan.request.box is not None:
        shape = ImageShape(*plan.request.box.size, shape.channels)
    for index, step in enumerate(plan.steps):
        after = plan.steps[index + 1 :]
        is_scaling = isinstance(step, Call) and step.op == "to_tensor"
        if is_scaling or isinstance(step, (ToPlanarTensor, ToNormalizedTensor)):
            if not all(isinstance(s, Call) and s.op in _TAIL for s in after):
                return None
            if is_scaling and torch.get_default_dtype() != torch.float32:
                return None
            conversion = normalization(shape.channels) if is_scaling else step
            if isinstance(step, ToPlanarTensor):
                return None if after else _SlotPlan(plan, plan.steps[:index], shape, None, ())
            assert isinstance(conversion, ToNormalizedTensor)
            return _SlotPlan(plan, plan.steps[:index], shape, conversion, after)
        try:
            shape = step.output_shape(shape)
        except PlanError:  # several images
            return None
    return None


def _dtype(slot: _SlotPlan, options: BatchOptions) -> torch.dtype:
    return torch.uint8 if slot.conversion is None or options.defer else options.dtype or torch.float32


def batch_bytes(recipe: Recipe, count: int, options: BatchOptions, fidelity: Fidelity) -> int | None:
    """Bytes of a batch of `count` such images; None where they don't go straight into one tensor."""
    slot = _slot_plan(recipe, fidelity)
    if slot is None:
        return None
    return count * slot.shape.height * slot.shape.width * slot.shape.channels * _dtype(slot, options).itemsize


@dataclass(slots=True)
class BatchBuilder:
    """Fills one tensor with a batch's images.

    Attributes:
        count: images in the batch.
        options: what is wanted.
        fidelity: as the dataset's.
        shared: allocate in shared memory, to be handed to another process without a copy.
    """

    count: int
    options: BatchOptions
    fidelity: Fidelity
    shared: bool
    _plans: dict[int, _SlotPlan] = field(default_factory=dict)
    _images: torch.Tensor | None = None
    _slot: Slot | None = None

    def accept(self, position: int, recipe: Recipe) -> bool:
        """Plans the image of a slot; False where it doesn't fit into a batch with the ones before."""
        slot = _slot_plan(recipe, self.fidelity)
        lap("plan")
        first = next(iter(self._plans.values()), slot)
        if slot is None or first is None or slot.shape != first.shape:
            return False
        if (slot.conversion is None) != (first.conversion is None) or (self.options.defer and slot.after):
            return False
        if self._images is None:
            dtype = _dtype(slot, self.options)
            shape = (self.count, *slot.shape)
            self._images, self._slot = _allocate(shape, dtype, self.options.channels_last, self.shared)
        self._plans[position] = slot
        return True

    def plan(self, position: int) -> DecodePlan:
        slot = self._plans[position]
        return DecodePlan(slot.plan.request, slot.before)

    def fill(self, position: int, image: NDArray[np.uint8]) -> None:
        """Converts an image, which the plan's decode and steps made, into its slot. Threads may fill at once."""
        slot = self._plans[position]
        assert self._images is not None
        if image.shape[:2] != slot.shape.size or (image.shape[2] if image.ndim == 3 else 1) != slot.shape.channels:
            raise PlanError(f"{[*map(str, slot.before)]} gave an image {image.shape}; promised was {tuple(slot.shape)}")
        out = self._images[position]
        conversion = None if self.options.defer else slot.conversion
        if slot.after or (conversion is not None and out.dtype != torch.float32):
            assert conversion is not None
            tensor = conversion.apply(image)
            lap(conversion)
            for step in slot.after:
                tensor = step.apply(tensor)
                lap(step)
            out.copy_(tensor)
        elif self.options.channels_last:
            _fill_interleaved(image, conversion, out.permute(1, 2, 0).numpy())
        elif conversion is None:
            kernels.array_to_tensor(image, out)
        else:
            conversion.apply_into(image, out)

    def finish(self, targets: list[Any], positions: Sequence[int]) -> ImageBatch:
        """The batch of these slots, which are filled; the others are left out.

        Args:
            targets: one for each of these slots.
            positions: at least one, rising.
        """
        assert self._images is not None
        for place, position in enumerate(positions):  # moved within the same, maybe shared, memory
            if place != position:
                self._images[place].copy_(self._images[position])
        images = self._images[: len(positions)]
        plans = [self._plans[position].conversion for position in positions]
        if not self.options.defer or any(conversion is None for conversion in plans):
            return ImageBatch(images, targets, None, self._slot)
        return ImageBatch(images, targets, [(c.mean, c.std) for c in plans if c is not None], self._slot)


def _fill_interleaved(image: NDArray[np.uint8], conversion: ToNormalizedTensor | None, out: NDArray[Any]) -> None:
    if image.size == 0:
        return
    pixels = image if image.ndim == 3 else image[..., None]
    if conversion is None:
        np.copyto(out, pixels)
        return
    table = np.ascontiguousarray(conversion.table().T)[:, None]  # (256, 1, C)
    np.copyto(out, cv2.LUT(pixels, table).reshape(out.shape))


def _allocate(
    shape: Sequence[int], dtype: torch.dtype, channels_last: bool, shared: bool
) -> tuple[torch.Tensor, Slot | None]:
    """An uninitialised batch; shape is ``(N, H, W, C)``, the result ``(N, C, H, W)``."""
    count, height, width, channels = shape
    layout = (count, height, width, channels) if channels_last else (count, channels, height, width)
    slot = None
    if shared:
        size = count * height * width * channels * dtype.itemsize
        slots = worker_slots()
        slot = slots.find(size, _new_shared) if slots is not None and size else None
        piece = _new_shared(size) if slot is None else slot.piece
        batch = piece[:size].view(dtype).view(layout)
    else:
        batch = torch.empty(layout, dtype=dtype)
    return batch.permute(0, 3, 1, 2) if channels_last else batch, slot


def _new_shared(size: int) -> torch.Tensor:
    # What torch's default_collate does in a worker, through the same function.
    try:
        storage: Any = torch.UntypedStorage._new_shared(size)  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        if "shared memory" not in str(error):
            raise
        raise too_small(size, "this batch takes") from error
    return torch.empty(0, dtype=torch.uint8).set_(storage)
