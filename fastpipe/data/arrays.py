"""`ArrayFolder` and `ArrayList`: raw arrays, read straight into batches by the core's threads."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import get_worker_info

from fastpipe import core
from fastpipe.data._lists import Column
from fastpipe.data.array_form import ArrayFile, Form, form_of, load, raw_form
from fastpipe.data.bad_files import OnError
from fastpipe.data.base import ImageDataset
from fastpipe.data.folder import ImageFolder
from fastpipe.data.image_list import ImageList
from fastpipe.data.index import ImageIndex
from fastpipe.data.jobs import Job
from fastpipe.errors import DatasetError
from fastpipe.program import BatchOptions, ImageBatch, Pipeline, Started, batch_memory, lap, pool_of, works_together
from fastpipe.sources import ByteSource, Cache, fetched
from fastpipe.transforms.geometry import RandomCrop
from fastpipe.types import Generators, Recipe, Stored

_RAW = (".bin", ".raw", ".dat")
Box = tuple[int, int, int, int]


class ArrayBatch:
    """Fills one tensor with a batch's arrays, as `fastpipe.program.BatchBuilder` does with images.

    Args:
        count: arrays in the batch.
        options: what is wanted.
        shared: whether it goes to another process.
    """

    def __init__(self, count: int, options: BatchOptions, shared: bool) -> None:
        self._count = count
        self._options = options
        self._shared = shared
        self.arrays: torch.Tensor | None = None
        self._slot: Any = None

    def accept(self, shape: tuple[int, ...], dtype: torch.dtype) -> bool:
        """Whether such an array fits beside the ones before."""
        if self.arrays is None:
            self.arrays, self._slot = batch_memory((self._count, *shape), dtype, self._options, self._shared)
        return tuple(self.arrays.shape[1:]) == shape and self.arrays.dtype == dtype

    def finish(self, targets: list[Any], positions: Sequence[int]) -> ImageBatch:
        """The batch of these places, which rise; the others are left out."""
        assert self.arrays is not None
        for place, position in enumerate(positions):
            if place != position:
                self.arrays[place].copy_(self.arrays[position])
        return ImageBatch(self.arrays[: len(positions)], targets, None, self._slot)


class Arrays(ImageDataset):
    """What a dataset of arrays has in place of images; `ArrayFolder` and `ArrayList` are made of it."""

    __form: Form | None = None
    __given: bool = False
    __crop: RandomCrop | None = None

    def _set_up(self, crop: Any, dtype: Any, shape: Any) -> None:
        if (dtype is None) != (shape is None):
            raise DatasetError("raw arrays need both dtype= and shape=; .npy files say both themselves.")
        if dtype is not None:
            self.__form, self.__given = raw_form(dtype, shape), True
        if crop is not None:
            self.__crop = RandomCrop(crop)

    def _look(self) -> None:
        """The first file's form, before workers are started; what is wrong with it is told with its sample."""
        with contextlib.suppress(OSError):
            if len(self):
                _ = self.form

    @property
    def pipeline(self) -> Pipeline:
        rest = () if self.transform is None else (self.transform,)
        known = self._fastpipe.pipeline
        if known is None or known.rest != rest:
            self._fastpipe.pipeline = known = Pipeline(() if self.__crop is None else (self.__crop,), rest)
        return known

    @property
    def form(self) -> Form:
        """Type and shape of the arrays: as given, or those of the first file that can be read."""
        if self.__form is None:
            for index in range(len(self)):
                try:
                    self.__form = form_of(self.sample(index)[0])
                    return self.__form
                except OSError:
                    if self.on_error == "raise" or index + 1 == len(self):
                        raise
            raise DatasetError("there is no array in this dataset.")
        return self.__form

    def _form_at(self, path: str, content: str | bytes | None = None) -> Form:
        form = self.form if self.__given else form_of(path, content)
        if self.__crop is not None and len(form.shape) < 2:
            raise DatasetError(f"{path} holds {form}: crop= takes arrays with at least two axes.")
        return form

    def _recipe_of(self, job: Job, generators: Generators) -> Recipe:
        return self.pipeline.draw(self._form_at(job.path).size, generators)

    def _builder(self, count: int, options: BatchOptions) -> Any:
        if options.dtype is not None or options.channels_last:
            return None  # what is collated is converted there
        return ArrayBatch(count, options, get_worker_info() is not None)

    def _read(self, job: Job, source: str | bytes | None = None) -> Job:
        if source is None and isinstance(job.path, Stored):
            (source,), errors = fetched([job.path])
            if errors:
                raise errors[0]
        file: Any = ArrayFile(self._form_at(job.path, source), job.path if source is None else source)
        job.encoded = file
        lap("header")
        return job

    def _read_together(self, jobs: Sequence[Job], threads: int) -> None:
        """Takes arrays to be as the first is; where a window is drawn, that is looked at before."""
        contents, errors = fetched([job.path for job in jobs])
        for number, error in errors.items():
            self._fail(jobs[number], error)
        form: Form | None = None
        statuses = [int(core.Status.OK)] * len(jobs)
        try:
            form = self.form
        except OSError:  # as is told one by one
            statuses = [int(core.Status.IO_ERROR)] * len(jobs)
        if form is not None and self.__crop is not None:
            if len(form.shape) < 2:
                self._form_at(jobs[0].path, contents[0])
            # Bytes at hand are looked at below: an empty name is no file.
            names = ["" if isinstance(content, bytes) else content for content in contents]
            parts = [core.ArrayPart(name, (0, 0, 0, 0), 0) for name in names]
            statuses = core.read_arrays(form.in_core(), parts, pool_of(threads))
        for job, content, status in zip(jobs, contents, statuses, strict=True):
            if job.error is not None:
                continue
            if status == core.Status.OK and form is not None:
                file: Any = ArrayFile(form, content)
                job.encoded = file
            else:
                self._read_or_fail(job, content)
        lap("read")

    def _fits(self, builder: Any, position: int, job: Job) -> bool:
        if job.finished is not None or job.encoded is None:
            return False
        form = _form(job)
        return bool(builder.accept(form.cropped(_box(job)), form.dtype))

    def _start_into(self, builder: Any, jobs: Sequence[tuple[int, Job]], threads: int) -> Started:
        """Each job's array into its place in the batch, all of one form in one call of the core."""
        out = builder.arrays
        left: list[tuple[int, Job]] = []
        if jobs and works_together() and _form(jobs[0][1]).in_order:
            form = _form(jobs[0][1])
            stride = out[0].numel() * out.itemsize
            left = []
            alike, parts = [], []
            for position, job in jobs:
                content = _content(job)
                if _form(job) is form and isinstance(content, str):
                    alike.append((position, job))
                    parts.append(core.ArrayPart(content, form.window(_box(job)), out.data_ptr() + position * stride))
                else:
                    left.append((position, job))
            statuses = core.read_arrays(form.in_core(), parts, pool_of(threads))
            left += [one for one, status in zip(alike, statuses, strict=True) if status != core.Status.OK]
        else:
            left = list(jobs)

        def one(item: tuple[int, Job]) -> None:
            position, job = item
            try:
                out[position].copy_(self._decode(job))
            except Exception as error:
                self._fail(job, error)

        list(self._map(threads, one, left))
        lap("decode")
        return Started([], [], None, None)  # all are made

    def _decode(self, job: Job) -> torch.Tensor:
        made = load(job.path, _form(job), _box(job), _content(job))
        lap("decode")
        return made


def _form(job: Job) -> Form:
    file: Any = job.encoded
    form: Form = file.form
    return form


def _content(job: Job) -> str | bytes:
    file: Any = job.encoded
    content: str | bytes = file.content
    return content


def _box(job: Job) -> Box | None:
    steps: Any = () if job.recipe is None else job.recipe.steps
    return (steps[0].top, steps[0].left, steps[0].height, steps[0].width) if steps else None


class ArrayFolder(Arrays, ImageFolder):
    """A map-style dataset over ``root/class/….npy``: as `ImageFolder`, of arrays.

    A sample is ``(tensor, class index)``. In a `fastpipe.DataLoader` a batch's arrays are read straight into its
    memory, by the core's threads, without the interpreter's lock and without a copy; arrays in big-endian order are
    turned on the way. With torch's loader each sample is a tensor of its own.

    Args:
        root: the folder that holds one folder a class; or a zip or tar of it, a URL or a `fastpipe.ByteSource`, as
            `ImageFolder` takes them. What is read from a store without a cache is copied once more.
        transform: takes the tensor. It runs one by one in Python: batches are then collated from a list.
        target_transform: takes the class index.
        crop: height and width (or one number) of a window of the last two axes, drawn as torchvision's `RandomCrop`
            draws it; only the window is read. None for whole arrays.
        dtype, shape: of files without a header: a dtype of torch or NumPy (``">f4"`` is big-endian), and the lengths of
            all axes. Files are then those that end in .bin, .raw or .dat. None for .npy files, which say both.
        extensions: other endings of the files that count, lower-case.
        allow_empty, seed, threads, on_error, bad_files_log, max_bad_fraction, index, cache: as in `ImageFolder`.

    Attributes:
        form: type and shape of the first array, or as given.
        classes, class_to_idx, samples, targets, index: as of `ImageFolder`.

    Raises:
        FileNotFoundError: `root` is no folder, has no class folder, or a class has no valid file.
        DatasetError: only one of `dtype` and `shape` is given, or they are none; of a batch: its arrays are of several
            types or shapes.
        DecodeError, OSError: of ``dataset[index]``: the file is no array, too short, holds Python objects, or can't be
            opened; names file and index.
    """

    def __init__(
        self,
        root: str | Path | ByteSource,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        *,
        crop: int | Sequence[int] | None = None,
        dtype: Any = None,
        shape: Sequence[int] | None = None,
        extensions: tuple[str, ...] | None = None,
        allow_empty: bool = False,
        seed: int | None = None,
        threads: int = 0,
        on_error: OnError = "raise",
        bad_files_log: str | os.PathLike[str] | None = None,
        max_bad_fraction: float = 0.1,
        index: ImageIndex | str | os.PathLike[str] | None = "auto",
        cache: Cache | None = None,
    ) -> None:
        self._set_up(crop, dtype, shape)
        self._fastpipe_endings = extensions or ((".npy",) if dtype is None else _RAW)
        super().__init__(
            root,
            transform,
            target_transform,
            allow_empty=allow_empty,
            seed=seed,
            threads=threads,
            on_error=on_error,
            bad_files_log=bad_files_log,
            max_bad_fraction=max_bad_fraction,
            index=index,
            cache=cache,
        )
        self._look()


class ArrayList(Arrays, ImageList):
    """A map-style dataset over a list of files of arrays and labels: as `ImageList`, of arrays.

    Args:
        source: as of `ImageList`.
        transform, target_transform, crop, dtype, shape: as in `ArrayFolder`.
        root, columns: as in `ImageList`.
        seed, threads, on_error, bad_files_log, max_bad_fraction, cache: as in `ImageFolder`.

    Attributes:
        form: type and shape of the first array, or as given.
        samples, targets, classes, class_to_idx, index: as of `ImageList`; so are `subset` and `split`.

    Raises:
        DatasetError, DecodeError, OSError: as of `ImageList` and `ArrayFolder`.
    """

    def __init__(
        self,
        source: Any,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        *,
        crop: int | Sequence[int] | None = None,
        dtype: Any = None,
        shape: Sequence[int] | None = None,
        root: str | os.PathLike[str] | ByteSource | None = None,
        columns: tuple[Column, Column] = ("path", "label"),
        seed: int | None = None,
        threads: int = 0,
        on_error: OnError = "raise",
        bad_files_log: str | os.PathLike[str] | None = None,
        max_bad_fraction: float = 0.1,
        cache: Cache | None = None,
    ) -> None:
        self._set_up(crop, dtype, shape)
        super().__init__(
            source,
            transform,
            target_transform,
            root=root,
            columns=columns,
            seed=seed,
            threads=threads,
            on_error=on_error,
            bad_files_log=bad_files_log,
            max_bad_fraction=max_bad_fraction,
            cache=cache,
        )
        self._look()
