"""`ArrayFolder` and `ArrayList`: raw arrays, read straight into batches by the core's threads."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import torch
from numpy.typing import DTypeLike

from fastpipe.datasets.array_form import Form, form_of, raw_form
from fastpipe.datasets.array_stages import ArrayStages
from fastpipe.datasets.base import ImageDataset, SampleT
from fastpipe.datasets.folder import ImageFolder
from fastpipe.datasets.image_list import ImageList
from fastpipe.datasets.options import SampleOptions, Unpack, with_options
from fastpipe.errors import DatasetError
from fastpipe.executor import ImageStages
from fastpipe.index.extensions import checked_extensions
from fastpipe.index.image_index import ImageIndex
from fastpipe.index.read_list import Column
from fastpipe.plain_lookup import are_same
from fastpipe.sources import ByteSource, Cache
from fastpipe.transforms.geometry import RandomCrop
from fastpipe.transforms.pipeline import Pipeline
from fastpipe.types import Transform

DataType: TypeAlias = "torch.dtype | DTypeLike"
_RAW = (".bin", ".raw", ".dat")


class Arrays(ImageDataset[SampleT]):
    """Mixin that reads arrays in place of images, for `ArrayFolder` and `ArrayList`."""

    __form: Form | None = None
    __given: bool = False
    __crop: RandomCrop | None = None

    def _fastpipe_set_form(
        self, crop: int | Sequence[int] | None, dtype: DataType | None, shape: Sequence[int] | None
    ) -> None:
        """Sets the crop, and the form of files without a header; comes before ``super().__init__``."""
        if (dtype is None) != (shape is None):
            raise DatasetError("raw arrays need both dtype= and shape=; .npy files have both in their headers.")
        if dtype is not None and shape is not None:
            self.__form, self.__given = raw_form(dtype, shape), True
        if crop is not None:
            try:
                random_crop = RandomCrop(crop)
                fits = all(side >= 1 for side in random_crop.size)
            except (TypeError, ValueError, OverflowError):
                fits = False
            if not fits:
                raise DatasetError(f"crop={crop!r:.80}: give a side or (height, width), whole numbers from 1 on.")
            self.__crop = random_crop

    def _fastpipe_read_form(self) -> None:
        """Reads the form of the first array, before workers are started; comes after ``super().__init__``."""
        with contextlib.suppress(OSError):  # an error of the first file is raised with its sample
            if len(self):
                _ = self.form

    @property
    def pipeline(self) -> Pipeline:
        rest = () if self.transform is None else (self.transform,)
        pipeline = self._fastpipe.pipeline
        if pipeline is None or not are_same(pipeline.unplanned, rest):
            self._fastpipe.pipeline = pipeline = Pipeline(() if self.__crop is None else (self.__crop,), rest)
        return pipeline

    @property
    def form(self) -> Form:
        """The arrays' dtype and shape: as given, or those of the first file that can be read."""
        if self.__form is None:
            for index in range(len(self)):
                try:
                    self.__form = form = form_of(self.sample(index)[0])
                    return form
                except OSError:
                    if self.on_error == "raise" or index + 1 == len(self):
                        raise
            raise DatasetError("there is no array in this dataset.")
        return self.__form

    def _fastpipe_stages(self) -> ImageStages:
        dataset = weakref.proxy(self)  # weak, as the dataset holds the stages
        return ArrayStages(self._fastpipe_stage_options(), lambda: dataset.form, self.__given)


class ArrayFolder(Arrays[SampleT], ImageFolder[SampleT]):
    """A map-style dataset over ``root/class/….npy``: like `ImageFolder`, for arrays.

    A sample is ``(tensor, class index)``. In a `fastpipe.DataLoader` a batch's arrays are read straight into its
    memory, by the core's threads, without the interpreter's lock and without a copy; arrays in big-endian order are
    turned on the way. With torch's loader each sample is a tensor of its own.

    Args:
        root: the folder that holds one folder a class; or a zip or tar of it, a URL or a `fastpipe.ByteSource`, as
            `ImageFolder` takes them. Arrays read from a store without a cache are copied once more.
        transform: takes the tensor. It runs in Python on each sample: batches are then collated from a list.
        target_transform: takes the class index.
        crop: height and width (or one number) of a window of the last two axes, drawn as torchvision's `RandomCrop`
            draws it; only the window is read. None for whole arrays.
        dtype, shape: for files without a header: a dtype of torch or NumPy (``">f4"`` is big-endian), and the lengths
            of all axes. The files are then those that end in .bin, .raw or .dat. None for .npy files.
        extensions: other endings of the files that count, lower-case.
        allow_empty, seed, threads, on_error, bad_files_log, max_bad_fraction, index, cache: as in `ImageFolder`.

    Attributes:
        form: dtype and shape of the first array, or as given.
        classes, class_to_idx, samples, targets, index: as in `ImageFolder`.

    Raises:
        FileNotFoundError: `root` is no folder, has no class folder, or a class has no valid file.
        DatasetError: only one of `dtype` and `shape` is given, or one isn't valid; or, from a loader, a batch's arrays
            differ in dtype or shape.
        DecodeError, OSError: from ``dataset[index]``: the file is no array, too short, holds Python objects, or can't
            be opened; the message names file and index.
    """

    @with_options(SampleOptions)
    def __init__(
        self,
        root: str | Path | ByteSource,
        transform: Transform | None = None,
        target_transform: Transform | None = None,
        *,
        crop: int | Sequence[int] | None = None,
        dtype: DataType | None = None,
        shape: Sequence[int] | None = None,
        extensions: tuple[str, ...] | None = None,
        allow_empty: bool = False,
        index: ImageIndex | str | os.PathLike[str] | None = "auto",
        cache: Cache | None = None,
        **options: Unpack[SampleOptions],
    ) -> None:
        own = (".npy",) if dtype is None else _RAW
        self._fastpipe_endings = own if extensions is None else checked_extensions(extensions)
        self._fastpipe_set_form(crop, dtype, shape)
        super().__init__(
            root, transform, target_transform, allow_empty=allow_empty, index=index, cache=cache, **options
        )
        self._fastpipe_read_form()


class ArrayList(Arrays[SampleT], ImageList[SampleT]):
    """A map-style dataset over a list of array files and labels: like `ImageList`, for arrays.

    Args:
        source: as in `ImageList`.
        transform, target_transform, crop, dtype, shape: as in `ArrayFolder`.
        root, columns: as in `ImageList`.
        seed, threads, on_error, bad_files_log, max_bad_fraction, cache: as in `ImageFolder`.

    Attributes:
        form: dtype and shape of the first array, or as given.
        samples, targets, classes, class_to_idx, index: as in `ImageList`; so are `subset` and `split`.

    Raises:
        DatasetError, DecodeError, OSError: as in `ImageList` and `ArrayFolder`.
    """

    @with_options(SampleOptions)
    def __init__(
        self,
        source: str | os.PathLike[str] | ImageIndex | Sequence[object],
        transform: Transform | None = None,
        target_transform: Transform | None = None,
        *,
        crop: int | Sequence[int] | None = None,
        dtype: DataType | None = None,
        shape: Sequence[int] | None = None,
        root: str | os.PathLike[str] | ByteSource | None = None,
        columns: tuple[Column, Column] = ("path", "label"),
        cache: Cache | None = None,
        **options: Unpack[SampleOptions],
    ) -> None:
        self._fastpipe_set_form(crop, dtype, shape)
        super().__init__(source, transform, target_transform, root=root, columns=columns, cache=cache, **options)
        self._fastpipe_read_form()
