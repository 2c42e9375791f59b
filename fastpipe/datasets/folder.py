"""Image files in one folder a class: torchvision's layout, order, attributes and errors."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, overload

import numpy as np
from PIL import Image

from fastpipe.datasets.base import SampleT
from fastpipe.datasets.indexed import IndexedDataset
from fastpipe.datasets.options import ReadOptions, Unpack, with_options
from fastpipe.datasets.standard_transform import default_loader
from fastpipe.errors import DatasetError
from fastpipe.index.extensions import IMG_EXTENSIONS, has_file_allowed_extension, is_image_file
from fastpipe.index.image_index import ImageIndex
from fastpipe.index.make_dataset import check_no_class_is_empty, find_classes, make_dataset
from fastpipe.paths import local_path
from fastpipe.sources import ByteSource, Cache, CachedSource, source_of
from fastpipe.types import Transform

ImageT = TypeVar("ImageT")

__all__ = [
    "IMG_EXTENSIONS",
    "ImageFolder",
    "find_classes",
    "has_file_allowed_extension",
    "is_image_file",
    "make_dataset",
]


class ImageFolder(IndexedDataset[SampleT]):
    """A map-style dataset over ``root/class/….jpg``; a drop-in for ``torchvision.datasets.ImageFolder``.

    A fastpipe transform is drawn from the image's size before a pixel is decoded, so that only the crop is
    decoded; any other transform gets the PIL image that it expects. Either way the sample equals torchvision's
    for the same seed, bit for bit.

    Args:
        root: one of

            - the folder that holds one folder for each class,
            - a zip or tar of such a folder, packed without compression (``zip -0 -r``, ``tar -cf``), or a folder in it
              (``"photos.zip/train"``). If an archive has a single top folder that holds the class folders, that folder
              is used. Images are read at their offset in the archive; paths are `fastpipe.types.ArchiveMember`,
            - a URL (``"s3://bucket/train"``, see `fastpipe.RemoteSource`) or a `fastpipe.ByteSource` with files
              ``class/….jpg``; paths are `fastpipe.types.RemoteFile`.
        transform: takes a PIL image (a fastpipe transform: is compiled).
        target_transform: takes the class index.
        loader: takes a path and returns an image. Any but the default switches off compiled decoding.
        is_valid_file: takes a path and says whether it is a sample; None goes by extension.
        allow_empty: whether a class folder may be without a valid file.
        reader: the name of a reader to use for every format; or of some formats, ``{"jpg": "cv2", "png": "pil"}`` or
            ``"jpg=cv2,png=pil"``, where the config names the others; None for the config's.
        config: the machine's config; None for the one on disk.
        apply_exif: turn each image upright by its EXIF orientation; torchvision's loader doesn't.
        max_pixels: an image with more pixels causes a warning, one with more than twice as many an error; None for no
            limit, ``"auto"`` for ``FASTPIPE_MAX_PIXELS`` or else Pillow's own. As in `fastpipe.readers.read_image`.
        seed: make each sample's random numbers depend on (seed, epoch, index) alone; None draws them from the global
            generators as torchvision does. See `set_epoch`.
        threads: how many threads decode a batch (``__getitems__``) within one process; 0 for none but the caller's.
        on_error: what to do with a sample whose file can't be read: ``"raise"`` its error, ``"skip"`` the sample,
            ``"replace"`` it by another of its class, or call a function that decides: see `ImageDataset`.
        bad_files_log: the CSV file that lists skipped and replaced files, each once; None for none.
        max_bad_fraction: the run is stopped if more than this fraction of an epoch's samples is bad.
        index: where the list of files is kept between runs: ``"auto"`` in the user's cache folder
            (``FASTPIPE_CACHE`` overrides), or a folder of your choice; None keeps it in memory. When the dataset is
            made, a kept index is compared with the times of all folders, and changed folders are listed again; a store
            without folder times, such as S3, is listed as a whole. An `ImageIndex` is used without a check. Ignored
            with `is_valid_file`, and in a subclass that overrides `find_classes` or `make_dataset`: then the samples
            are a list, as in torchvision.
        cache: the `fastpipe.Cache` that keeps images read from a store on this machine; None for none.

    Attributes:
        classes: class names, sorted.
        class_to_idx: their indices.
        samples, imgs: ``(path, class index)`` pairs: a view that makes them on demand and equals a list of them.
            Assign a list to change what the dataset holds.
        targets: the class index of each sample, a view as well.
        extensions: endings of the files that count; None with `is_valid_file`.
        is_valid_file: as given.
        index: the `ImageIndex`; None if the samples are a list.

    Raises:
        TypeError: `root` is no path, such as None, or `is_valid_file` no function.
        FileNotFoundError: `root` is no folder, has no class folder, or a class has no valid file.
        StoreError: a store doesn't answer.
        DatasetError: a link leads back to a folder above it, the index can't be kept in the given folder, or an archive
            is damaged or compressed; the message names the member.
        DecodeError, OSError: from ``dataset[index]``: the file can't be decoded or opened; names file and index.
        BadFilesError: from ``dataset[index]``: too many files are bad, or a class has no good file for a replacement.
    """

    _fastpipe_endings: tuple[str, ...] = IMG_EXTENSIONS

    # Defaults, which needn't be sent to workers.
    extensions: tuple[str, ...] | None = IMG_EXTENSIONS
    is_valid_file: Callable[[str], bool] | None = None

    source: ByteSource | None = None
    """The store that has the files, with its cache; None for this machine's file system."""

    @overload
    def __init__(
        self: ImageFolder[tuple[Image.Image, int]],
        root: str | Path | ByteSource,
        transform: None = None,
        target_transform: None = None,
        *,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
        index: ImageIndex | str | os.PathLike[str] | None = "auto",
        cache: Cache | None = None,
        **options: Unpack[ReadOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: ImageFolder[tuple[ImageT, int]],
        root: str | Path | ByteSource,
        transform: Callable[..., ImageT],
        target_transform: None = None,
        loader: Callable[[str], object] = default_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
        *,
        index: ImageIndex | str | os.PathLike[str] | None = "auto",
        cache: Cache | None = None,
        **options: Unpack[ReadOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        root: str | Path | ByteSource,
        transform: Transform | None = None,
        target_transform: Transform | None = None,
        loader: Callable[[str], object] = default_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
        *,
        index: ImageIndex | str | os.PathLike[str] | None = "auto",
        cache: Cache | None = None,
        **options: Unpack[ReadOptions],
    ) -> None: ...

    @with_options(ReadOptions)  # type: ignore[misc]  # the decorated **options take no name, says mypy
    def __init__(
        self,
        root: str | Path | ByteSource,
        transform: Transform | None = None,
        target_transform: Transform | None = None,
        loader: Callable[[str], object] = default_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
        *,
        index: ImageIndex | str | os.PathLike[str] | None = "auto",
        cache: Cache | None = None,
        **options: Unpack[ReadOptions],
    ) -> None:
        super().__init__(transform, target_transform, loader=loader, **options)
        if not isinstance(root, (str, os.PathLike, ByteSource)):
            raise TypeError(f"root={root!r}: give the folder of the class folders, as a str or a pathlib.Path.")
        self.source = source_of(root, cache)
        if self.source is not None:
            self.root = self.source.name
        else:
            assert not isinstance(root, ByteSource)
            self.root = local_path(root) if isinstance(root, str) else root
        if not (is_valid_file is None or callable(is_valid_file)):
            raise TypeError(f"is_valid_file={is_valid_file!r:.80}: give a function that takes a path, or None.")
        self.extensions = self._fastpipe_endings if is_valid_file is None else None
        self.is_valid_file = is_valid_file
        kind = type(self)
        lists = kind.find_classes is not ImageFolder.find_classes or kind.make_dataset is not ImageFolder.make_dataset
        if is_valid_file is None and not lists:
            opened = self._fastpipe_open_index(index)
            self.source = opened.source  # for an archive in a store: the folder that holds the archive
            self.classes, self.class_to_idx = _classes_of(opened)
            empty = [self.classes[number] for number in np.flatnonzero(opened.counts() == 0)]
            check_no_class_is_empty(empty, self.extensions, allow_empty)
            self._fastpipe_set_samples(opened)
        elif self.source is not None:
            raise DatasetError(
                f"is_valid_file, find_classes and make_dataset need a folder, and {self.root} is none: give the "
                "samples as a list, with fastpipe.ImageList."
            )
        else:
            self.classes, self.class_to_idx = self.find_classes(self.root)
            samples = self.make_dataset(
                self.root,
                self.class_to_idx,
                extensions=self.extensions,
                is_valid_file=is_valid_file,
                allow_empty=allow_empty,
            )
            self._fastpipe_set_samples(samples)

    def _fastpipe_open_index(self, index: ImageIndex | str | os.PathLike[str] | None) -> ImageIndex:
        assert self.root is not None
        if not isinstance(index, ImageIndex):
            return ImageIndex.from_folder(self.source or self.root, location=index, extensions=self._fastpipe_endings)
        if index.source is not None and index.root == self.root:
            cache = self.source.cache if isinstance(self.source, CachedSource) else None
            return index if cache is None else index.read_through(cache.over(index.source))
        if os.path.abspath(index.root) != os.path.abspath(self.root):
            raise DatasetError(
                f"the index is of {index.root}, not of {self.root}: make one with ImageIndex.from_folder."
            )
        return index

    @staticmethod
    def make_dataset(
        directory: str | Path,
        class_to_idx: dict[str, int],
        extensions: tuple[str, ...] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> list[tuple[str, int]]:
        """Lists the samples; override it to list them another way.

        Raises:
            ValueError: `class_to_idx` is None: the classes come from `find_classes`.
        """
        if class_to_idx is None:
            raise ValueError("The class_to_idx parameter cannot be None.")
        return make_dataset(directory, class_to_idx, extensions, is_valid_file, allow_empty)

    def find_classes(self, directory: str | Path) -> tuple[list[str], dict[str, int]]:
        """Returns class names and indices; override it to use only some folders, or other indices."""
        return find_classes(directory)

    def __getstate__(self) -> dict[str, object]:
        state = super().__getstate__()
        state.pop("is_valid_file", None)  # no longer needed once the files are listed, and often can't be pickled
        # The index has the class names; a thousand of them would be most of the bytes sent to a worker.
        if self.index is not None and _classes_of(self.index) == (self.classes, self.class_to_idx):
            del state["classes"], state["class_to_idx"]
        return state

    def __setstate__(self, state: dict[str, object]) -> None:
        super().__setstate__(state)
        if self.index is not None and "classes" not in state:
            self.classes, self.class_to_idx = _classes_of(self.index)


def _classes_of(index: ImageIndex) -> tuple[list[str], dict[str, int]]:
    return list(index.classes), dict(zip(index.classes, index.class_values, strict=True))
