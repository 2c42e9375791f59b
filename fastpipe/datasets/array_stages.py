"""The stages of arrays: files to tensors, read straight into a batch by the core's threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.data import get_worker_info

from fastpipe import core
from fastpipe.core import ThreadResources
from fastpipe.datasets.array_form import ArrayFile, Form, form_of, load_array
from fastpipe.errors import DatasetError
from fastpipe.executor import (
    BatchSpec,
    CoreRun,
    ImageBatch,
    ImageStages,
    SampleTask,
    SlotAllocator,
    batch_memory,
)
from fastpipe.sources import fetch_files
from fastpipe.types import Generators, Recipe

Box = tuple[int, int, int, int]


class ArrayBatch:
    """The places of a batch of arrays in one tensor, as `fastpipe.program.BatchBuilder` has them for images.

    Args:
        count: arrays in the batch.
        options: what is wanted.

    Attributes:
        images: the tensor, once an array was accepted.
    """

    def __init__(self, count: int, options: BatchSpec) -> None:
        self._count = count
        self._options = options
        self.images: torch.Tensor | None = None

    def accept(self, task: SampleTask) -> bool:
        """Gives an array its place; False where it doesn't fit beside the ones before."""
        form: Form = task.encoded.form
        shape = form.cropped(_box(task))
        if self.images is None:
            shared = get_worker_info() is not None
            self.images = batch_memory((self._count, *shape), form.dtype, self._options, shared)
        return tuple(self.images.shape[1:]) == shape and self.images.dtype == form.dtype

    def place(self, position: int) -> torch.Tensor:
        assert self.images is not None
        return self.images[position]

    def finish(self, targets: list[object], positions: Sequence[int]) -> ImageBatch:
        """The batch of these places, which rise; the others are left out."""
        assert self.images is not None
        for place, position in enumerate(positions):
            if place != position:
                self.images[place].copy_(self.images[position])
        return ImageBatch(self.images[: len(positions)], targets)


class ArrayStages(ImageStages):
    """The stages of arrays.

    Args:
        given, options: as of `ImageStages`.
        form: gives the form of the arrays: as the user has said, or the first one's.
        form_is_given: the user has said it; files have no headers.
    """

    def __init__(self, *given: Any, form: Callable[[], Form], form_is_given: bool, **options: Any) -> None:
        super().__init__(*given, **options)
        self._form, self._form_is_given = form, form_is_given
        self._crops = bool(self.pipeline.drawn)

    def places(self, count: int, options: BatchSpec) -> ArrayBatch | None:
        if self.pipeline.unplanned or options.dtype is not None or options.channels_last:
            return None  # what is collated is converted there
        return ArrayBatch(count, options)

    def read(self, tasks: Sequence[SampleTask], resources: ThreadResources | None) -> None:
        """Takes arrays to be as the first is; where a window is drawn, that is looked at before."""
        contents, errors = fetch_files([task.source for task in tasks])
        for number, error in errors.items():
            self.policy.failed(tasks[number], error)
        form, statuses = self._look(tasks, contents, resources)
        for task, content, status in zip(tasks, contents, statuses, strict=True):
            if task.error is not None:
                continue
            if form is not None and status == core.Status.OK:
                task.encoded, task.shape = ArrayFile(form, content), form.size
            else:
                self.read_one(task, content)

    def _look(
        self, tasks: Sequence[SampleTask], contents: Sequence[str | bytes], resources: ThreadResources | None
    ) -> tuple[Form | None, list[int]]:
        """The form that arrays are taken to have, and for each whether it may be taken so."""
        unknown = None, [int(core.Status.IO_ERROR)] * len(tasks)
        if not tasks or resources is None:
            return unknown
        try:
            form = self._form()
        except OSError:  # as is told one by one
            return unknown
        if not self._crops:
            return form, [int(core.Status.OK)] * len(tasks)
        if len(form.shape) < 2:
            self._form_of(tasks[0], contents[0])
        # Bytes at hand are looked at one by one: an empty name is no file.
        names = ["" if isinstance(content, bytes) else content for content in contents]
        parts = [core.ArrayPart(name, (0, 0, 0, 0), 0) for name in names]
        return form, core.read_arrays(form.in_core(), parts, resources.pool)

    def read_one(self, task: SampleTask, source: str | bytes | None = None) -> None:
        try:
            if source is None:
                (source,), errors = fetch_files([task.source])
                if errors:
                    raise errors[0]
            form = self._form_of(task, source)
            task.encoded, task.shape = ArrayFile(form, source), form.size
        except Exception as error:  # raised again by the policy, unless the file is bad
            self.policy.failed(task, error)

    def _form_of(self, task: SampleTask, content: str | bytes) -> Form:
        form = self._form() if self._form_is_given else form_of(task.path, content)
        if self._crops and len(form.shape) < 2:
            raise DatasetError(f"{task.path} holds {form}: crop= takes arrays with at least two axes.")
        return form

    def recipe(self, task: SampleTask, generators: Generators) -> Recipe:
        self.read_one(task)
        if task.error is not None:
            raise task.error
        return self.pipeline.draw(task.encoded.form.size, generators)

    def lower(self, tasks: Sequence[SampleTask]) -> None:
        """Does nothing: a window is read as it was drawn."""

    def start(
        self, tasks: Sequence[SampleTask], places: SlotAllocator | None, resources: ThreadResources | None
    ) -> CoreRun:
        """Reads each array into its place in the batch, all of one form in one call of the core."""
        if places is None or not tasks or resources is None or not tasks[0].encoded.form.in_order:
            return CoreRun(list(tasks))
        form: Form = tasks[0].encoded.form
        out = places.images
        assert out is not None  # the tasks were accepted
        stride = out[0].numel() * out.itemsize
        rejected: list[SampleTask] = []
        alike: list[SampleTask] = []
        parts = []
        for task in tasks:
            content = task.encoded.content
            if task.encoded.form is form and isinstance(content, str):
                alike.append(task)
                window = form.window(_box(task))
                parts.append(core.ArrayPart(content, window, out.data_ptr() + task.slot * stride))
            else:
                rejected.append(task)
        statuses = core.read_arrays(form.in_core(), parts, resources.pool)
        rejected += [task for task, status in zip(alike, statuses, strict=True) if status != core.Status.OK]
        return CoreRun(rejected)

    def make(self, task: SampleTask, out: torch.Tensor | None) -> None:
        content = task.encoded.content
        form = self._form_of(task, content) if out is None else task.encoded.form  # a list may have several
        made = load_array(task.path, form, _box(task), content)
        if out is None:
            task.image = made
        else:
            out.copy_(made)


def _box(task: SampleTask) -> Box | None:
    """The window that was drawn: ``(top, left, height, width)``; None for all."""
    steps: Any = task.steps
    return (steps[0].top, steps[0].left, steps[0].height, steps[0].width) if steps else None
