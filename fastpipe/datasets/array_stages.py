"""The stages of arrays: files to tensors, read straight into a batch by the core's threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.utils.data import get_worker_info

from fastpipe import core
from fastpipe.core import ThreadResources
from fastpipe.datasets.array_form import ArrayFile, Form, form_of, load_array
from fastpipe.errors import DatasetError
from fastpipe.executor import (
    BatchSlots,
    BatchSpec,
    CoreTasks,
    ImageStages,
    SampleTask,
    StageOptions,
    batch_memory,
)
from fastpipe.ops import Crop
from fastpipe.sources import fetch_files
from fastpipe.types import Box, Generators, Recipe


class ArraySlots(BatchSlots):
    """The slots of a batch of arrays of one shape and dtype.

    Args:
        count: the number of arrays in the batch.
        options: the dtype and memory that the loader asks for.
    """

    def __init__(self, count: int, options: BatchSpec) -> None:
        self._count, self._options = count, options

    def accept(self, task: SampleTask) -> bool:
        form: Form = task.encoded.form
        shape = form.cropped(_box(task))
        if self.images is None:
            shared = get_worker_info() is not None
            self.images = batch_memory((self._count, *shape), form.dtype, self._options, shared)
        return tuple(self.images.shape[1:]) == shape and self.images.dtype == form.dtype


class ArrayStages(ImageStages):
    """The stages of arrays.

    Args:
        options: as of `ImageStages`.
        form: returns the form of the arrays: the user's, or that of the first file.
        form_is_given: the user gave the form, as the files have no headers.
    """

    def __init__(self, options: StageOptions, form: Callable[[], Form], form_is_given: bool) -> None:
        super().__init__(options)
        self._form, self._form_is_given = form, form_is_given
        self._crops = bool(self.pipeline.drawn)

    def slots(self, count: int, options: BatchSpec) -> ArraySlots | None:
        if self.pipeline.unplanned or options.dtype is not None or options.channels_last:
            return None  # samples are collated, and converted then
        return ArraySlots(count, options)

    def read(self, tasks: Sequence[SampleTask], resources: ThreadResources | None) -> None:
        """Assumes that all arrays have the form of the first; checks each header only if a window will be drawn."""
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
        """Returns the form that arrays are assumed to have, and a status for each: OK if its header agrees."""
        unknown = None, [int(core.Status.IO_ERROR)] * len(tasks)
        if not tasks or resources is None:
            return unknown
        try:
            form = self._form()
        except OSError:  # each sample's own read reports it
            return unknown
        if not self._crops:
            return form, [int(core.Status.OK)] * len(tasks)
        if len(form.shape) < 2:
            self._form_of(tasks[0], contents[0])
        # Contents that are bytes are checked one by one later: the empty name fails here.
        names = ["" if isinstance(content, bytes) else content for content in contents]
        parts = [core.ArrayPart(name, (0, 0, 0, 0), 0) for name in names]
        return form, core.read_arrays(form.in_core(), parts, resources.pool)

    def read_one(self, task: SampleTask, source: str | bytes | None = None) -> None:
        with self.errors_noted(task):
            if source is None:
                (source,), errors = fetch_files([task.source])
                if errors:
                    raise errors[0]
            form = self._form_of(task, source)
            task.encoded, task.shape = ArrayFile(form, source), form.size

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
        """Does nothing: a drawn window needs no lowering to be read."""

    def fill_jobs(
        self, tasks: Sequence[SampleTask], slots: BatchSlots | None, resources: ThreadResources | None
    ) -> CoreTasks:
        """Reads each array into its place in the batch, all of one form in one call of the core; no job is left."""
        if slots is None or not tasks or resources is None or not tasks[0].encoded.form.in_order:
            return CoreTasks(list(tasks))
        form: Form = tasks[0].encoded.form
        out = slots.images
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
        return CoreTasks(rejected)

    def make(self, task: SampleTask, out: torch.Tensor | None) -> None:
        content = task.encoded.content
        form = self._form_of(task, content) if out is None else task.encoded.form  # arrays of a list may differ in form
        tensor = load_array(task.path, form, _box(task), content)
        if out is None:
            task.image = tensor
        else:
            out.copy_(tensor)


def _box(task: SampleTask) -> Box | None:
    """The drawn window; None for the whole array."""
    if not task.steps:
        return None
    (crop,) = task.steps
    assert isinstance(crop, Crop)
    return crop.box
